//! The service `pleg.guard.v1.Guard`, which a guard offers on its socket in addition to CRI, and a
//! client of it.
//!
//! ```text
//!   agent, `pleg guard mode` --Client--> /run/pleg/cri.sock --path--> the guard itself
//!                       kubelet -------/                    \-------> the runtime
//! ```
//!
//! `proto/guard.proto` documents the messages. Any client that may connect to the socket may call it.
//!
//! An agent that observes the runtime through the guard sends the metadata [`OBSERVER`] with each call:
//! the guard then never answers in place of the runtime, but equal calls share one call to the runtime.

mod client;
#[allow(missing_docs, reason = "proto/guard.proto documents the fields")]
mod messages;

pub use client::{Client, Error};
pub use messages::{
    Added, Difference, Mode, Phase, Pod, SetModeRequest, SetModeResponse, Status, StatusRequest,
    StuckCall, Unreachable,
};

/// The name of the service.
pub const SERVICE: &str = "pleg.guard.v1.Guard";

/// The names of the methods, which follow the name of the service in a path.
pub mod method {
    /// Returns the status of the guard.
    pub const STATUS: &str = "Status";
    /// Sets the mode of the guard.
    pub const SET_MODE: &str = "SetMode";
}

/// The metadata (a name and a value) with which an observer marks its calls.
pub const OBSERVER: (&str, &str) = ("pleg-observer", "1");
