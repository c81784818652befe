//! Where the state is kept that must survive a restart of the process, but not of the node.

use std::path::{Path, PathBuf};

/// The default state directory. `PLEG_STATE_DIR` overrides it.
const STATE_DIRECTORY: &str = "/run/pleg";

/// The directory in which an agent and a guard keep their sockets and their state.
pub fn state_directory() -> PathBuf {
    named_state_directory().unwrap_or_else(|| STATE_DIRECTORY.into())
}

/// The state directory that `PLEG_STATE_DIR` names, if it is set.
pub fn named_state_directory() -> Option<PathBuf> {
    let directory = std::env::var_os("PLEG_STATE_DIR")?;
    (!directory.is_empty()).then(|| directory.into())
}

/// The file for one kind of state about the runtime that listens on `runtime`.
pub fn state_file(runtime: &Path, kind: &str) -> PathBuf {
    let name = runtime.to_string_lossy();
    let name = name.trim_start_matches('/').replace('/', "-");
    state_directory().join(format!("{name}.{kind}"))
}

/// Where a guard in front of the runtime that listens on `runtime` listens by default. In front of CRI-O
/// the path ends as CRI-O's does, because a kubelet decides by that ending how to read statistics.
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
