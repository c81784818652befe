//! Containers about which the runtime and the kernel disagree:
//!
//! ```text
//!   listed as running, its process has exited   its conmon or shim is stopped or gone
//!   its process runs, not listed                the runtime could not read its own records
//!   its process runs, listed as ended           its shim was killed, and did not end it
//! ```
//!
//! All are so for a moment when a container ends or starts, and stay so if something is wrong.

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

/// Looks for them twice.
pub(super) struct Disagreements {
    folder: TaskFolder,
    first: Option<Result<First, Unread>>,
}

/// The first processes could not be read in time.
#[derive(Clone, Copy, Debug)]
struct Unread;

/// What was found at first.
struct First {
    found: Found,
    at: Instant,
}

/// The containers, with their first processes.
#[derive(Default)]
struct Found {
    /// Those that are listed as running and whose process has exited, with its PID if that is recorded.
    though_dead: BTreeMap<Id, Option<u32>>,
    /// Those whose process runs and that are not listed.
    unlisted: BTreeMap<Id, u32>,
    /// Those that are listed as ended.
    ended: BTreeSet<Id>,
    /// Those of them of which a process ran later.
    though_alive: BTreeMap<Id, u32>,
}

/// The containers about which the runtime and the kernel have disagreed for seconds.
#[derive(Debug, Default)]
pub(super) struct Disagreeing {
    /// They are listed as running, and their process has exited.
    pub though_dead: BTreeSet<Id>,
    /// Their process runs, and they are not listed.
    pub unlisted: BTreeSet<Id>,
    /// They are listed as ended, and this process of theirs runs.
    pub though_alive: BTreeMap<Id, u32>,
}

impl Disagreeing {
    fn count(&self) -> usize {
        self.though_dead.len() + self.unlisted.len() + self.though_alive.len()
    }

    /// Whether this container is one of them.
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

    /// Whether they were looked for.
    pub fn is_checked(&self) -> bool {
        self.first.is_some()
    }

    /// Looks for them; `runtime` is the runtime's process.
    pub async fn check(&mut self, observed: &Observed, runtime: Option<u32>) {
        let at = Instant::now();
        let (running, known, ended) = (running(observed), known(observed), ended(observed));
        let (folder, is_listed) = (self.folder.clone(), is_listed(observed));
        let read = spawn_blocking(move || {
            match runtime.is_some_and(|runtime| folder.has_our_pids(runtime)) {
                true => Found {
                    though_dead: folder.ended(&running),
                    unlisted: match is_listed {
                        true => folder.running_besides(&known),
                        false => BTreeMap::new(),
                    },
                    ..Found::default()
                },
                false => Found::default(),
            }
        });
        let found = timeout(FIRST_PROCESSES, read).await;
        let found = found.ok().and_then(Result::ok);
        let first = found.map(|found| Found { ended, ..found });
        self.first = Some(first.map(|found| First { found, at }).ok_or(Unread));
    }

    /// Notes which processes of containers ran after they had been looked for. If any should have ended,
    /// waits until the next look at all pods decides: an agent may not look again by itself for long.
    pub async fn note_living(&mut self, host: &HostFacts) {
        if let Some(Ok(First { found, at })) = &mut self.first {
            found.though_alive = oldest_processes(host);
            found.though_alive.retain(|id, _| found.ended.contains(id));
            if !found.though_alive.is_empty() {
                sleep_until(*at + EXIT_NOTICED_WITHIN).await;
            }
        }
    }

    /// Whether nothing more can be learned: they agree about each, or the pods were observed after a
    /// healthy runtime would have noticed.
    pub fn is_decided(&self, observed: &Observed) -> bool {
        let Some(Ok(first)) = &self.first else {
            return true;
        };
        let still = first.still(observed);
        first.is_decided(&still, observed)
    }

