//! The service `pleg.guard.v1.Guard`, which a guard answers on the socket that it serves, and its
//! client.
//!
//! ```text
//!   agent, `pleg guard mode` --Client--> /run/pleg/cri.sock --path--> the guard itself
//!                       kubelet -------/                    \-------> the runtime
//! ```
//!
//! `proto/guard.proto` documents the messages. Any client that may connect to the socket may call it.
//!
//! An agent that observes the runtime through the guard sends the metadata [`OBSERVER`] with each call:
//! the guard then never answers in place of the runtime, but lets identical calls share one.

mod client;
mod messages;

pub use client::{Client, Error};
pub use messages::{
    Added, Difference, Mode, Phase, Pod, SetModeRequest, SetModeResponse, Status, StatusRequest,
    StuckCall, Unreachable,
};

/// The name of the service.
pub const SERVICE: &str = "pleg.guard.v1.Guard";

/// The methods, as they follow the name of the service in a path.
pub mod method {
    /// What the guard does now.
    pub const STATUS: &str = "Status";
    /// What it does from now on.
    pub const SET_MODE: &str = "SetMode";
}

/// The metadata of a call by a client that observes the runtime, and its value.
pub const OBSERVER: (&str, &str) = ("pleg-observer", "1");
