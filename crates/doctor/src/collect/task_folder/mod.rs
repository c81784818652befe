//! A runtime's state directories below `/run`: the pod, the first process and the conmon of each
//! running container. They can be read even if no call is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::host::{ProcessStat, is_runc};
use pleg::kernel::Tasks;
use pleg::model::id::Id;
use rustix::process::geteuid;

use super::bounded::bounded;
use super::disagreements::Disagreeing;
use super::host::read_stat;
use super::names::Named;
use crate::facts::host::process::is_runc_init;
use crate::facts::tasks::Task;
use crate::facts::{Fact, Missing};

mod names;
mod place;

use names::describe;
use place::Place;

/// More tasks than any node runs at once.
const MAX_TASKS: usize = 4096;

/// How many container specifications are read, which takes about 0.1 s.
const MAX_SPECS: usize = 512;

/// The state directories of a runtime.
#[derive(Clone)]
pub struct TaskFolder {
    places: Vec<Place>,
    tasks: Tasks,
    proc: PathBuf,
}

/// The containers that a runtime lists in a state that cannot be right.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// Containers about which the kernel disagrees.
    pub disagreeing: Disagreeing,
    /// Containers that are listed as running, although their pod has no sandbox that is ready.
    pub without_sandbox: BTreeSet<Id>,
}

/// What a state directory contains about a container.
struct Record<'a> {
    id: String,
    /// The container's first process. A container that is being created has none yet.
    init: Option<u32>,
    conmon: Option<u32>,
    place: &'a Place,
}

impl TaskFolder {
    /// The state directories of the runtime that listens on `socket`.
    pub fn of(socket: &Path, run: &Path, proc: &Path) -> Self {
        Self {
            places: Place::of(socket, run),
            tasks: Tasks::of(socket),
            proc: proc.to_owned(),
        }
    }

    /// The running tasks, with names from their specifications.
    pub fn all(&self) -> Fact<Vec<Task>> {
        self.tasks(&[], BTreeMap::new(), &Listed::default())
    }

    /// The running tasks and those in `listed`; the tasks of the `suspects` are first. Their names are from
    /// `names`, or else from their specifications.
    pub(super) fn tasks(
        &self,
        suspects: &[String],
        mut names: BTreeMap<Id, Named>,
        listed: &Listed,
    ) -> Fact<Vec<Task>> {
        let folders = self.places.iter().map(|place| place.folder.display());
        let folders: Vec<String> = folders.map(|folder| folder.to_string()).collect();
        let source = folders.join(", ");
        let mut records = self.records();
        let is_readable = |place: &Place| place.folder.read_dir().is_ok();
        if records.is_empty() && !self.places.iter().any(is_readable) {
            let none = "the runtime has no state directory in the usual places";
            let forbidden = "only root can read the runtime's state directories";
            let why = match geteuid().is_root() {
                true => Missing::NotThere(none.to_owned()),
                false => Missing::Forbidden(forbidden.to_owned()),
            };
            return Fact::missing(why, source);
        }
        let Disagreeing {
            though_dead,
            unlisted,
            though_alive,
        } = &listed.disagreeing;
        let task = |id: &Id, init: Option<u32>| Task {
            id: bounded(id.as_str()),
            init: though_alive.get(id).copied().or(init),
            listed_though_dead: though_dead.contains(id),
            listed_as_ended: though_alive.contains_key(id),
            ..Task::default()
        };
        records.retain(|record| {
            let lives = || record.init.is_some_and(|init| self.lives(init));
            let is_dead = || though_dead.contains(record.id.as_str());
            let runs = || lives() || record.conmon.is_some() || is_dead();
            !record.place.keeps_exited() || runs()
        });
        records.sort_by_key(|record| (!suspects.contains(&record.id), record.id.clone()));
        let mut without_record = though_dead.clone();
        without_record.extend(though_alive.keys().cloned());
        let mut read = 0;
        let recorded = records.into_iter().map(|record| {
            let id = Id::from(&*record.id);
            without_record.remove(&id);
            let mut task = Task {
                conmon: record.conmon,
                unlisted: unlisted.contains(&id),
                sandbox_ended: listed.without_sandbox.contains(&id),
                ..task(&id, record.init)
            };
            match names.remove(&id) {
                // Suspects are described from their specifications, because only these contain the sandbox,
                // by which the shim is found.
                Some(named) if !suspects.contains(&record.id) && !task.listed_though_dead => {
                    (task.pod, task.container) = (named.pod, named.container);
                }
                _ if read < MAX_SPECS => {
                    read += 1;
                    let _ = describe(&record.place.spec(&record.id), &mut task);
                }
                _ => {}
            }
            task
        });
        let mut tasks: Vec<Task> = recorded.collect();
        tasks.extend(without_record.into_iter().map(|id| {
            let Named { pod, container } = names.remove(&id).unwrap_or_default();
            Task {
                pod,
                container,
                ..task(&id, None)
            }
        }));
        Fact::known(tasks, source)
    }

