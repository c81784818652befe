//! The only client of an API server.
//!
//! ```text
//!   own_node (what an agent writes) --\
//!                                      door: deadlines, bounds --> kube's client
//!   ../fleet (what people read) ------/        \-> Failure: what failed, by type
//! ```

mod door;
mod failure;
mod own_node;

pub(crate) use door::{Asks, Door, Watch, Watched};
pub use failure::Failure;
pub(crate) use failure::unusable;
pub(crate) use own_node::Api;
