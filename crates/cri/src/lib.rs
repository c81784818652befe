//! The wire protocol of the Kubernetes Container Runtime Interface.
//!
//! ```text
//!   proto/cri.proto  -->  gen/ (committed)  -->  messages, server stubs
//!                                                   |
//!   Endpoint ("unix:///run/…/x.sock") --> Client -- unary, streaming, list --> runtime
//!                                                   |
//!                             items --> lean: rows read in place, as the bytes arrive
//! ```
//!
//! [`Rpc`] is the only table of CRI's methods. [`Client`] uses CRI v1 or v1alpha2, as
//! [`ApiVersion`] says: the messages are the same, only the name of the service differs. The
//! answers to the two list calls, which are made every second, are never collected whole:
//! [`Client::list`] passes on one item after the other, and [`lean`] reads it in place.
//!
//! ```no_run
//! use cri::{ApiVersion, Client, Endpoint, Rpc, v1};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint: Endpoint = "unix:///run/containerd/containerd.sock".parse()?;
//! let client = Client::new(&endpoint, 16 << 20);
//! let request = v1::VersionRequest::default();
//! let answer: v1::VersionResponse = client.unary(ApiVersion::V1, Rpc::Version, request).await?;
//! println!("{} {}", answer.runtime_name, answer.runtime_version);
//! # Ok(())
//! # }
//! ```

mod api_version;
#[cfg(feature = "client")]
mod client;
mod connection;
pub mod dockerd;
mod endpoint;
pub mod fields;
pub mod frame;
#[cfg(feature = "client")]
mod items;
pub mod lean;
mod rpc;

pub use api_version::ApiVersion;
#[cfg(feature = "client")]
pub use client::{Client, Connect, Connecting};
pub use connection::Connection;
pub use endpoint::{Endpoint, EndpointError, USUAL_PLACES};
pub use rpc::{NoSuchRpc, Rpc, Subject};

/// Messages and server stubs, generated from `proto/cri.proto`. They are excluded from doc tests:
/// indented lines in the comments of that file look like examples.
#[cfg(not(doctest))]
#[allow(missing_docs, unreachable_pub, clippy::all, clippy::pedantic)]
pub mod v1 {
    include!("gen/runtime.v1.rs");
}
