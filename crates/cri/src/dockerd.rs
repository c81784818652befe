//! How cri-dockerd differs from other runtimes: to dockerd a sandbox is a container too, and an error about an
//! unknown id has a message but no code. Observed with cri-dockerd 0.4.

/// The container name that marks a sandbox. Kubernetes does not allow it as the name of a pod's container.
pub const SANDBOX: &str = "POD";

/// Whether an error without a code (`Unknown`) means that dockerd does not have the id, or that the
/// container was not created by a kubelet.
///
/// ```
/// use cri::dockerd::is_not_found;
///
/// assert!(is_not_found("Error response from daemon: No such container: 0123"));
/// assert!(!is_not_found("context deadline exceeded"));
/// ```
pub fn is_not_found(message: &str) -> bool {
    let phrases = [
        "No such container: ",
        "container is not managed by kubernetes",
        "failed to parse the container name",
        "failed to parse the sandbox name",
    ];
    phrases.iter().any(|phrase| message.contains(phrase))
}