    /// The containers of `ids` whose first process has exited, with its PID if that is still recorded.
    pub fn ended(&self, ids: &BTreeSet<Id>) -> BTreeMap<Id, Option<u32>> {
        let inits = ids.iter().map(|id| (id.clone(), self.init(id)));
        let ended = inits.filter(|(id, init)| match init {
            Some(init) => !self.lives(*init),
            None => self.tasks.has_ended(id, None),
        });
        ended.collect()
    }

    /// The containers whose first process runs, except those that are `known`. Containers without a pod are
    /// left out, and so are sandboxes, because a runtime lists them only once they are complete. While the
    /// process is still a runc, the container has not started.
    pub fn running_besides(&self, known: &BTreeSet<Id>) -> BTreeSet<Id> {
        let unknown = self.records().into_iter().filter_map(|record| {
            let id = Id::from(&*record.id);
            if known.contains(&id) || !record.init.is_some_and(|init| self.has_started(init)) {
                return None;
            }
            let mut task = Task::default();
            describe(&record.place.spec(&record.id), &mut task)?;
            task.container.map(|_| id)
        });
        unknown.take(MAX_SPECS).collect()
    }

    /// Whether the recorded PIDs are valid here. They are not if the runtime is in another PID namespace.
    pub fn has_our_pids(&self, runtime: u32) -> bool {
        let status = self.proc.join(runtime.to_string()).join("status");
        let status = std::fs::read_to_string(status).unwrap_or_default();
        let mut lines = status.lines();
        let namespaces = lines.find_map(|line| line.strip_prefix("NSpid:"));
        namespaces.is_some_and(|pids| pids.split_ascii_whitespace().count() == 1)
    }

