//! A runtime's state directories below `/run`: the pod, the first process and the conmon of each
//! running container. They can be read even if no call is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use base::host::is_runc;
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

/// More than any node runs at once.
const MAX_TASKS: usize = 4096;

/// How many container specifications are read, which takes about 0.1 s.
const MAX_SPECS: usize = 512;

/// The state directories of a runtime.
#[derive(Clone)]
pub struct TaskFolder {
    places: Vec<Place>,
    records: Tasks,
    proc: PathBuf,
}

/// What is odd about how a runtime lists containers.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The kernel disagrees.
    pub disagreeing: Disagreeing,
    /// They are listed as running, and their pod has no sandbox that is ready.
    pub without_sandbox: BTreeSet<Id>,
}

/// A container, its first process, and where that is recorded. One that is being created has none yet.
struct Noted<'a> {
    id: String,
    init: Option<u32>,
    conmon: Option<u32>,
    place: &'a Place,
}

impl TaskFolder {
    /// The state directories of the runtime that listens on `socket`.
    pub fn of(socket: &Path, run: &Path, proc: &Path) -> Self {
        Self {
            places: Place::of(socket, run),
            records: Tasks::of(socket),
            proc: proc.to_owned(),
        }
    }

    /// The running tasks, with names from their specifications.
    pub fn all(&self) -> Fact<Vec<Task>> {
        self.tasks(&[], BTreeMap::new(), &Listed::default())
    }

    /// The running tasks, with names from `names` or else from their specifications, those of the
    /// `suspects` first, and with what is odd about how they are `listed`.
    pub(super) fn tasks(
        &self,
        suspects: &[String],
        mut names: BTreeMap<Id, Named>,
        listed: &Listed,
    ) -> Fact<Vec<Task>> {
        let source = self.places.iter();
        let source = source.map(|place| place.folder.display().to_string());
        let source = source.collect::<Vec<_>>().join(", ");
        let mut noted = self.noted();
        let is_there = |place: &Place| place.folder.read_dir().is_ok();
        if noted.is_empty() && !self.places.iter().any(is_there) {
            let why = match geteuid().is_root() {
                true => Missing::NotThere(
                    "the runtime has no state directory in the usual places".to_owned(),
                ),
                false => Missing::Forbidden(
                    "only root can read the runtime's state directories".to_owned(),
                ),
            };
            return Fact::missing(why, source);
        }
        let is_dead = |id: &str| listed.disagreeing.though_dead.contains(&Id::from(id));
        let listed_task = |id: &str| {
            let alive = listed.disagreeing.though_alive.get(&Id::from(id));
            Task {
                id: bounded(id),
                init: alive.copied(),
                listed_though_dead: is_dead(id),
                listed_as_ended: alive.is_some(),
                ..Task::default()
            }
        };
        noted.retain(|one| {
            let lives = || one.init.is_some_and(|init| self.lives(init));
            let runs = || lives() || one.conmon.is_some() || is_dead(&one.id);
            !one.place.keeps_notes_of_the_exited() || runs()
        });
        noted.sort_by_key(|one| (!suspects.contains(&one.id), one.id.clone()));
        let mut without_record = listed.disagreeing.though_dead.clone();
        without_record.extend(listed.disagreeing.though_alive.keys().cloned());
        let mut read = 0;
        let recorded = noted.into_iter().map(|one| {
            without_record.remove(one.id.as_str());
            let named = names.remove(&Id::from(&*one.id));
            let mut task = Task {
                conmon: one.conmon,
                unlisted: listed.disagreeing.unlisted.contains(one.id.as_str()),
                sandbox_ended: listed.without_sandbox.contains(&Id::from(&*one.id)),
                ..listed_task(&one.id)
            };
            task.init = task.init.or(one.init);
            match named {
                // Whose shim is missed is found by the sandbox, which only the specification names.
                Some(named) if !suspects.contains(&one.id) && !task.listed_though_dead => {
                    (task.pod, task.container) = (named.pod, named.container);
                }
                _ if read < MAX_SPECS => {
                    read += 1;
                    let _ = describe(&one.place.spec(&one.id), &mut task);
                }
                _ => {}
            }
            task
        });
        let mut tasks: Vec<Task> = recorded.collect();
        tasks.extend(without_record.into_iter().map(|id| {
            let named = names.remove(&id);
            let (pod, container) = named.map_or((None, None), |named| (named.pod, named.container));
            Task {
                pod,
                container,
                ..listed_task(id.as_str())
            }
        }));
        Fact::known(tasks, source)
    }

    /// Those of `ids` whose first process has exited, with its PID if that is still recorded.
    pub fn ended(&self, ids: &BTreeSet<Id>) -> BTreeMap<Id, Option<u32>> {
        let inits = ids.iter().map(|id| (id.clone(), self.init(id)));
        let ended = inits.filter(|(id, init)| match init {
            Some(init) => !self.lives(*init),
            None => self.records.has_ended(id, None),
        });
        ended.collect()
    }

