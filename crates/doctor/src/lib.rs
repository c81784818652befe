//! Explains why a node is NotReady, live or from a bundle.
//!
//! ```text
//!   collect: the runtime, the machine --> facts: NodeFacts, plain data <-- bundle
//!                                            |
//!                                            v
//!    evidence: what several judges use --> judges: one file for each cause
//!                                            |
//!                                            v
//!                                    diagnosis: findings, the most important first
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
