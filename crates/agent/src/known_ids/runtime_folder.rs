//! Ids from the runtime's own folders: what is left to know when a list hangs and no agent
//! has seen one before. This is the moment when people start such a tool.
//!
//! Where they are follows from the socket: containerd keeps a folder for each container
//! and sandbox under its state folder, where its socket is too, from its creation to its
//! removal. CRI-O keeps its own in the storage that it shares with podman; of dockerd's the
//! containerd behind it knows what runs.

use std::io;
use std::path::PathBuf;

use cri::Endpoint;
use pleg::kernel::state_directories;
use pleg::model::id::Id;

/// Below the state folder: what the CRI plugin keeps, and the running tasks.
const KEPT: [&str; 3] = [
    "io.containerd.grpc.v1.cri/containers",
    "io.containerd.grpc.v1.cri/sandboxes",
    "io.containerd.runtime.v2.task/k8s.io",
];

/// Where CRI-O keeps its containers, sandboxes included, by the driver of its storage.
const CRIO: [&str; 4] = [
    "/run/containers/storage/overlay-containers",
    "/run/containers/storage/vfs-containers",
    "/run/containers/storage/btrfs-containers",
    "/run/containers/storage/zfs-containers",
];

/// Where the containerd of dockerd keeps what runs: its own, or that of the machine.
const DOCKER: [&str; 2] = [
    "/run/docker/containerd/daemon/io.containerd.runtime.v2.task/moby",
    "/run/containerd/io.containerd.runtime.v2.task/moby",
];

/// The ids that these folders show. May block. Fails if a folder cannot be read now, for want of
/// file descriptors or by a broken disk; one that is not there, or that we may never read, shows
/// none.
pub fn ids(folders: &[PathBuf]) -> io::Result<Vec<Id>> {
    let mut ids = Vec::new();
    for folder in folders {
        let entries = match folder.read_dir() {
            Ok(entries) => entries,
            Err(error) if is_not_for_us(&error) => continue,
            Err(error) => return Err(error),
        };
        for entry in entries {
            let name = entry?.file_name().into_string();
            ids.extend(name.ok().filter(|name| is_id(name)).map(Id::from));
        }
    }
    Ok(ids)
}

fn is_not_for_us(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}

/// The folders of the runtime at `endpoint`.
pub fn folders(endpoint: &Endpoint) -> Vec<PathBuf> {
    let socket = endpoint.path();
    if socket.ends_with("crio/crio.sock") {
        return CRIO.map(PathBuf::from).into();
    }
    if socket.ends_with("cri-dockerd.sock") {
        return DOCKER.map(PathBuf::from).into();
    }
    state_directories(socket)
        .flat_map(|state| KEPT.map(|kept| state.join(kept)))
        .collect()
}

/// All runtimes name what they keep by 64 hexadecimal digits; the rest is something else.
fn is_id(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_in_the_folder_that_are_ids_are_the_ids() {
        let root = tempfile::tempdir().unwrap();
        let endpoint = Endpoint::new(root.path().join("containerd.sock"));
        let folders = folders(&endpoint);
        assert_eq!(ids(&folders).unwrap(), []);
        let id = "0123456789abcdef".repeat(4);
        let tasks = root.path().join(KEPT[0]);
        std::fs::create_dir_all(tasks.join(&id)).unwrap();
        std::fs::create_dir_all(tasks.join("not-an-id")).unwrap();
        assert_eq!(ids(&folders).unwrap(), [Id::from(id)]);
    }

    /// A link to itself can be followed by nobody, not even by root.
    #[test]
    fn a_folder_that_is_there_and_cannot_be_read_is_not_an_empty_one() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("containers");
        std::os::unix::fs::symlink(&folder, &folder).unwrap();
        assert!(ids(&[folder]).is_err());
    }

    #[test]
    fn the_folders_follow_from_the_socket() {
        for (socket, folder) in [
            ("/run/crio/crio.sock", CRIO[0]),
            ("/run/pleg/run/crio/crio.sock", CRIO[0]),
            ("/run/cri-dockerd.sock", DOCKER[0]),
            (
                "/run/k3s/containerd/containerd.sock",
                "/run/k3s/containerd/io.containerd.grpc.v1.cri/containers",
            ),
        ] {
            let folders = folders(&Endpoint::new(PathBuf::from(socket)));
            assert_eq!(folders[0], PathBuf::from(folder), "{socket}");
        }
    }
}
