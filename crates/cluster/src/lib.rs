//! Reports a node to Kubernetes, for operators and controllers: a node condition,
//! events on the node and on the pods whose containers are stuck, and optionally a taint. [`fleet`]
//! shows all nodes of a cluster.
//!
//! ```text
//!   StatusReport --> condition, episodes, taint (pure: the wanted content)
//!                              |
//!   the own Node (watched) --> plan (pure: what is to be written, when, and when again)
//!                              |  Write            ^  how it ended
//!                              v                   |
//!                            writer (one thread) --> api: the only client of an API server
//! ```
//!
//! Relisting never waits for any of this: [`start`] returns a [`Reporter`], which keeps only the
//! newest report, and the writer has a thread of its own.

mod api;
mod backoff;
mod condition;
mod config;
mod episodes;
mod figures;
pub mod fleet;
mod node;
mod node_condition;
mod plan;
mod summary;
mod taint;
mod writer;

pub use api::Failure;
pub use condition::{Condition, Status};
pub use config::{KubernetesConfig, TaintWhen};
pub use figures::Figures;
pub use summary::{ANNOTATION, Culprit, Summary};
pub use writer::{Reporter, StartError, start};