    /// The containers about which they still disagree; `Err` with their number if that is not known.
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
            // If it was restarted under the same id, another process has exited since.
            let again = folder.ended(&still.though_dead).into_iter();
            let again = again.filter(|(id, init)| {
                let before = first.found.though_dead.get(id);
                before.is_some_and(|before| init.is_none() || init == before)
            });
            let unlisted = folder.running_besides(&known).into_keys();
            let alive = still.though_alive.into_iter();
            Disagreeing {
                though_dead: again.map(|(id, _)| id).collect(),
                unlisted: unlisted.filter(|id| still.unlisted.contains(id)).collect(),
                though_alive: alive
                    .filter(|(id, pid)| folder.may_be_first(id, *pid))
                    .collect(),
            }
        });
        let still = timeout(FIRST_PROCESSES, read).await;
        still.ok().and_then(Result::ok).ok_or(count)
    }
}

impl First {
    /// Those about which the engine still reports something else than the kernel.
    fn still(&self, observed: &Observed) -> Disagreeing {
        let (running, known, ended) = (running(observed), known(observed), ended(observed));
        let though_dead = self.found.though_dead.keys();
        let though_dead = though_dead.filter(|id| running.contains(*id));
        let unlisted = self.found.unlisted.keys();
        let unlisted = unlisted.filter(|id| is_listed(observed) && !known.contains(*id));
        let though_alive = self.found.though_alive.iter();
        let though_alive = though_alive.filter(|(id, _)| ended.contains(*id));
        Disagreeing {
            though_dead: though_dead.cloned().collect(),
            unlisted: unlisted.cloned().collect(),
            though_alive: though_alive.map(|(id, pid)| (id.clone(), *pid)).collect(),
        }
    }

    /// Whether all pods were observed after a healthy runtime would have noticed, or an agent that watches
    /// processes reports each of them: the newest look at all pods may be old, as a status may hang.
    fn is_decided(&self, still: &Disagreeing, observed: &Observed) -> bool {
        let failing = observed.status.failing.iter();
        let known = failing.filter(|it| it.contradicted && still.though_dead.contains(&it.id));
        known.count() == still.count() || observed.is_newer_than(self.at + EXIT_NOTICED_WITHIN)
    }
}

/// Whether the pods are those of lists: a sweep observes only what is known.
fn is_listed(observed: &Observed) -> bool {
    observed.status.relist.last_kind == Some(PassKind::List)
}

/// The containers and sandboxes that run according to the engine.
fn running(observed: &Observed) -> BTreeSet<Id> {
    in_state(observed, SandboxState::Ready, ContainerState::Running)
}

/// Those that have ended according to it, which none takes back.
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

/// The containers and sandboxes that are listed, as far as the engine knows.
fn known(observed: &Observed) -> BTreeSet<Id> {
    let failing = observed.status.failing.iter();
    let unlisted: BTreeSet<&Id> = failing.filter(|it| it.unlisted).map(|it| &it.id).collect();
    let known = names(&observed.pods).into_keys();
    known.filter(|id| !unlisted.contains(id)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::observed::tests::healthy;
    use super::*;

    #[tokio::test]
    async fn what_could_not_be_read_in_time_is_not_known() {
        let root = tempfile::tempdir().unwrap();
        let [run, proc] = ["run", "proc"].map(|folder| root.path().join(folder));
        let folder = TaskFolder::of(&run.join("containerd/containerd.sock"), &run, &proc);
        let init = run.join("containerd/io.containerd.runtime.v2.task/k8s.io/c1/init.pid");
        std::fs::create_dir_all(init.parent().unwrap()).unwrap();
        // A read of a pipe returns once it is written to.
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
        // The read returns, and there is no other one.
        let pipe = std::fs::OpenOptions::new().write(true).open(&init).unwrap();
        std::fs::remove_file(&init).unwrap();
        drop(pipe);
    }

    #[test]
    fn what_an_agent_that_watches_processes_reports_is_decided_although_no_status_is_answered() {
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
    fn what_no_list_can_show_is_not_waited_for() {
        let first = First {
            found: Found {
                unlisted: [("c9".into(), 81)].into(),
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
