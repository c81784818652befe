//! Explains why a node is NotReady, live or from a bundle.
//!
//! ```text
//!   collect (probes, host: the edge) --> facts: NodeFacts, plain data
//!                                            |
//!                                            v
//!        evidence: what serves, waits, suffers --> judges: one file for each cause
//!                                            |
//!                                            v
//!                                    diagnosis: findings in order
//! ```
//!
//! `collect` and `bundle` do IO; everything else is pure.

pub mod bundle;
pub mod collect;
pub mod diagnosis;
mod evidence;
pub mod facts;
mod judges;
pub mod limits;

#[cfg(test)]
#[path = "../tests/fixtures/node.rs"]
mod node;
