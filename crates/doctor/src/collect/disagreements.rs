//! Containers about which the runtime and the kernel disagree, with the usual reason:
//!
//! ```text
//!   listed as running, but its process has exited   its conmon or shim is stopped or has ended
//!   not listed, but its process runs                the runtime could not read its own records
//!   listed as ended, but its process runs           its shim was killed without ending it
//! ```
//!
//! When a container starts or ends, the two disagree for a moment. So they are compared twice, some seconds
//! apart.

use std::collections::{BTreeMap, BTreeSet};

use pleg::model::id::Id;
use pleg::model::listed::{ContainerState, SandboxState};
use pleg::out::coverage::PassKind;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until, timeout};

use super::names::names;
use super::observed::Observed;
use super::task_folder::TaskFolder;
use crate::evidence::owner::oldest_processes;
use crate::facts::HostFacts;
use crate::limits::{EXIT_NOTICED_WITHIN, FIRST_PROCESSES};

/// The search for containers about which the runtime and the kernel disagree.
pub(super) struct Disagreements {
    folder: TaskFolder,
    first: Option<Result<First, Unread>>,
}

/// The first processes of the containers could not be read in time.
#[derive(Clone, Copy, Debug)]
struct Unread;

/// The first comparison.
struct First {
    found: Found,
    at: Instant,
}

/// The containers that the first comparison found.
#[derive(Default)]
struct Found {
    /// Containers that were listed as running and whose process had exited, with its PID if that is recorded.
    though_dead: BTreeMap<Id, Option<u32>>,
    /// Containers that were not listed and whose process ran.
    unlisted: BTreeSet<Id>,
    /// Containers that were listed as ended.
    ended: BTreeSet<Id>,
    /// Containers that were listed as ended and had a running process later, with the PID of that process.
    though_alive: BTreeMap<Id, u32>,
}

/// The containers about which the runtime and the kernel have disagreed for seconds.
#[derive(Debug, Default)]
pub(super) struct Disagreeing {
    /// Containers that are listed as running, but whose process has exited.
    pub though_dead: BTreeSet<Id>,
    /// Containers that are not listed, but whose process runs.
    pub unlisted: BTreeSet<Id>,
    /// Containers that are listed as ended although a process of theirs runs, with its PID.
    pub though_alive: BTreeMap<Id, u32>,
}

impl Disagreeing {
    fn count(&self) -> usize {
        self.though_dead.len() + self.unlisted.len() + self.though_alive.len()
    }

    /// Whether this container is listed as running without a process, or has a process but is not listed.
    pub fn contains(&self, id: &Id) -> bool {
        self.though_dead.contains(id) || self.unlisted.contains(id)
    }
}

impl Disagreements {
    pub fn new(folder: TaskFolder) -> Self {
        Self {
            folder,
            first: None,
        }
    }

    /// Whether the first comparison was made.
    pub fn is_checked(&self) -> bool {
        self.first.is_some()
    }

    /// Makes the first comparison; `runtime` is the runtime's process.
    pub async fn check(&mut self, observed: &Observed, runtime: Option<u32>) {
        let at = Instant::now();
        let (running, known, ended) = (running(observed), known(observed), ended(observed));
        let (folder, is_listed) = (self.folder.clone(), is_listed(observed));
        let read = spawn_blocking(move || {
            let mut found = Found {
                ended,
                ..Found::default()
            };
            if runtime.is_some_and(|runtime| folder.has_our_pids(runtime)) {
                found.though_dead = folder.ended(&running);
                if is_listed {
                    found.unlisted = folder.running_besides(&known);
                }
            }
            First { found, at }
        });
        let first = timeout(FIRST_PROCESSES, read).await;
        self.first = Some(first.ok().and_then(Result::ok).ok_or(Unread));
    }

