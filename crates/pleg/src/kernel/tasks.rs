//! containerd's directories of tasks: one for each container that has a process, from its start
//! until its shim is gone.
//!
//! ```text
//!   <state>/io.containerd.runtime.v2.task/k8s.io/<id>/init.pid
//! ```
//!
//! A PID that is not visible proves no death: it may be hidden (`hidepid`), or belong to a guest or
//! to another PID namespace. A missing directory alone proves none either. Both together do, where
//! the process of another container is visible and has its directory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::pidfd::is_its;
use crate::model::id::Id;

/// The name of its socket everywhere.
const SOCKET: &str = "containerd.sock";

/// containerd's state directory, from the socket's: the same, or one of its own, as k0s and
/// MicroK8s have it.
const STATE: [&str; 3] = ["", "state", "containerd"];

/// The tasks of Kubernetes, below the directory of any of containerd's plugins: of the shims of
/// today, and of those before containerd 1.4.
const NAMESPACE: &str = "k8s.io";
const PLUGINS: &str = "io.containerd.";

/// How many others are looked at for one that is visible.
const OTHERS: usize = 16;

/// The directories of the tasks of one runtime.
#[derive(Clone, Debug)]
pub struct Tasks {
    states: Vec<PathBuf>,
}

impl Tasks {
    /// Those of the runtime that listens on `socket`; of others than containerd there are none, and
    /// nothing is proved.
    pub fn of(socket: &Path) -> Self {
        let is_containerd = socket.ends_with(SOCKET);
        let parent = socket.parent().filter(|_| is_containerd).into_iter();
        let states = parent.flat_map(|parent| STATE.map(|state| parent.join(state)));
        Self {
            states: states.collect(),
        }
    }

    /// Whether the container `id` has no process any more, although the runtime may say that it
    /// runs: it has no task, while another container has one, with its process under `proc`. May
    /// block.
    pub fn has_ended(&self, id: &Id, proc: &Path) -> bool {
        self.is_without(id, proc).unwrap_or(false)
    }

    /// Fails if a directory cannot be read: what is in it is not known then.
    fn is_without(&self, id: &Id, proc: &Path) -> io::Result<bool> {
        let mut is_another_visible = false;
        for directory in self.directories()? {
            if directory.join(id.as_str()).try_exists()? {
                return Ok(false);
            }
            let others = directory.read_dir()?.take(OTHERS);
            is_another_visible = is_another_visible
                || others
                    .flatten()
                    .any(|other| is_visible(&other.path(), proc));
        }
        Ok(is_another_visible)
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

/// Whether the first process of this task is under `proc`, in a cgroup of its name.
fn is_visible(task: &Path, proc: &Path) -> bool {
    let id = task.file_name().and_then(|name| name.to_str());
    let pid = fs::read_to_string(task.join("init.pid")).ok();
    let pid = pid.and_then(|pid| pid.trim().parse().ok());
    id.zip(pid)
        .is_some_and(|(id, pid)| is_its(proc, pid, &id.into()) == Ok(true))
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
            node.has_task("io.containerd.runtime.v2.task", "a", "100");
            node.write(
                "proc/100/cgroup",
                "0::/kubepods/pod1/cri-containerd-a.scope\n",
            );
            node
        }

        fn has_task(&self, plugin: &str, id: &str, pid: &str) {
            self.write(&format!("run/{plugin}/k8s.io/{id}/init.pid"), pid);
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn says_that_it_ended(&self, id: &str) -> bool {
            let tasks = Tasks::of(&self.root.path().join("run/containerd.sock"));
            tasks.has_ended(&id.into(), &self.root.path().join("proc"))
        }
    }

    #[test]
    fn a_container_without_a_task_has_ended_beside_one_that_has_its_own() {
        let node = Node::new();
        assert!(node.says_that_it_ended("b"));
        assert!(!node.says_that_it_ended("a"));
    }

    #[test]
    fn where_the_processes_of_others_are_not_visible_nothing_is_proved() {
        let node = Node::new();
        fs::remove_dir_all(node.root.path().join("proc")).unwrap();
        assert!(!node.says_that_it_ended("b"));
        // The PID of another namespace is somebody else's here.
        node.write("proc/100/cgroup", "0::/system.slice/sshd.service\n");
        assert!(!node.says_that_it_ended("b"));
    }

    #[test]
    fn a_task_of_an_older_shim_and_a_guest_without_a_pid_file_are_tasks() {
        let node = Node::new();
        node.has_task("io.containerd.runtime.v1.linux", "b", "7");
        node.write("run/io.containerd.runtime.v2.task/k8s.io/guest/address", "");
        assert!(!node.says_that_it_ended("b"));
        assert!(!node.says_that_it_ended("guest"));
    }

    #[test]
    fn a_runtime_without_such_directories_proves_nothing() {
        let node = Node::new();
        let run = node.root.path().join("run");
        for socket in [
            "cri-dockerd.sock",
            "crio/crio.sock",
            "other/containerd.sock",
        ] {
            let tasks = Tasks::of(&run.join(socket));
            assert!(!tasks.has_ended(&"b".into(), &node.root.path().join("proc")));
        }
    }
}
