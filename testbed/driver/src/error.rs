//! Errors. Each is one sentence that ends with the cause.

use std::time::Duration;

use tonic::Status;

/// The result of all functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is not one of the testbed, so it was not used.
    #[error(
        "{0} is not an endpoint of the testbed (/run/pleg-testbed/NAME/containerd.sock), and no other runtime is used"
    )]
    NotATestbed(String),
    /// The runtime cannot be reached.
    #[error("{what} failed: no connection to {endpoint}: {}", cause(.status))]
    NoConnection {
        /// The method and its object.
        what: String,
        /// The endpoint at which the runtime should listen.
        endpoint: cri::Endpoint,
        /// The transport's reason, in its sources.
        status: Box<Status>,
    },
    /// The runtime refused a call.
    #[error("{what} failed: {}", cause(.status))]
    Call {
        /// The method and its object.
        what: String,
        /// The runtime's answer.
        status: Box<Status>,
    },
    /// The runtime did not answer. During a fault this is often intended.
    #[error("{what} failed: no answer within {after:?}")]
    NoAnswer {
        /// The method and its object.
        what: String,
        /// The driver's deadline.
        after: Duration,
    },
    /// No pod of this driver has that name.
    #[error("there is no pod {0:?}")]
    NoPod(String),
    /// A pod with that name exists already.
    #[error("the pod {0:?} exists already")]
    PodExists(String),
    /// The pod exists, but the container does not.
    #[error("the pod {pod:?} has no {kind} {container:?}")]
    NoContainer {
        /// The pod's name.
        pod: String,
        /// "container" or "running container".
        kind: &'static str,
        /// The container's name.
        container: String,
    },
    /// The container has no process.
    #[error("the container {0} is not running")]
    NotRunning(String),
    /// An update that should stay outstanding was answered, so no status is locked.
    #[error(
        "no status is locked: the runtime answered, because the shim of the pod {pod:?} is not stopped"
    )]
    NotHeld {
        /// The pod's name.
        pod: String,
    },
    /// The kernel refused to kill the container's init process.
    #[error("process {pid} of the container {id} could not be killed: {source}")]
    Kill {
        /// The container.
        id: String,
        /// Its init process.
        pid: i32,
        /// The kernel's reason.
        source: std::io::Error,
    },
    /// The verbose status of a container does not have the form of containerd's.
    #[error("the verbose status of the container {0} cannot be read: {1}")]
    Info(String, serde_json::Error),
    /// The script failed. It reports the reason in one sentence.
    #[error("'testbed {verb}' failed: {reason}")]
    Script {
        /// The command line.
        verb: String,
        /// The last line of its standard error.
        reason: String,
    },
}

/// The reason why a call failed. The message of a transport error is only "transport error"; its
/// reason is the last of its sources.
fn cause(status: &Status) -> String {
    let mut last: &dyn std::error::Error = match std::error::Error::source(status) {
        Some(source) => source,
        None => return status.message().trim_end().to_owned(),
    };
    while let Some(source) = last.source() {
        last = source;
    }
    last.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cause_of_a_lost_connection_is_at_the_end() {
        let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
        let error = Error::Call {
            what: "ListPodSandbox".into(),
            status: Box::new(Status::from_error(Box::new(refused))),
        };
        assert_eq!(
            error.to_string(),
            "ListPodSandbox failed: connection refused"
        );
    }
}
