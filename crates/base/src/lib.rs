//! What the observer of a node's runtime and its guard share.
//!
//! ```text
//!   id       names of containers, sandboxes and pods
//!   ledger   which calls are outstanding, which are stuck, and whether the runtime answers at all
//!   host     files, sockets and directories, some of which may block
//! ```

pub mod host;
pub mod id;
pub mod ledger;

mod about;

pub use about::{About, OutstandingCall};