    /// Records which containers that were listed as ended have a process in `host`, which was read later.
    /// If any has, waits for `EXIT_NOTICED_WITHIN` after the first comparison, so that the relist that the
    /// caller requests next is decisive: an agent may not begin one by itself for a long time.
    pub async fn note_living(&mut self, host: &HostFacts) {
        if let Some(Ok(First { found, at })) = &mut self.first {
            found.though_alive = oldest_processes(host);
            found.though_alive.retain(|id, _| found.ended.contains(id));
            if !found.though_alive.is_empty() {
                sleep_until(*at + EXIT_NOTICED_WITHIN).await;
            }
        }
    }

    /// Whether waiting longer would add nothing: the runtime and the kernel agree, or the pods were observed
    /// after a healthy runtime would have noticed the change.
    pub fn is_decided(&self, observed: &Observed) -> bool {
        match &self.first {
            Some(Ok(first)) => first.is_decided(&first.still(observed), observed),
            Some(Err(Unread)) | None => true,
        }
    }

    /// Makes the second comparison. Returns the containers about which the runtime and the kernel still
    /// disagree, or `Err` with the number of containers for which this could not be determined.
    pub async fn end(self, observed: &Observed) -> Result<Disagreeing, usize> {
        let first = match self.first {
            None => return Ok(Disagreeing::default()),
            Some(Ok(first)) => first,
            Some(Err(Unread)) => {
                return match running(observed).len() {
                    0 => Ok(Disagreeing::default()),
                    count => Err(count),
                };
            }
        };
        let still = first.still(observed);
        let count = still.count();
        if count == 0 {
            return Ok(still);
        }
        if !first.is_decided(&still, observed) {
            return Err(count);
        }
        let (folder, known) = (self.folder, known(observed));
        let read = spawn_blocking(move || {
            let mut though_dead = folder.ended(&still.though_dead);
            // If the container was restarted under the same id, another process has exited.
            though_dead.retain(|id, init| {
                let before = first.found.though_dead.get(id);
                before.is_some_and(|before| init.is_none() || init == before)
            });
            let mut though_alive = still.though_alive;
            though_alive.retain(|id, pid| folder.may_be_first(id, *pid));
            Disagreeing {
                though_dead: though_dead.into_keys().collect(),
                unlisted: &folder.running_besides(&known) & &still.unlisted,
                though_alive,
            }
        });
        let still = timeout(FIRST_PROCESSES, read).await;
        still.ok().and_then(Result::ok).ok_or(count)
    }
}

impl First {
    /// The containers about which the engine still reports something other than the kernel showed.
    fn still(&self, observed: &Observed) -> Disagreeing {
        let (running, known, ended) = (running(observed), known(observed), ended(observed));
        let though_dead = self.found.though_dead.keys();
        let mut though_alive = self.found.though_alive.clone();
        though_alive.retain(|id, _| ended.contains(id));
        Disagreeing {
            though_dead: though_dead
                .filter(|id| running.contains(*id))
                .cloned()
                .collect(),
            unlisted: match is_listed(observed) {
                true => &self.found.unlisted - &known,
                false => BTreeSet::new(),
            },
            though_alive,
        }
    }

    /// Whether all pods were observed after a healthy runtime would have noticed the change, or an agent
    /// that watches processes reports each of these containers. The agent's report suffices because, while
    /// a status call hangs, the last pass may be long ago.
    fn is_decided(&self, still: &Disagreeing, observed: &Observed) -> bool {
        let failing = observed.status.failing.iter();
        let known = failing.filter(|it| it.contradicted && still.though_dead.contains(&it.id));
        known.count() == still.count() || observed.is_newer_than(self.at + EXIT_NOTICED_WITHIN)
    }
}

/// Whether the pods are those of a relist: a sweep observes only known pods.
fn is_listed(observed: &Observed) -> bool {
    observed.status.relist.last_kind == Some(PassKind::List)
}

/// The containers and sandboxes that run according to the engine.
fn running(observed: &Observed) -> BTreeSet<Id> {
    in_state(observed, SandboxState::Ready, ContainerState::Running)
}