    /// The records of all containers and sandboxes.
    fn records(&self) -> Vec<Record<'_>> {
        let tasks = self.places.iter().flat_map(|place| {
            let entries = place.folder.read_dir().into_iter().flatten().flatten();
            entries.map(move |entry| (place, entry.file_name()))
        });
        let records = tasks.take(MAX_TASKS).filter_map(|(place, id)| {
            let id = id.into_string().ok()?;
            let init = place.init(&id);
            // The PID in an old record may have been reused.
            let conmon = place.conmon(&id).filter(|pid| self.is_conmon(*pid));
            let is_container = init.is_some() || conmon.is_some() || place.is_container(&id);
            is_container.then_some(Record {
                id,
                init,
                conmon,
                place,
            })
        });
        records.collect()
    }

    /// The first process of a container, if that is recorded.
    fn init(&self, id: &Id) -> Option<u32> {
        let mut places = self.places.iter();
        places.find_map(|place| place.init(id.as_str()))
    }

    /// Whether this process of a container runs and may be its first one: in a pod with a shared PID namespace,
    /// other processes outlive the first one.
    pub fn may_be_first(&self, id: &Id, pid: u32) -> bool {
        self.lives(pid) && self.init(id).is_none_or(|init| init == pid)
    }

    fn lives(&self, pid: u32) -> bool {
        self.stat(pid).is_some_and(|stat| !stat.has_ended())
    }

    fn has_started(&self, pid: u32) -> bool {
        let is_runc = |comm: &str| is_runc_init(comm) || is_runc(comm);
        let stat = self.stat(pid);
        stat.is_some_and(|stat| !stat.has_ended() && !is_runc(&stat.comm))
    }

    fn is_conmon(&self, pid: u32) -> bool {
        self.stat(pid).is_some_and(|stat| stat.comm == "conmon")
    }

    fn stat(&self, pid: u32) -> Option<ProcessStat> {
        read_stat(&self.proc.join(pid.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use tempfile::TempDir;

    use super::*;

    fn write(path: PathBuf, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// A process, as `/proc` has it.
    fn process(root: &TempDir, pid: u32, name: &str, state: char) {
        let proc = root.path().join("proc").join(pid.to_string());
        let stat =
            format!("{pid} ({name}) {state} 1 1 1 0 -1 0 1 2 3 4 5 0 0 0 20 0 1 0 9900 0 0\n");
        write(proc.join("stat"), &stat);
    }

    fn folder(root: &TempDir, socket: &str) -> TaskFolder {
        let run = root.path().join("run");
        TaskFolder::of(&run.join(socket), &run, &root.path().join("proc"))
    }

    fn tasks(folder: &TaskFolder) -> Vec<Task> {
        folder.all().value().expect("tasks").clone()
    }

    #[test]
    fn a_task_has_its_pod_and_its_first_process() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "containerd/containerd.sock");
        assert!(folder.records().is_empty());
        let tasks_of = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
        let task = root.path().join(tasks_of).join("abc");
        // The process does not exist. The task is reported all the same, because its shim may matter.
        write(task.join("init.pid"), "4711");
        let spec = r#"{"process":{"env":["PASSWORD=x"]},"annotations":{
            "io.kubernetes.cri.sandbox-name":"web","io.kubernetes.cri.sandbox-namespace":"shop",
            "io.kubernetes.cri.container-name":"app","other":"x"}}"#;
        write(task.join("config.json"), spec);
        let [task] = &tasks(&folder)[..] else {
            panic!("one task");
        };
        assert_eq!(
            (&*task.id, task.init, task.conmon),
            ("abc", Some(4711), None)
        );
        let pod = task.pod.as_ref().unwrap();
        assert_eq!(pod.name.as_deref(), Some("web"));
        assert_eq!(task.container.as_deref(), Some("app"));
        let kept = serde_json::to_string(task).unwrap();
        assert!(!kept.contains("PASSWORD"), "{kept}");
    }

    #[test]
    fn a_container_that_is_being_created_has_no_first_process_yet() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "containerd/containerd.sock");
        let tasks_of = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
        let spec = r#"{"annotations":{"io.kubernetes.cri.sandbox-name":"new"}}"#;
        write(root.path().join(tasks_of).join("abc/config.json"), spec);
        let [task] = &tasks(&folder)[..] else {
            panic!("one task");
        };
        assert_eq!((&*task.id, task.init), ("abc", None));
        assert_eq!(task.pod.as_ref().unwrap().name.as_deref(), Some("new"));
    }

    #[test]
    fn only_containers_of_pods_count_as_running_but_not_listed() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "containerd/containerd.sock");
        let tasks_of = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
        let of_pod = r#"{"annotations":{"io.kubernetes.cri.sandbox-name":"web",
            "io.kubernetes.cri.container-name":"app"}}"#;
        let tasks = [
            ("listed", "11", "app", 'S', of_pod),
            ("lost", "12", "app", 'S', of_pod),
            ("ended", "13", "app", 'Z', of_pod),
            // Containers whose start was abandoned.
            ("given-up", "16", "runc:[2:INIT]", 'S', of_pod),
            ("of-crun", "17", "crun", 'S', of_pod),
            // A container of `ctr`, and a sandbox.
            ("other", "14", "app", 'S', r#"{"annotations":{}}"#),
            (
                "sandbox",
                "15",
                "pause",
                'S',
                r#"{"annotations":{"io.kubernetes.cri.sandbox-name":"web"}}"#,
            ),
        ];
        for (id, pid, name, state, spec) in tasks {
            let task = root.path().join(tasks_of).join(id);
            write(task.join("init.pid"), pid);
            write(task.join("config.json"), spec);
            process(&root, pid.parse().unwrap(), name, state);
        }
        let lost = folder.running_besides(&["listed"].map(Id::from).into());
        assert_eq!(lost, [Id::from("lost")].into());
    }

    #[test]
    fn the_records_of_cri_o_contain_the_first_process_and_the_conmon_of_each_container() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "crio/crio.sock");
        let containers = root
            .path()
            .join("run/containers/storage/overlay-containers");
        let note = |id: &str, file: &str, text: &str| {
            write(containers.join(id).join("userdata").join(file), text);
        };
        for (id, conmon, init) in [("s1", 70, 71), ("c1", 80, 81), ("exited", 90, 91)] {
            note(id, "conmon-pidfile", &conmon.to_string());
            note(id, "pidfile", &init.to_string());
        }
        // A container of podman, which uses the same directory.
        note("podmans", "pidfile", "71");
        let sandbox = r#"{"annotations":{"io.kubernetes.container.name":"POD",
            "io.kubernetes.cri-o.SandboxID":"s1","io.kubernetes.pod.name":"web",
            "io.kubernetes.pod.namespace":"shop","io.kubernetes.pod.uid":"u"}}"#;
        note("s1", "config.json", sandbox);
        note("c1", "config.json", &sandbox.replace("POD", "app"));
        process(&root, 70, "conmon", 'S');
        process(&root, 71, "pause", 'S');
        process(&root, 80, "conmon", 'T');
        process(&root, 81, "app", 'Z');
        // Another process has the PID of the conmon that has ended.
        process(&root, 90, "bash", 'S');

        let tasks = tasks(&folder);
        let seen: Vec<_> = tasks
            .iter()
            .map(|task| (&*task.id, task.init, task.conmon))
            .collect();
        assert_eq!(
            seen,
            [("c1", Some(81), Some(80)), ("s1", Some(71), Some(70))]
        );
        assert_eq!(tasks[0].container.as_deref(), Some("app"));
        assert_eq!(tasks[0].sandbox.as_deref(), Some("s1"));
        assert_eq!(tasks[1].container, None, "a sandbox");
        let pod = tasks[1].pod.as_ref().unwrap();
        assert_eq!(pod.namespace.as_deref(), Some("shop"));
        let ids = ["s1", "c1", "unknown"].map(Id::from).into();
        assert_eq!(folder.ended(&ids), [(Id::from("c1"), Some(81))].into());
    }

    #[test]
    fn the_tasks_of_cri_dockerd_are_those_of_the_containerd_behind_dockerd() {
        for daemon in ["docker/containerd/daemon", "containerd"] {
            let root = tempfile::tempdir().unwrap();
            let folder = folder(&root, "cri-dockerd.sock");
            let tasks_of = format!("run/{daemon}/io.containerd.runtime.v2.task/moby/abc");
            write(root.path().join(tasks_of).join("init.pid"), "4711");
            process(&root, 4711, "app", 'S');
            assert_eq!(tasks(&folder)[0].init, Some(4711), "{daemon}");
        }
    }

    #[test]
    fn an_empty_directory_means_no_tasks_and_a_missing_one_means_unknown() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "crio/crio.sock");
        assert_eq!(folder.all().value(), None);
        let containers = "run/containers/storage/overlay-containers";
        fs::create_dir_all(root.path().join(containers)).unwrap();
        assert_eq!(tasks(&folder), []);
    }

    #[test]
    fn pids_are_valid_only_if_the_runtime_is_in_the_same_pid_namespace() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "crio/crio.sock");
        let status = root.path().join("proc/10/status");
        assert!(!folder.has_our_pids(10));
        write(status.clone(), "Name:\tcrio\nNSpid:\t10\n");
        assert!(folder.has_our_pids(10));
        write(status, "Name:\tcrio\nNSpid:\t10\t3\n");
        assert!(!folder.has_our_pids(10));
    }
}
