//! What crictl, ctr and docker print.

use causes::Cause;
use causes::finding::Confidence;

use super::{Seen, TIMED_OUT, counts, has_any};
use crate::proof::Proof;

/// Whether only such output has this line.
pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    text.starts_with("FATA[")
        || text.starts_with("ERRO[0")
        || text.starts_with("WARN[0")
        || text.starts_with("ctr: ")
        || text.starts_with("Cannot connect to the Docker daemon")
        || text.starts_with("Couldn't connect to Docker daemon")
        || text.starts_with(OF_DOCKER)
        || text.contains(OF_PYTHON)
        || words.starts_with(&["CONTAINER", "ID"])
        || words.starts_with(&["CONTAINER", "IMAGE", "CREATED"])
        || words.starts_with(&["POD", "ID"])
        || words.starts_with(&["TYPE", "ID", "PLATFORMS", "STATUS"])
        || matches!(words, ["Containers:", count] if count.parse::<u64>().is_ok())
}

/// How the docker command begins what the daemon refused.
const OF_DOCKER: &str = "Error response from daemon: ";

/// How Python's library for the daemon begins what went wrong on its socket.
const OF_PYTHON: &str = "UnixHTTPConnectionPool(host='localhost', port=None): ";

/// No process listens on the socket, or the one that does is not answering.
const UNREACHABLE: [&str; 10] = [
    "validate service connection",
    "validate CRI v1",
    "unable to determine runtime API version",
    "failed to dial",
    // crictl's words up to 1.23.
    "] failed to connect",
    "connect: connect endpoint",
    "Cannot connect to the Docker daemon",
    "Couldn't connect to Docker daemon",
    "error during connect",
    "getting the runtime version",
];

/// Errors of commands that were not run as root.
const NOT_ALLOWED: [&str; 3] = ["permission denied", "Permission denied", "are you root"];

/// Reads a line.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    if text.contains("using default endpoints") {
        seen.tries_defaults = true;
    }
    let is_a_try =
        (seen.tries_defaults || seen.runs_other_runtime) && text.contains("dockershim.sock");
    if is_a_try || has_any(text, &NOT_ALLOWED) {
        return;
    }
    if counts::read_info(text, line, seen) {
        return;
    }
    if text.contains("dial unix") && text.contains("/run/containerd/s/") {
        let says = "a shim does not listen on its socket";
        return seen.proof(Proof::new(
            Cause::ShimUnresponsive,
            Confidence::Medium,
            line,
            says,
        ));
    }
    if text.contains("unix @->/run/systemd/private") {
        let says = "systemd does not keep the connection on which units are started";
        let cause = Cause::BusUnavailable;
        return seen.proof(Proof::new(cause, Confidence::Medium, line, says));
    }
    if text.contains("process already finished: not found") {
        seen.has_finished_process = true;
    } else if seen.has_finished_process && text.contains("before deletion: running") {
        let says = "containerd takes a task for running whose process has ended";
        let cause = Cause::ShimUnresponsive;
        return seen.proof(Proof::new(cause, Confidence::Medium, line, says));
    }
    let mut prove = |confidence, says: &str| {
        let proof = Proof::new(Cause::RuntimeUnresponsive, confidence, line, says);
        seen.proof(proof);
    };
    let is_gone = has_any(
        text,
        &[
            "connection refused",
            "no such file or directory",
            "Is the docker daemon running",
            "is it running?",
        ],
    );
    let is_dialing =
        has_any(text, &UNREACHABLE) || has_any(text, &["rror while dialing", "dial unix"]);
    if has_any(
        text,
        &["API is not implemented", "unknown service runtime."],
    ) {
        let says = "the runtime responds, but its CRI plugin is missing: it failed to load or is \
                    disabled";
        return prove(Confidence::Medium, says);
    }
    if is_dialing && is_gone {
        return prove(
            Confidence::High,
            "no process listens on the runtime's socket",
        );
    }
    if is_dialing && has_any(text, TIMED_OUT) {
        return prove(
            Confidence::High,
            "the runtime does not answer on its socket",
        );
    }
    if text.contains(OF_PYTHON) && text.contains("Read timed out.") {
        return prove(Confidence::Low, "dockerd does not answer a request");
    }
    if is_plugin_row(text) {
        return prove(Confidence::Medium, "containerd's CRI plugin failed to load");
    }
    let is_error = text.starts_with("FATA[") || text.starts_with("ctr: ");
    if is_error && text.contains("listing images") && has_any(text, TIMED_OUT) {
        return prove(Confidence::Medium, "the runtime does not answer ListImages");
    }
    if is_error && !text.contains("not found") {
        let says: String = text.chars().take(160).collect();
        seen.trouble(line, format!("a command failed: {says}"));
    } else if is_error || text.starts_with("ERRO[") || text.starts_with(OF_DOCKER) {
        seen.error(line, text);
    }
}

/// `io.containerd.grpc.v1    cri    linux/amd64    error`
fn is_plugin_row(text: &str) -> bool {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words
        .first()
        .is_some_and(|word| word.starts_with("io.containerd."))
        && words.get(1) == Some(&"cri")
        && words.last() == Some(&"error")
}
