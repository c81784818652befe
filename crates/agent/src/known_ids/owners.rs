//! The pod and the container of an id, from the OCI specification that containerd and CRI-O keep in
//! its directory. A list that hangs from the start gives no names.
//!
//! ```text
//!   <directory>/<id>/config.json             containerd's running tasks
//!   <directory>/<id>/userdata/config.json    CRI-O
//!        annotations: pod and container --> Owner
//! ```
//!
//! Only these annotations of the specification are kept.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use pleg::model::id::{HostId, Id, Owner, PodRef};
use serde::Deserialize;

/// How much of a specification is read. It usually has about ten kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// How many specifications are read at a time. A list hangs for longer than a second, so an id that
/// is not named the first time is named the next time.
const MAX_READS: usize = 200;

/// Where a specification is below an id's directory.
const PLACES: [&str; 2] = ["config.json", "userdata/config.json"];

/// The annotations of containerd, and those of CRI-O: the pod's UID, namespace and name, and the
/// container's name, which a sandbox of CRI-O has too.
const ANNOTATIONS: [[&str; 4]; 2] = [
    [
        "io.kubernetes.cri.sandbox-uid",
        "io.kubernetes.cri.sandbox-namespace",
        "io.kubernetes.cri.sandbox-name",
        "io.kubernetes.cri.container-name",
    ],
    [
        "io.kubernetes.pod.uid",
        "io.kubernetes.pod.namespace",
        "io.kubernetes.pod.name",
        "io.kubernetes.container.name",
    ],
];

/// CRI-O's name for the container of a sandbox.
const SANDBOX: &str = "POD";

/// The owners that were read, which are kept as long as the id exists.
#[derive(Debug, Default)]
pub(super) struct Owners {
    known: BTreeMap<Id, Option<Owner>>,
}

impl Owners {
    /// These ids with the owners that these directories show. May block.
    pub(super) fn name(&mut self, ids: Vec<Id>, directories: &[PathBuf]) -> Vec<HostId> {
        let before = std::mem::take(&mut self.known);
        let mut left = MAX_READS;
        let named = ids.into_iter().map(|id| {
            let owner = match before.get(&id) {
                Some(owner) => owner.clone(),
                None if left == 0 => return HostId::from(id),
                None => {
                    left -= 1;
                    owner(&id, directories)
                }
            };
            self.known.insert(id.clone(), owner.clone());
            HostId { id, owner }
        });
        named.collect()
    }
}

fn owner(id: &Id, directories: &[PathBuf]) -> Option<Owner> {
    let folders = directories.iter().map(|folder| folder.join(id.as_str()));
    let mut paths = folders.flat_map(|folder| PLACES.map(|place| folder.join(place)));
    paths.find_map(|path| owner_in(&read(&path)?))
}

fn read(path: &Path) -> Option<String> {
    // Opening a pipe in its place would block.
    if !fs::symlink_metadata(path).ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = File::open(path).ok()?;
    file.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The part of a specification that is read.
#[derive(Deserialize)]
struct Specification {
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

fn owner_in(text: &str) -> Option<Owner> {
    let annotations = serde_json::from_str::<Specification>(text)
        .ok()?
        .annotations;
    ANNOTATIONS.iter().find_map(|names| {
        let [uid, namespace, name, container] = names.map(|name| annotations.get(name).cloned());
        Some(Owner {
            pod: PodRef {
                // containerd 1.6 does not record it.
                uid: uid.unwrap_or_default().into(),
                namespace: namespace?.into(),
                name: name?.into(),
            },
            container: container.filter(|name| name != SANDBOX).map(Into::into),
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str) -> PodRef {
        PodRef {
            uid: uid.into(),
            namespace: "default".into(),
            name: "db".into(),
        }
    }

    #[test]
    fn containerd_and_cri_o_name_the_pod_and_its_container() {
        let containerd = json!({"process": {"env": ["SECRET=1"]}, "annotations": {
            "io.kubernetes.cri.container-name": "postgres",
            "io.kubernetes.cri.sandbox-uid": "u",
            "io.kubernetes.cri.sandbox-name": "db",
            "io.kubernetes.cri.sandbox-namespace": "default"}});
        let crio = json!({"annotations": {
            "io.kubernetes.container.name": "postgres", "io.kubernetes.pod.uid": "u",
            "io.kubernetes.pod.name": "db", "io.kubernetes.pod.namespace": "default"}});
        for specification in [containerd, crio] {
            let owner = owner_in(&specification.to_string()).unwrap();
            assert_eq!(owner.pod, pod("u"));
            assert_eq!(owner.container.as_deref(), Some("postgres"));
        }
    }

    #[test]
    fn a_sandbox_has_no_container_and_an_old_containerd_records_no_uid() {
        let crio = json!({"annotations": {
            "io.kubernetes.container.name": "POD", "io.kubernetes.pod.uid": "u",
            "io.kubernetes.pod.name": "db", "io.kubernetes.pod.namespace": "default"}});
        assert_eq!(owner_in(&crio.to_string()).unwrap().container, None);
        let old = json!({"annotations": {
            "io.kubernetes.cri.sandbox-name": "db",
            "io.kubernetes.cri.sandbox-namespace": "default"}});
        let owner = owner_in(&old.to_string()).unwrap();
        assert_eq!((owner.pod, owner.container), (pod(""), None));
    }

    #[test]
    fn a_file_that_is_not_a_pods_specification_names_no_owner() {
        for text in [
            "",
            "{",
            "[]",
            "{}",
            r#"{"annotations": {"a": "b"}}"#,
            r#"{"annotations": 1}"#,
        ] {
            assert_eq!(owner_in(text), None, "{text}");
        }
    }

    #[test]
    fn each_id_is_read_once_and_forgotten_with_its_directory() {
        let root = tempfile::tempdir().unwrap();
        let directories = [root.path().to_owned()];
        let place = root.path().join("a");
        fs::create_dir(&place).unwrap();
        let specification = json!({"annotations": {
            "io.kubernetes.cri.sandbox-name": "db",
            "io.kubernetes.cri.sandbox-namespace": "default"}});
        fs::write(place.join("config.json"), specification.to_string()).unwrap();
        let mut owners = Owners::default();
        let mut names = |ids: &[&str]| -> Vec<bool> {
            let ids = ids.iter().map(|id| Id::from(*id)).collect();
            let named = owners.name(ids, &directories).into_iter();
            named.map(|it| it.owner.is_some()).collect()
        };
        assert_eq!(names(&["a", "b"]), [true, false]);
        fs::remove_dir_all(&place).unwrap();
        assert_eq!(names(&["a", "b"]), [true, false], "it was read before");
        assert_eq!(names(&["b"]), [false]);
        assert_eq!(names(&["a", "b"]), [false, false]);
    }
}
