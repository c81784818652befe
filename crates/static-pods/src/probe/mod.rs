//! The probes of a pod: when each check is performed, and what its results mean.
//!
//! ```text
//!   running containers --> Prober --due checks--> perform: exec, HTTP, TCP
//!                           ^  |                     |
//!                           |  \--> Health --> decide
//!                           |                        |
//!                           \------ CheckResult -----/
//! ```
//!
//! [`prober`] is pure: the time and the results are arguments. It follows the kubelet's prober.
//! [`perform`] performs the checks.

mod health;
mod http;
mod path;
pub(crate) mod perform;
mod prober;
mod tcp;
mod tls;
mod worker;

pub use health::{FailedProbe, Health};
pub use prober::{Change, DueCheck, Prober, Running};

use std::sync::Arc;

/// The result of one check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckResult {
    /// The check succeeded.
    Success,
    /// The check failed, for this reason.
    Failure(Arc<str>),
    /// The check could not be performed, for a reason that is not the container's fault. It does not
    /// count.
    Unknown(Arc<str>),
}
