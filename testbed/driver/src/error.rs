//! What can go wrong, each as one sentence with its cause at the end.

use std::time::Duration;

use tonic::Status;

/// The result of everything here.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why something could not be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The endpoint is not that of a test bed instance, so nothing was done to it.
    #[error(
        "{0} is no endpoint of the test bed (/run/pleg-testbed/NAME/containerd.sock), and no other runtime is driven"
    )]
    NotATestbed(String),
    /// The runtime cannot be reached.
    #[error("{what} failed: no connection to {endpoint}: {}", cause(.status))]
    NoConnection {
        /// The method and what it was called for.
        what: String,
        /// Where the runtime should listen.
        endpoint: cri::Endpoint,
        /// The transport's reason, in its sources.
        status: Box<Status>,
    },
    /// The runtime refused a call.
    #[error("{what} failed: {}", cause(.status))]
    Call {
        /// The method and what it was called for.
        what: String,
        /// The runtime's answer.
        status: Box<Status>,
    },
    /// The runtime did not answer; under a fault that is often what was wanted.
    #[error("{what} failed: no answer within {after:?}")]
    NoAnswer {
        /// The method and what it was called for.
        what: String,
        /// The driver's deadline.
        after: Duration,
    },
    /// No pod of this driver has that name.
    #[error("there is no pod {0:?}")]
    NoPod(String),
    /// A pod with that name is there already.
    #[error("there is a pod {0:?} already")]
    PodExists(String),
    /// The pod is there, the container is not.
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
    #[error("the container {0} does not run")]
    NotRunning(String),
    /// An update that was to stay outstanding was answered, so no status is locked.
    #[error(
        "nothing is locked: the runtime answered, since the shim of the pod {pod:?} is not stopped"
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
    /// The verbose status of a container is not what containerd's looks like.
    #[error("the verbose status of the container {0} cannot be read: {1}")]
    Info(String, serde_json::Error),
    /// The script refused; it says why in one sentence.
    #[error("'testbed {verb}' failed: {reason}")]
    Script {
        /// The command line.
        verb: String,
        /// What it said.
        reason: String,
    },
}

/// Transport errors say only "transport error" themselves; the reason is at the end of their chain.
fn cause(status: &Status) -> String {
    let mut deepest: &dyn std::error::Error = match std::error::Error::source(status) {
        Some(source) => source,
        None => return status.message().trim_end().to_owned(),
    };
    while let Some(source) = deepest.source() {
        deepest = source;
    }
    deepest.to_string()
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
