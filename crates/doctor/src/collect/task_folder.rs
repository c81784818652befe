//! What containerd keeps of its running tasks below its state folder, in memory (`/run`):
//! whose they are, and their first process. It is there when no call is answered.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use causes::finding::PodName;
use pleg::model::id::Id;
use rustix::process::geteuid;
use serde::Deserialize;

use super::targets::{Target, bounded};
use crate::facts::tasks::Task;
use crate::facts::{Fact, Missing};

/// Below the state folder, which is the socket's or one of its own.
const TASKS: [&str; 2] = [
    "io.containerd.runtime.v2.task/k8s.io",
    "state/io.containerd.runtime.v2.task/k8s.io",
];

/// A container's specification has some kilobytes.
const LONGEST: u64 = 4 << 20;

/// More than any node runs at once.
const MOST: usize = 4096;

/// So many specifications are read; it takes about a tenth of a second.
const MOST_READ: usize = 512;

/// The folders of tasks.
pub(super) struct TaskFolder(Vec<PathBuf>);

impl TaskFolder {
    /// The folders of the runtime that listens on `socket`.
    pub fn of(socket: &Path) -> Self {
        let parent = socket.parent().unwrap_or(Path::new("/"));
        Self(TASKS.map(|tasks| parent.join(tasks)).into())
    }

    /// What runs, and whose it is: as `names` have it, else by its specification, those of
    /// the `suspects` first.
    pub fn tasks(&self, suspects: &[String], mut names: BTreeMap<Id, Target>) -> Fact<Vec<Task>> {
        let source = self.0.iter().map(|folder| folder.display().to_string());
        let source = source.collect::<Vec<_>>().join(", ");
        let mut inits = self.inits();
        if inits.is_empty() {
            let why = match geteuid().is_root() {
                true => Missing::NotThere(
                    "the runtime keeps no folder of tasks beside its socket".to_owned(),
                ),
                false => Missing::Forbidden("only root may read the runtime's folders".to_owned()),
            };
            return Fact::missing(why, source);
        }
        inits.sort_by_key(|(id, _)| (!suspects.contains(id), id.clone()));
        let mut read = 0;
        let tasks = inits.into_iter().map(|(id, init)| {
            let told = names.remove(&Id::from(&*id));
            let mut task = Task {
                id: bounded(&id),
                init,
                ..Task::default()
            };
            match told {
                Some(told) if !suspects.contains(&id) => {
                    (task.pod, task.container) = (told.pod, told.container);
                }
                _ if read < MOST_READ => {
                    read += 1;
                    self.describe(&id, &mut task);
                }
                _ => {}
            }
            task
        });
        Fact::known(tasks.collect(), source)
    }

    /// Each task and its first process.
    fn inits(&self) -> Vec<(String, u32)> {
        let folders = self.0.iter().filter_map(|folder| folder.read_dir().ok());
        let tasks = folders.flatten().flatten().take(MOST);
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
    fn describe(&self, id: &str, task: &mut Task) -> Option<()> {
        let mut paths = self.0.iter().map(|folder| folder.join(id));
        let file = paths.find_map(|path| File::open(path.join("config.json")).ok())?;
        let spec: Spec = serde_json::from_reader(BufReader::new(file.take(LONGEST))).ok()?;
        let names = spec.annotations;
        task.pod = Some(PodName {
            uid: names.uid.as_deref().map(bounded),
            namespace: names.namespace.as_deref().map(bounded),
            name: names.pod.as_deref().map(bounded),
        });
        task.container = names.container.as_deref().map(bounded);
        task.sandbox = names.sandbox.as_deref().map(bounded);
        Some(())
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
        let tasks = folder.tasks(&[], BTreeMap::new());
        let [task] = &tasks.value().unwrap()[..] else {
            panic!("one task: {tasks:?}");
        };
        assert_eq!((&*task.id, task.init), ("abc", 4711));
        let pod = task.pod.as_ref().unwrap();
        assert_eq!(pod.name.as_deref(), Some("web"));
        assert_eq!(task.container.as_deref(), Some("app"));
        let kept = serde_json::to_string(task).unwrap();
        assert!(!kept.contains("PASSWORD"), "{kept}");
    }
}