    /// The containers of pods whose first process runs, except those that are `known`: sandboxes are
    /// listed only once they are complete, and what others run here has no pod. A process that is still
    /// runc runs nothing of its container: its start was given up, or goes on.
    pub fn running_besides(&self, known: &BTreeSet<Id>) -> BTreeMap<Id, u32> {
        let unknown = self.noted().into_iter().filter_map(|one| {
            let init = one.init.filter(|init| self.has_started(*init))?;
            let id = Id::from(&*one.id);
            if known.contains(&id) {
                return None;
            }
            let mut task = Task::default();
            describe(&one.place.spec(&one.id), &mut task)?;
            task.container.map(|_| (id, init))
        });
        unknown.take(MAX_SPECS).collect()
    }

    /// Whether the recorded PIDs are valid here: not if the runtime is in another PID namespace.
    pub fn has_our_pids(&self, runtime: u32) -> bool {
        let status = self.proc.join(runtime.to_string()).join("status");
        let status = std::fs::read_to_string(status).unwrap_or_default();
        let mut lines = status.lines();
        let namespaces = lines.find_map(|line| line.strip_prefix("NSpid:"));
        namespaces.is_some_and(|pids| pids.split_ascii_whitespace().count() == 1)
    }

    /// Each recorded task, with its first process if it has one.
    fn noted(&self) -> Vec<Noted<'_>> {
        let tasks = self.places.iter().flat_map(|place| {
            let entries = place.folder.read_dir().into_iter().flatten().flatten();
            entries.map(move |entry| (place, entry.file_name()))
        });
        let noted = tasks.take(MAX_TASKS).filter_map(|(place, id)| {
            let id = id.into_string().ok()?;
            let init = place.init(&id);
            // The PID in an old record may have been reused.
            let conmon = place.conmon(&id).filter(|pid| self.is_conmon(*pid));
            let is_begun = init.is_some() || conmon.is_some() || place.has_one(&id);
            is_begun.then_some(Noted {
                id,
                init,
                conmon,
                place,
            })
        });
        noted.collect()
    }

    /// The first process of a container, if that is recorded.
    fn init(&self, id: &Id) -> Option<u32> {
        let mut places = self.places.iter();
        places.find_map(|place| place.init(id.as_str()))
    }

    /// Whether this process of a container lives, and may be its first one: in a pod that shares its PID
    /// namespace, others outlive that.
    pub fn may_be_first(&self, id: &Id, pid: u32) -> bool {
        self.lives(pid) && self.init(id).is_none_or(|init| init == pid)
    }

    fn lives(&self, pid: u32) -> bool {
        let stat = read_stat(&self.proc.join(pid.to_string()));
        stat.is_some_and(|stat| !stat.has_ended())
    }

    fn has_started(&self, pid: u32) -> bool {
        let stat = read_stat(&self.proc.join(pid.to_string()));
        let is_runc = |comm: &str| is_runc_init(comm) || is_runc(comm);
        stat.is_some_and(|stat| !stat.has_ended() && !is_runc(&stat.comm))
    }

    fn is_conmon(&self, pid: u32) -> bool {
        let stat = read_stat(&self.proc.join(pid.to_string()));
        stat.is_some_and(|stat| stat.comm == "conmon")
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
    fn a_task_names_its_pod_and_its_first_process() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "containerd/containerd.sock");
        assert!(folder.noted().is_empty());
        let tasks_of = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
        let task = root.path().join(tasks_of).join("abc");
        // Of one that is dead, too: that is when its shim matters.
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
    fn of_a_container_that_runs_and_is_not_listed_only_those_of_pods_count() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "containerd/containerd.sock");
        let tasks_of = "run/containerd/io.containerd.runtime.v2.task/k8s.io";
        let of_pod = r#"{"annotations":{"io.kubernetes.cri.sandbox-name":"web",
            "io.kubernetes.cri.container-name":"app"}}"#;
        let tasks = [
            ("listed", "11", "app", 'S', of_pod),
            ("lost", "12", "app", 'S', of_pod),
            ("ended", "13", "app", 'Z', of_pod),
            // Their start was given up.
            ("given-up", "16", "runc:[2:INIT]", 'S', of_pod),
            ("of-crun", "17", "crun", 'S', of_pod),
            // Of `ctr`, and a sandbox.
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
        assert_eq!(lost, [(Id::from("lost"), 12)].into());
    }

    #[test]
    fn the_notes_of_cri_o_name_the_first_process_and_the_conmon_of_each_container() {
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
        // What podman runs is in the same folder.
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
        // Another process has the pid of the conmon that has ended.
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
    fn of_cri_dockerd_the_tasks_are_those_of_the_containerd_behind_dockerd() {
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
    fn where_nothing_runs_that_is_known_and_where_no_folder_is_it_is_not() {
        let root = tempfile::tempdir().unwrap();
        let folder = folder(&root, "crio/crio.sock");
        assert_eq!(folder.all().value(), None);
        let containers = "run/containers/storage/overlay-containers";
        fs::create_dir_all(root.path().join(containers)).unwrap();
        assert_eq!(tasks(&folder), []);
    }

    #[test]
    fn a_runtime_in_a_namespace_of_its_own_notes_other_pids_than_ours() {
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
