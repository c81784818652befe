//! The probes of a pod: when each check is made, and what its results mean.
//!
//! ```text
//!   containers that run ---> Prober --checks to make--> perform: exec, HTTP, TCP
//!                              ^  |                          |
//!                              |  \--> Health: started, ready, failed --> decide
//!                              \------------- what they found --------------/
//! ```
//!
//! [`prober`] is pure: it gets the time and what was found as arguments, and does what a kubelet's
//! prober does. [`perform`] makes the checks.

mod health;
mod http;
mod path;
pub mod perform;
pub mod prober;
mod tcp;
mod tls;
mod worker;

pub use health::{FailedProbe, Health, Kind};
pub use prober::{Change, CheckToMake, Prober, Running};

use std::sync::Arc;

/// What a check found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Finding {
    /// It is well.
    Success,
    /// It is not, for this reason.
    Failure(Arc<str>),
    /// The check could not be made, which is not the container's fault: it counts as not made.
    Unknown(Arc<str>),
}
