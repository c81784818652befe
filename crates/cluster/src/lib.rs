//! What Kubernetes is told of a node, where operators and controllers look: a node condition,
//! events on the node and on the pods whose containers are stuck, and a taint if it is wanted.
//! And what it knows of a whole [`fleet`], for people.
//!
//! ```text
//!   StatusReport --> condition, episodes, taint (pure: what is to be said)
//!                              |
//!   the own Node (watched) --> plan (pure: what is to be written, when, and when again)
//!                              |  Write            ^  how it ended
//!                              v                   |
//!                            writer (one thread) --> api: the one door to an API server
//! ```
//!
//! Nothing here is ever waited for by relisting: [`start`] gives a [`Teller`], which takes the
//! newest report and keeps no other, and the writer has a thread of its own.

mod api;
mod backoff;
mod condition;
mod conditioned;
mod config;
mod episodes;
mod figures;
pub mod fleet;
mod node;
mod plan;
mod summary;
mod taint;
mod writer;

pub use api::Failure;
pub use condition::{Condition, Status};
pub use config::{KubernetesConfig, TaintWhen};
pub use figures::Figures;
pub use summary::{ANNOTATION, Culprit, Summary};
pub use writer::{StartError, Teller, start};
