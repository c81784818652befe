//! The folder of manifests as the source of a sync loop, together with the pods that earlier runs
//! left.
//!
//! ```text
//!   folder: Set ----------------------------------------------------------> Change::Set
//!   folder: Removed ------------------------------------------------------> Change::Remove
//!   our sandboxes, notes on this host --> adopted pods
//!   folder: Synced --> adopted pods that are not wanted ------------------> Change::Remove
//!                      (not while their file is refused)
//! ```
//!
//! Leftovers are searched for repeatedly, because a runtime may complete a creation after the run
//! that requested it was killed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{PodRef, PodUid};
use pleg::model::wall_time::WallClock;
use sync_loop::Source;
use tokio::sync::mpsc;
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::adopted::{Adopted, merge_adopted};
use crate::decide::Why;
use crate::folder::{self, ALL_MISSING_FOR, Folder, Subject};
use crate::pods::{PodsSender, is_namesake};
use crate::runtime::{OwnedContainer, RuntimeClient};
use crate::spec::PodSpec;
use crate::volumes::read_notes;
use crate::worker::{Kind, Line, Lines};

type Change = sync_loop::Change<Arc<PodSpec>>;

/// The time from a failed search for leftovers to the next attempt.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// How long the list of our sandboxes may take. After this time, the attempt fails.
const LIST_SANDBOXES_TIMEOUT: Duration = Duration::from_secs(30);

/// How long the list of our containers may take. After this time, the search continues without the
/// list, which hangs while one container is stuck, and is needed only to remove old sandboxes.
const LIST_CONTAINERS_TIMEOUT: Duration = Duration::from_secs(2);

/// The time between two searches for leftovers. A later search finds what the runtime created after
/// the run that requested it had been killed.
const LEFTOVER_SCAN_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// The source of the wanted pods.
pub struct Manifests {
    /// The folder of manifests; `None` if no pod is wanted and all adopted pods must end.
    folder: Option<Folder>,
    scan: LeftoverScan,
    /// The adopted pods that may still be wanted; `None` before the first search has ended.
    adopted: Option<BTreeMap<PodUid, Adopted>>,
    /// When it was first noticed that there is no manifest, although pods were adopted.
    empty_since: Option<Instant>,
    ready: VecDeque<Change>,
    pods: PodsSender,
    lines: Lines,
    clock: WallClock,
}

/// What the runtime and this host contain of pods that are neither wanted nor ending.
#[derive(Default)]
pub struct Leftovers {
    /// The pods.
    pub pods: BTreeMap<PodUid, Adopted>,
    /// The containers of these pods. Empty if containers could not be listed in time.
    pub containers: Vec<OwnedContainer>,
}

/// A task that searches for leftovers at once and then every [`LEFTOVER_SCAN_INTERVAL`].
struct LeftoverScan {
    receiver: mpsc::Receiver<Leftovers>,
    /// Dropping this ends the task.
    task: JoinSet<()>,
}

impl LeftoverScan {
    fn start<A>(find: impl Fn() -> A + Send + 'static, pods: PodsSender) -> Self
    where
        A: Future<Output = Leftovers> + Send,
    {
        let (sender, receiver) = mpsc::channel(1);
        let mut task = JoinSet::new();
        task.spawn(async move {
            loop {
                // Taken first, because the lists may still show a pod that ends while they are read.
                let known = pods.borrow().uids();
                let mut leftovers = find().await;
                leftovers.pods.retain(|uid, _| !known.contains(uid));
                let containers = &mut leftovers.containers;
                containers.retain(|it| !known.contains(&it.pod.uid));
                if sender.send(leftovers).await.is_err() {
                    return;
                }
                sleep(LEFTOVER_SCAN_INTERVAL).await;
            }
        });
        Self { receiver, task }
    }

    async fn next(&mut self) -> Leftovers {
        if let Some(leftovers) = self.receiver.recv().await {
            return leftovers;
        }
        // The task ends before its receiver only if it panics. The panic is passed on.
        if let Some(Err(error)) = self.task.join_next().await {
            std::panic::resume_unwind(error.into_panic());
        }
        std::future::pending().await
    }
}

impl Manifests {
    /// A source of the pods of a folder. `find` is [`find_leftovers`]. Without a folder, all pods that
    /// it returns end. Must be called within a tokio runtime.
    pub fn new<A>(
        folder: Option<Folder>,
        find: impl Fn() -> A + Send + 'static,
        pods: PodsSender,
        lines: Lines,
        clock: WallClock,
    ) -> Self
    where
        A: Future<Output = Leftovers> + Send,
    {
        Self {
            folder,
            scan: LeftoverScan::start(find, pods.clone()),
            adopted: None,
            empty_since: None,
            ready: VecDeque::new(),
            pods,
            lines,
            clock,
        }
    }

