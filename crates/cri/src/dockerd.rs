//! What cri-dockerd tells in a way of its own: to dockerd a sandbox is a container too, and what
//! it does not have it tells in words, without a code. As seen of cri-dockerd 0.4.

/// The name of the container that is a sandbox. No container of Kubernetes may be called so.
pub const SANDBOX: &str = "POD";

/// Whether an error without a code (`Unknown`) says that dockerd does not have an id, or that it is
/// of a container that no kubelet has made.
///
/// ```
/// use cri::dockerd::is_not_found;
///
/// assert!(is_not_found("Error response from daemon: No such container: 0123"));
/// assert!(!is_not_found("context deadline exceeded"));
/// ```
pub fn is_not_found(message: &str) -> bool {
    let words = [
        "No such container: ",
        "container is not managed by kubernetes",
        "failed to parse the container name",
        "failed to parse the sandbox name",
    ];
    words.iter().any(|words| message.contains(words))
}
