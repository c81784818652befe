//! Where each runtime keeps its running containers, and under which names:
//!
//! ```text
//!   containerd   its state directory    <id>/{init.pid,config.json}
//!   cri-dockerd  dockerd's containerd   <id>/{init.pid,config.json}
//!   CRI-O        <run root>             <id>/userdata/{pidfile,conmon-pidfile,config.json}
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use base::host::task_directories;

/// A directory with a subdirectory for each container.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub folder: PathBuf,
    has_conmon: bool,
}

impl Place {
    /// The places of the runtime that listens on `socket`.
    pub fn of(socket: &Path, run: &Path) -> Vec<Self> {
        let has_conmon = socket.ends_with("crio/crio.sock");
        let directories = task_directories(socket).into_iter();
        let places = directories.map(|directory| {
            let below_run = directory.strip_prefix("/run").ok();
            Self {
                folder: below_run.map_or_else(|| directory.clone(), |below| run.join(below)),
                has_conmon,
            }
        });
        places.collect()
    }

    /// The first process of a container.
    pub fn init(&self, id: &str) -> Option<u32> {
        // The containers of podman, which are in the same directory, have no conmon file with that name.
        if self.has_conmon && self.conmon(id).is_none() {
            return None;
        }
        let name = match self.has_conmon {
            true => "pidfile",
            false => "init.pid",
        };
        number(&self.of_container(id).join(name))
    }

    /// The conmon of a container.
    pub fn conmon(&self, id: &str) -> Option<u32> {
        let path = self.of_container(id).join("conmon-pidfile");
        number(&path).filter(|_| self.has_conmon)
    }

    /// Whether `id` is a container of this runtime, even if the container has no process yet. Not known for
    /// CRI-O.
    pub fn is_container(&self, id: &str) -> bool {
        !self.has_conmon && self.spec(id).is_file()
    }

    /// Whether the directory of a container remains after its exit, until it is removed.
    pub fn keeps_exited(&self) -> bool {
        self.has_conmon
    }

    /// The path of a container's specification.
    pub fn spec(&self, id: &str) -> PathBuf {
        self.of_container(id).join("config.json")
    }

    fn of_container(&self, id: &str) -> PathBuf {
        let folder = self.folder.join(id);
        match self.has_conmon {
            true => folder.join("userdata"),
            false => folder,
        }
    }
}

fn number(path: &Path) -> Option<u32> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microk8s_keeps_the_state_of_containerd_in_a_directory_of_its_own() {
        let run = tempfile::tempdir().expect("there is room");
        let task = "containerd/io.containerd.runtime.v2.task/k8s.io/c1";
        let task = run.path().join(task);
        fs::create_dir_all(&task).expect("there is room");
        fs::write(task.join("init.pid"), "4711").expect("there is room");
        let places = Place::of(&run.path().join("containerd.sock"), Path::new("/run"));
        let found = places.iter().filter_map(|place| place.init("c1"));
        assert_eq!(found.collect::<Vec<_>>(), [4711]);
    }
}
