//! The wire of the Kubernetes Container Runtime Interface, and nothing else.
//!
//! ```text
//!   proto/cri.proto  -->  gen/ (committed)  -->  messages, server stubs
//!                                                   |
//!   Endpoint ("unix:///run/…/x.sock") --> Client -- unary, streaming, list --> runtime
//!                                                   |
//!                             items --> lean: rows read in place, as the bytes arrive
//! ```
//!
//! [`Rpc`] is the one table of its methods. [`Client`] speaks CRI v1 or v1alpha2 as
//! [`ApiVersion`] says: the messages are the same, only the name of the service differs.
//! The two list answers, which are asked for every second, are never held whole:
//! [`Client::list`] hands out one item after the other, and [`lean`] reads it in place.

mod client;
mod endpoint;
pub mod fields;
pub mod frame;
mod items;
pub mod lean;
mod rpc;

pub use client::{ApiVersion, Client, Connect, Connecting};
pub use endpoint::{Endpoint, EndpointError};
pub use rpc::{NoSuchRpc, Rpc, Subject};

/// Messages and server stubs, generated from `proto/cri.proto`.
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("gen/runtime.v1.rs");
}
