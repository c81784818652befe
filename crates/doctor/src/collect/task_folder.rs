//! What containerd keeps of its running tasks below its state folder, in memory (`/run`):
//! whose they are, and their first process. It is there when no call is answered.

use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::targets::bounded;
use crate::finding::PodName;

/// Below the state folder, which is the socket's or one of its own.
const TASKS: [&str; 2] = [
    "io.containerd.runtime.v2.task/k8s.io",
    "state/io.containerd.runtime.v2.task/k8s.io",
];

/// A container's specification has some kilobytes.
const LONGEST: u64 = 4 << 20;

/// The folders of tasks.
pub(super) struct TaskFolder(Vec<PathBuf>);

/// Whose a task is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Owner {
    pub pod: PodName,
    pub container: Option<String>,
    pub sandbox: Option<String>,
}

impl TaskFolder {
    /// The folders of the runtime that listens on `socket`.
    pub fn of(socket: &Path) -> Self {
        let parent = socket.parent().unwrap_or(Path::new("/"));
        Self(TASKS.map(|tasks| parent.join(tasks)).into())
    }

    /// Each task and its first process.
    pub fn inits(&self) -> Vec<(String, u32)> {
        let folders = self.0.iter().filter_map(|folder| folder.read_dir().ok());
        let tasks = folders.flatten().flatten();
        let init = |path: PathBuf| fs::read_to_string(path).ok()?.trim().parse().ok();
        tasks
            .filter_map(|task| {
                let id = task.file_name().into_string().ok()?;
                Some((id, init(task.path().join("init.pid"))?))
            })
            .collect()
    }

    /// Whose the task is. Its specification also holds the environment of the container:
    /// only the names in its annotations are kept.
    pub fn owner(&self, id: &str) -> Option<Owner> {
        if id.contains('/') {
            return None;
        }
        let mut paths = self.0.iter().map(|folder| folder.join(id));
        let file = paths.find_map(|path| File::open(path.join("config.json")).ok())?;
        let spec: Spec = serde_json::from_reader(file.take(LONGEST)).ok()?;
        let names = spec.annotations;
        let pod = PodName {
            uid: names.uid.as_deref().map(bounded),
            namespace: names.namespace.as_deref().map(bounded),
            name: names.pod.as_deref().map(bounded),
        };
        Some(Owner {
            pod,
            container: names.container.as_deref().map(bounded),
            sandbox: names.sandbox,
        })
    }
}

#[derive(Deserialize)]
struct Spec {
    annotations: Names,
}

#[derive(Deserialize)]
struct Names {
    #[serde(rename = "io.kubernetes.cri.sandbox-uid")]
    uid: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-namespace")]
    namespace: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-name")]
    pod: Option<String>,
    #[serde(rename = "io.kubernetes.cri.container-name")]
    container: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-id")]
    sandbox: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_task_tells_its_pod_and_its_first_process() {
        let root = tempfile::tempdir().unwrap();
        let folder = TaskFolder::of(&root.path().join("containerd.sock"));
        assert!(folder.inits().is_empty());
        let task = root.path().join(TASKS[0]).join("abc");
        fs::create_dir_all(&task).unwrap();
        fs::write(task.join("init.pid"), "4711").unwrap();
        let spec = r#"{"process":{"env":["PASSWORD=x"]},"annotations":{
            "io.kubernetes.cri.sandbox-name":"web","io.kubernetes.cri.sandbox-namespace":"shop",
            "io.kubernetes.cri.container-name":"app","other":"x"}}"#;
        fs::write(task.join("config.json"), spec).unwrap();
        assert_eq!(folder.inits(), [("abc".to_owned(), 4711)]);
        let owner = folder.owner("abc").unwrap();
        assert_eq!(owner.pod.name.as_deref(), Some("web"));
        assert_eq!(owner.container.as_deref(), Some("app"));
        assert_eq!(folder.owner("../abc"), None);
    }
}
