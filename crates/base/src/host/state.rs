//! Where what must survive a restart is kept until the node's next start.

use std::path::{Path, PathBuf};

/// The state directory, unless `PLEG_STATE_DIR` names another one.
const STATE_DIRECTORY: &str = "/run/pleg";

/// Where an agent and a guard keep their sockets and what they know.
pub fn state_directory() -> PathBuf {
    named_state_directory().unwrap_or_else(|| STATE_DIRECTORY.into())
}

/// The state directory that `PLEG_STATE_DIR` names, if it does.
pub fn named_state_directory() -> Option<PathBuf> {
    let directory = std::env::var_os("PLEG_STATE_DIR")?;
    (!directory.is_empty()).then(|| directory.into())
}

/// The file in which something of the runtime on this socket is kept.
pub fn state_file(runtime: &Path, what: &str) -> PathBuf {
    let name = runtime.to_string_lossy();
    let name = name.trim_start_matches('/').replace('/', "-");
    state_directory().join(format!("{name}.{what}"))
}

/// Where a guard in front of the runtime on this socket listens by default. A kubelet chooses how to
/// read CRI-O's statistics by the end of the path.
pub fn guard_socket(runtime: &Path) -> PathBuf {
    let name = match runtime.ends_with("run/crio/crio.sock") {
        true => "run/crio/crio.sock",
        false => "cri.sock",
    };
    state_directory().join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_front_of_crio_the_path_ends_as_crios_does() {
        let crio = guard_socket(Path::new("/run/crio/crio.sock"));
        assert!(crio.ends_with("run/crio/crio.sock"));
        let containerd = guard_socket(Path::new("/run/containerd/containerd.sock"));
        assert!(containerd.ends_with("cri.sock"));
    }
}
