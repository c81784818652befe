//! Where runtimes keep one directory for each container and sandbox, named after its id.
//!
//! Where that is follows from the socket: containerd keeps a directory for each task under its
//! state directory, where its socket is too. CRI-O keeps its own in the storage that it shares with
//! podman; the containerd behind dockerd keeps the tasks of dockerd.

use std::path::{Path, PathBuf};

/// containerd's state directory, from the socket's: the same, or one of its own, as k0s and
/// MicroK8s have it.
const STATE: [&str; 3] = ["", "state", "containerd"];

/// The tasks of Kubernetes, below containerd's state directory.
const CONTAINERD_TASKS: [&str; 1] = ["io.containerd.runtime.v2.task/k8s.io"];

/// What its CRI plugin keeps there, from the creation of a container or sandbox to its removal.
const CONTAINERD_KEPT: [&str; 2] = [
    "io.containerd.grpc.v1.cri/containers",
    "io.containerd.grpc.v1.cri/sandboxes",
];

/// Where CRI-O keeps its containers, sandboxes included, by the driver of its storage.
const CRIO: [&str; 4] = [
    "/run/containers/storage/overlay-containers",
    "/run/containers/storage/vfs-containers",
    "/run/containers/storage/btrfs-containers",
    "/run/containers/storage/zfs-containers",
];

/// The tasks of dockerd: of its own containerd, or of that of the machine.
const DOCKER: [&str; 2] = [
    "/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby",
    "/run/containerd/io.containerd.runtime.v2.task/moby",
];

/// Where the containerd that listens on `socket` may keep its state.
pub fn state_directories(socket: &Path) -> impl Iterator<Item = PathBuf> {
    let parent = socket.parent().into_iter();
    parent.flat_map(|parent| STATE.map(|state| parent.join(state)))
}

/// Where the runtime that listens on `socket` may keep the directories of its tasks: each appears
/// before a container or sandbox starts.
pub fn task_directories(socket: &Path) -> Vec<PathBuf> {
    directories(socket, &CONTAINERD_TASKS)
}

/// The same, and all other directories whose names are ids of that runtime.
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

/// Whether a directory of this name is that of a container or sandbox. All runtimes name them by 64
/// hexadecimal digits; the rest is something else.
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
