//! The only client of an API server.
//!
//! ```text
//!   own_node (what an agent writes) --\
//!                                     client: deadlines, bounds --> kube's client
//!   ../fleet (what people read) ------/        \-> Failure: what failed, by type
//! ```

mod client;
mod failure;
mod own_node;

pub(crate) use client::{ApiClient, RequestSpec, Watch, WatchEvent};
pub use failure::Failure;
pub(crate) use failure::unusable;
pub(crate) use own_node::Api;
