//! Ids from the runtime's own folders: what is left to know when a list hangs and no agent
//! has seen one before. This is the moment when people start such a tool.
//!
//! Where they are follows from the socket: containerd keeps a folder for each container
//! and sandbox under its state folder, where its socket is too, from its creation to its
//! removal.

use std::path::PathBuf;

use cri::Endpoint;
use pleg::model::id::Id;

/// containerd's state folder, from the socket's; the second is where it has one of its own.
const STATE: [&str; 2] = ["", "state"];

/// Below the state folder: what the CRI plug-in keeps, and the running tasks.
const KEPT: [&str; 3] = [
    "io.containerd.grpc.v1.cri/containers",
    "io.containerd.grpc.v1.cri/sandboxes",
    "io.containerd.runtime.v2.task/k8s.io",
];

/// Where CRI-O keeps its containers, sandboxes included.
const CRIO: &str = "/run/containers/storage/overlay-containers";

/// The ids that these folders show. May block.
pub fn ids(folders: &[PathBuf]) -> Vec<Id> {
    let entries = folders.iter().filter_map(|folder| folder.read_dir().ok());
    let names = entries
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.file_name()));
    let ids = names.filter_map(|name| name.into_string().ok());
    ids.filter(|name| is_id(name)).map(Id::from).collect()
}

/// The folders of the runtime at `endpoint`.
pub fn folders(endpoint: &Endpoint) -> Vec<PathBuf> {
    let socket = endpoint.path();
    if socket.ends_with("crio/crio.sock") {
        return vec![CRIO.into()];
    }
    let states = socket
        .parent()
        .into_iter()
        .flat_map(|folder| STATE.map(|state| folder.join(state)));
    states
        .flat_map(|state| KEPT.map(|kept| state.join(kept)))
        .collect()
}

/// Both runtimes name what they keep by 64 hexadecimal digits; the rest is something else.
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
        assert_eq!(ids(&folders), []);
        let id = "0123456789abcdef".repeat(4);
        let tasks = root.path().join(KEPT[0]);
        std::fs::create_dir_all(tasks.join(&id)).unwrap();
        std::fs::create_dir_all(tasks.join("not-an-id")).unwrap();
        assert_eq!(ids(&folders), [Id::from(id)]);
    }
}