    fn adopt(&mut self, leftovers: Leftovers) {
        self.pods.send_modify(|pods| {
            for container in leftovers.containers {
                let containers = pods.adopted.entry(container.pod.uid).or_default();
                let pair = (container.id, container.sandbox_id);
                // Each search finds the pod again while its manifest is refused.
                if !containers.contains(&pair) {
                    containers.push(pair);
                }
            }
        });
        self.adopted.get_or_insert_default().extend(leftovers.pods);
        if self.folder.is_none() {
            self.end_unwanted(&Why::ShuttingDown);
            self.pods.send_modify(|pods| pods.is_synced = true);
        } else if self.pods.borrow().is_synced {
            self.end_removed();
        }
    }

    fn take(&mut self, change: &folder::Change) {
        match change {
            folder::Change::Set { spec, file } => {
                self.report(Some(&spec.pod), "Add", file.to_string());
                self.end_namesakes(&spec.pod);
                self.pods.send_modify(|pods| pods.want(spec.clone()));
                let set = Change::Set(spec.pod.clone(), spec.clone());
                self.ready.push_back(set);
            }
            folder::Change::Removed { pod, file } => {
                self.report(Some(pod), "Remove", file.to_string());
                self.pods
                    .send_modify(|pods| pods.end(pod, Why::ManifestRemoved, None));
                self.ready.push_back(Change::Remove(pod.clone()));
            }
            folder::Change::Problem { subject, kept, .. } => {
                self.report(kept.as_ref(), "Refuse", change.to_string());
                if let Subject::File(file) = subject {
                    self.pods
                        .send_modify(|pods| pods.refused.extend([file.clone()]));
                }
            }
            folder::Change::Solved { subject } => {
                self.report(None, "Solve", change.to_string());
                if let Subject::File(file) = subject {
                    self.pods
                        .send_modify(|pods| pods.refused.retain(|it| it != file));
                }
            }
            folder::Change::Synced => self.pods.send_modify(|pods| pods.is_synced = true),
        }
        if self.pods.borrow().is_synced {
            self.end_removed();
        }
    }

    fn report(&self, pod: Option<&PodRef>, action: &'static str, why: String) {
        self.lines.send(Line {
            kind: Kind::Manifest,
            time: (self.clock)(),
            pod: pod.cloned(),
            container: None,
            action,
            why,
        });
    }

    /// Ends the adopted pods without a manifest. If there is no manifest at all, the file system of
    /// the folder may not be mounted yet, so the pods end only after [`ALL_MISSING_FOR`].
    fn end_removed(&mut self) {
        let has_manifest = {
            let pods = self.pods.borrow();
            !pods.wanted.is_empty() || !pods.refused.is_empty()
        };
        let has_adopted = self.adopted.as_ref().is_some_and(|it| !it.is_empty());
        if has_adopted && !has_manifest {
            let since = *self.empty_since.get_or_insert_with(|| {
                let seconds = ALL_MISSING_FOR.as_secs();
                tracing::warn!(
                    "there is no manifest: the pods of an earlier run end in {seconds} s, unless a manifest is added by then"
                );
                Instant::now()
            });
            if since.elapsed() < ALL_MISSING_FOR {
                return;
            }
        } else {
            self.empty_since = None;
        }
        self.end_unwanted(&Why::ManifestRemoved);
    }

