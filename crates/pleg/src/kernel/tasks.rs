//! containerd's task directories: one for each container with a process, from its start to the end of
//! its shim.
//!
//! ```text
//!   <state>/io.containerd.runtime.v2.task/k8s.io/<id>/init.pid
//! ```
//!
//! If no process has a container's PID, they show whether the container has exited: then its directory is
//! missing, or names this PID. A missing process alone is no evidence: the PID may belong to the kernel of
//! a virtual machine. Then the container's directory names no PID.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::state_directories;
use crate::model::id::Id;

/// The name of containerd's socket.
const SOCKET: &str = "containerd.sock";

/// The directories of containerd's plugins: one for today's shims, one for shims before containerd 1.4.
const PLUGINS: &str = "io.containerd.";
/// Kubernetes' namespace in containerd; its task directories are below the directory of a plugin.
const NAMESPACE: &str = "k8s.io";

/// The task directories of one runtime.
#[derive(Clone, Debug)]
pub struct Tasks {
    states: Vec<PathBuf>,
}

impl Tasks {
    /// The task directories of the runtime that listens on `socket`. There are none for runtimes other
    /// than containerd.
    pub fn of(socket: &Path) -> Self {
        let states = state_directories(socket).filter(|_| socket.ends_with(SOCKET));
        Self {
            states: states.collect(),
        }
    }

    /// Whether the container `id` no longer has a process, although the runtime may report that it runs: it
    /// has no task, or a task whose first process is `gone`. Valid only if the runtime's PIDs belong to our
    /// PID namespace. May block.
    pub fn has_ended(&self, id: &Id, gone: Option<u32>) -> bool {
        self.is_without(id, gone).unwrap_or(false)
    }

    /// Like [`Self::has_ended`], but fails if a directory cannot be read.
    fn is_without(&self, id: &Id, gone: Option<u32>) -> io::Result<bool> {
        let mut has_tasks = false;
        for directory in self.directories()? {
            let own = directory.join(id.as_str());
            if own.try_exists()? && (gone.is_none() || first_process(&own) != gone) {
                return Ok(false);
            }
            has_tasks |= directory.read_dir()?.next().is_some();
        }
        Ok(has_tasks)
    }

    fn directories(&self) -> io::Result<Vec<PathBuf>> {
        let mut directories = Vec::new();
        for state in &self.states {
            let entries = match state.read_dir() {
                Ok(entries) => entries,
                Err(error) if is_not_there(&error) => continue,
                Err(error) => return Err(error),
            };
            for entry in entries {
                let entry = entry?;
                let is_plugin = entry.file_name().to_string_lossy().starts_with(PLUGINS);
                let directory = entry.path().join(NAMESPACE);
                if is_plugin && directory.try_exists()? {
                    directories.push(directory);
                }
            }
        }
        Ok(directories)
    }
}

fn is_not_there(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn first_process(task: &Path) -> Option<u32> {
    let pid = fs::read_to_string(task.join("init.pid")).ok()?;
    pid.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node on which container `a` runs, and `b` has no task.
    struct Node {
        root: tempfile::TempDir,
    }

    impl Node {
        fn new() -> Self {
            let root = tempfile::tempdir().unwrap();
            let node = Self { root };
            node.write("io.containerd.runtime.v2.task/k8s.io/a/init.pid", "100");
            node
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn has_ended(&self, socket: &str, id: &str, gone: Option<u32>) -> bool {
            Tasks::of(&self.root.path().join(socket)).has_ended(&id.into(), gone)
        }
    }

    #[test]
    fn a_container_without_a_task_has_ended() {
        let node = Node::new();
        for gone in [None, Some(7)] {
            assert!(node.has_ended(SOCKET, "b", gone));
        }
    }

    #[test]
    fn a_container_with_a_task_has_ended_if_its_recorded_process_is_gone() {
        let node = Node::new();
        assert!(node.has_ended(SOCKET, "a", Some(100)));
        for gone in [None, Some(7)] {
            assert!(!node.has_ended(SOCKET, "a", gone));
        }
    }

    #[test]
    fn a_container_of_an_old_shim_or_in_a_virtual_machine_has_not_ended() {
        let node = Node::new();
        node.write("io.containerd.runtime.v1.linux/k8s.io/b/address", "");
        node.write("io.containerd.runtime.v2.task/k8s.io/guest/address", "");
        assert!(!node.has_ended(SOCKET, "b", Some(7)));
        assert!(!node.has_ended(SOCKET, "guest", Some(7)));
    }

    #[test]
    fn a_runtime_without_task_directories_or_without_tasks_is_no_evidence() {
        let node = Node::new();
        for socket in [
            "cri-dockerd.sock",
            "crio/crio.sock",
            "other/containerd.sock",
        ] {
            assert!(!node.has_ended(socket, "b", Some(7)), "{socket}");
        }
        fs::remove_dir_all(
            node.root
                .path()
                .join("io.containerd.runtime.v2.task/k8s.io/a"),
        )
        .unwrap();
        assert!(!node.has_ended(SOCKET, "b", Some(7)));
    }
}
