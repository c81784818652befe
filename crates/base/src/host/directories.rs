//! Where runtimes keep one directory for each container and sandbox, named after its id. The path is
//! derived from the path of the runtime's socket.
//!
//! containerd keeps task directories in its state directory, which usually contains its socket. CRI-O keeps
//! directories in the storage that it shares with podman. dockerd's tasks are in the state directory of its
//! containerd.

use std::path::{Path, PathBuf};

/// containerd's state directory, relative to the directory of its socket. In k0s and MicroK8s it is a
/// subdirectory.
const STATE: [&str; 3] = ["", "state", "containerd"];

/// The directory of Kubernetes' tasks, below containerd's state directory.
const CONTAINERD_TASKS: [&str; 1] = ["io.containerd.runtime.v2.task/k8s.io"];

/// The directories of containerd's CRI plugin, below containerd's state directory. Their entries exist from
/// the creation of a container or sandbox to its removal.
const CONTAINERD_KEPT: [&str; 2] = [
    "io.containerd.grpc.v1.cri/containers",
    "io.containerd.grpc.v1.cri/sandboxes",
];

/// Where CRI-O keeps containers and sandboxes, by storage driver.
const CRIO: [&str; 4] = [
    "/run/containers/storage/overlay-containers",
    "/run/containers/storage/vfs-containers",
    "/run/containers/storage/btrfs-containers",
    "/run/containers/storage/zfs-containers",
];

/// dockerd's task directories: below the state directory of its own containerd, or of the machine's.
const DOCKER: [&str; 2] = [
    "/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby",
    "/run/containerd/io.containerd.runtime.v2.task/moby",
];

/// The possible state directories of the containerd that listens on `socket`.
pub fn state_directories(socket: &Path) -> impl Iterator<Item = PathBuf> {
    let parent = socket.parent().into_iter();
    parent.flat_map(|parent| STATE.map(|state| parent.join(state)))
}

/// The possible task directories of the runtime that listens on `socket`. An entry appears before a
/// container or sandbox starts.
pub fn task_directories(socket: &Path) -> Vec<PathBuf> {
    directories(socket, &CONTAINERD_TASKS)
}

/// The task directories, and all other directories whose entries are ids of the runtime that listens on
/// `socket`.
pub fn id_directories(socket: &Path) -> Vec<PathBuf> {
    directories(socket, &[&CONTAINERD_KEPT[..], &CONTAINERD_TASKS].concat())
}

fn directories(socket: &Path, of_containerd: &[&str]) -> Vec<PathBuf> {
    if socket.ends_with("crio/crio.sock") {
        return CRIO.map(PathBuf::from).into();
    }
    if socket.ends_with("cri-dockerd.sock") {
        return DOCKER.map(PathBuf::from).into();
    }
    let states = state_directories(socket);
    let paths = states.flat_map(|state| of_containerd.iter().map(move |path| state.join(path)));
    paths.collect()
}

/// Whether `name` has the form of a container's or sandbox's id: 64 hexadecimal digits, in all runtimes.
pub fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directories_follow_from_the_socket() {
        for (socket, directory) in [
            ("/run/crio/crio.sock", CRIO[0]),
            ("/run/pleg/run/crio/crio.sock", CRIO[0]),
            ("/run/cri-dockerd.sock", DOCKER[0]),
            (
                "/run/k3s/containerd/containerd.sock",
                "/run/k3s/containerd/io.containerd.runtime.v2.task/k8s.io",
            ),
        ] {
            let directories = task_directories(Path::new(socket));
            assert_eq!(directories[0], PathBuf::from(directory), "{socket}");
        }
    }
}