    /// Ends the adopted pods with the name of a pod that is wanted now.
    fn end_namesakes(&mut self, wanted: &PodRef) {
        self.end_adopted(&Why::ManifestChanged, |it, _| is_namesake(&it.pod, wanted));
    }

    /// Ends the adopted pods that are not wanted. All manifests must have been read. A pod whose
    /// manifest is refused is kept.
    fn end_unwanted(&mut self, why: &Why) {
        self.end_adopted(why, |it, refused| !refused.contains(&it.file));
    }

    /// Ends the adopted pods for which `must_end` is true. Its second argument contains the refused
    /// files.
    fn end_adopted(&mut self, why: &Why, must_end: impl Fn(&Adopted, &BTreeSet<Arc<str>>) -> bool) {
        let Some(adopted) = &mut self.adopted else {
            return;
        };
        let ending: Vec<Adopted> = {
            let pods = self.pods.borrow();
            let known = pods.uids();
            adopted.retain(|uid, _| !known.contains(uid));
            let ending = adopted.iter().filter(|(_, it)| must_end(it, &pods.refused));
            let ending: Vec<PodUid> = ending.map(|(uid, _)| uid.clone()).collect();
            let ending = ending.iter().filter_map(|uid| adopted.remove(uid));
            ending.collect()
        };
        for Adopted {
            pod, termination, ..
        } in ending
        {
            self.pods
                .send_modify(|pods| pods.end(&pod, why.clone(), Some(termination)));
            self.ready.push_back(Change::Remove(pod));
        }
    }
}

impl Source for Manifests {
    type Spec = Arc<PodSpec>;

    async fn next(&mut self) -> Option<Change> {
        loop {
            if let Some(change) = self.ready.pop_front() {
                return Some(change);
            }
            if self.adopted.is_none() {
                let leftovers = self.scan.next().await;
                self.adopt(leftovers);
                continue;
            }
            let folder = self.folder.as_mut()?;
            let confirmed = self.empty_since.map(|since| since + ALL_MISSING_FOR);
            tokio::select! {
                () = sleep_until_or_forever(confirmed) => {
                    self.end_removed();
                    self.empty_since = None;
                }
                change = folder.next() => self.take(&change),
                leftovers = self.scan.next() => self.adopt(leftovers),
            }
        }
    }
}

/// Waits until a time, or forever if there is none.
async fn sleep_until_or_forever(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Finds the pods of `owner` in the runtime and in the notes under `root`. Retries until the
/// runtime lists its sandboxes, because no pod is started before that.
pub async fn find_leftovers(client: Arc<RuntimeClient>, owner: String, root: PathBuf) -> Leftovers {
    let sandboxes = loop {
        match timeout(LIST_SANDBOXES_TIMEOUT, client.sandboxes(&owner)).await {
            Ok(Ok(sandboxes)) => break sandboxes,
            Ok(Err(error)) => tracing::warn!(%error, "cannot list the pods of an earlier run"),
            Err(_) => tracing::warn!(
                "cannot list the pods of an earlier run: no answer within {} s",
                LIST_SANDBOXES_TIMEOUT.as_secs()
            ),
        }
        sleep(RETRY_AFTER).await;
    };
    let containers = match sandboxes.is_empty() {
        true => Ok(Ok(Vec::new())),
        false => timeout(LIST_CONTAINERS_TIMEOUT, client.containers(&owner)).await,
    };
    let containers = containers.ok().and_then(Result::ok);
    let notes = spawn_blocking(move || read_notes(&root, &owner)).await;
    let notes = notes.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let notes = notes.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read the notes of an earlier run on this host");
        Vec::new()
    });
    Leftovers {
        pods: merge_adopted(notes, sandboxes),
        containers: containers.unwrap_or_default(),
    }
}