/// The containers and sandboxes that have ended according to the engine. They never run again.
fn ended(observed: &Observed) -> BTreeSet<Id> {
    in_state(observed, SandboxState::NotReady, ContainerState::Exited)
}

fn in_state(observed: &Observed, sandbox: SandboxState, container: ContainerState) -> BTreeSet<Id> {
    let ids = observed.pods.iter().flat_map(|pod| {
        let sandboxes = pod.status.sandboxes.iter();
        let sandboxes = sandboxes.filter(move |it| it.state == sandbox);
        let containers = pod.status.containers.iter();
        let containers = containers.filter(move |it| it.state == container);
        let ids = sandboxes.map(|it| &it.id);
        ids.chain(containers.map(|it| &it.id)).cloned()
    });
    ids.collect()
}

/// The containers and sandboxes that are listed according to the engine.
fn known(observed: &Observed) -> BTreeSet<Id> {
    let mut known: BTreeSet<Id> = names(&observed.pods).into_keys().collect();
    for failing in observed.status.failing.iter().filter(|it| it.unlisted) {
        known.remove(&failing.id);
    }
    known
}

#[cfg(test)]
mod tests {
    use super::super::observed::tests::healthy;
    use super::*;

    #[tokio::test]
    async fn containers_that_could_not_be_read_in_time_are_undecided() {
        let root = tempfile::tempdir().unwrap();
        let [run, proc] = ["run", "proc"].map(|folder| root.path().join(folder));
        let folder = TaskFolder::of(&run.join("containerd/containerd.sock"), &run, &proc);
        let init = run.join("containerd/io.containerd.runtime.v2.task/k8s.io/c1/init.pid");
        std::fs::create_dir_all(init.parent().unwrap()).unwrap();
        // A read of a pipe blocks until something is written to the pipe.
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, &init, pipe, mode, 0).unwrap();
        std::fs::create_dir_all(proc.join("10")).unwrap();
        std::fs::write(proc.join("10/status"), "NSpid:\t10\n").unwrap();
        let observed = healthy();
        let mut disagreements = Disagreements::new(folder);
        disagreements.check(&observed, Some(10)).await;
        assert!(disagreements.is_decided(&observed));
        assert_eq!(disagreements.end(&observed).await.unwrap_err(), 1);
        // Ends the read that is blocked.
        let pipe = std::fs::OpenOptions::new().write(true).open(&init).unwrap();
        std::fs::remove_file(&init).unwrap();
        drop(pipe);
    }

    #[test]
    fn a_container_that_an_agent_reports_as_exited_is_decided_without_a_new_pass() {
        let first = First {
            found: Found {
                though_dead: [("c1".into(), Some(81))].into(),
                ..Found::default()
            },
            at: Instant::now(),
        };
        let mut observed = healthy();
        observed.status.health.age_seconds = Some(60.0);
        let still = first.still(&observed);
        assert!(still.contains(&"c1".into()) && !first.is_decided(&still, &observed));
        let failing = serde_json::json!({
            "call": "ContainerStatus", "id": "c1", "container": "app", "pod": null, "error": "e",
            "sinceSeconds": 5.0, "contradicted": true,
        });
        let failing = serde_json::from_value(failing).unwrap();
        observed.status.failing.push(failing);
        assert!(first.is_decided(&still, &observed));
    }

    #[test]
    fn a_container_is_unlisted_only_if_pods_are_listed() {
        let first = First {
            found: Found {
                unlisted: ["c9".into()].into(),
                ..Found::default()
            },
            at: Instant::now(),
        };
        let mut observed = healthy();
        observed.status.relist.last_kind = Some(PassKind::List);
        assert!(first.still(&observed).contains(&"c9".into()));
        observed.status.relist.last_kind = Some(PassKind::Sweep);
        assert_eq!(first.still(&observed).count(), 0);
    }
}
