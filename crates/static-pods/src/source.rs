//! The folder of manifests as the source of a sync loop, and what an earlier run left.
//!
//! ```text
//!   sandboxes of ours, notes on this host ---> adopted --------\
//!   folder ---> Set ---------------------------------------+---> Change::Set
//!          ---> Removed -----------------------------------+---> Change::Remove
//!          ---> Synced: who was adopted and is not wanted -/
//!               (but not while its file has a mistake)
//! ```
//!
//! What is left is asked for again from time to time: a runtime may complete a creation after the
//! run that asked for it was killed.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::{PodRef, PodUid};
use pleg::model::wall_time::WallClock;
use sync_loop::Source;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::adopted::{Adopted, adopted};
use crate::decide::Why;
use crate::folder::{self, ALL_GONE_FOR, Folder, Subject};
use crate::pods::Writer;
use crate::runtime::{OwnedContainer, RuntimeClient};
use crate::spec::PodSpec;
use crate::volumes::noted;
use crate::worker::{Kind, Line, Lines};

type Change = sync_loop::Change<Arc<PodSpec>>;

/// Between two attempts to learn what an earlier run left.
const AGAIN: Duration = Duration::from_secs(1);

/// For so long sandboxes are waited for; another attempt is made then.
const LIST: Duration = Duration::from_secs(30);

/// For so long containers are waited for. While one of them hangs, nothing is told of any; and what
/// is not known of them only delays the removal of old sandboxes.
const CONTAINERS: Duration = Duration::from_secs(2);

/// Between two looks for pods of ours that nobody wants. A creation that outlived its run is over
/// by the second one.
const HOUSEKEEPING: Duration = Duration::from_secs(5 * 60);

/// The pods that are wanted.
pub struct Manifests {
    /// None: nothing is wanted, and all is ended.
    folder: Option<Folder>,
    left: Asking,
    /// Those of which it is not decided yet whether they are wanted; `None` before the first answer.
    adopted: Option<BTreeMap<PodUid, Adopted>>,
    /// Since when nothing is wanted, although pods were adopted.
    empty_since: Option<Instant>,
    ready: VecDeque<Change>,
    pods: Writer,
    lines: Lines,
    clock: WallClock,
}

/// What is in the runtime and on this host of pods that nobody in this run knows.
#[derive(Default)]
pub struct Left {
    /// The pods.
    pub pods: BTreeMap<PodUid, Adopted>,
    /// Their containers, as far as they could be listed.
    pub containers: Vec<OwnedContainer>,
}

/// Who asks what is left, at once and then from time to time.
struct Asking {
    told: mpsc::Receiver<Left>,
    task: JoinHandle<()>,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Asking {
    fn begin<A>(ask: impl Fn() -> A + Send + 'static, pods: Writer) -> Self
    where
        A: Future<Output = Left> + Send,
    {
        let (teller, told) = mpsc::channel(1);
        let task = tokio::spawn(async move {
            loop {
                // Whoever is ended while the lists come is not left, although they show it.
                let known = pods.borrow().known();
                let mut left = ask().await;
                left.pods.retain(|uid, _| !known.contains(uid));
                left.containers.retain(|it| !known.contains(&it.pod.uid));
                if teller.send(left).await.is_err() {
                    return;
                }
                sleep(HOUSEKEEPING).await;
            }
        });
        Self { told, task }
    }

    async fn next(&mut self) -> Left {
        if let Some(left) = self.told.recv().await {
            return left;
        }
        // It ends before its reader only by a panic, which is everybody's.
        match (&mut self.task).await {
            Ok(()) => std::future::pending().await,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl Manifests {
    /// The pods of a folder, or none: then all that is left of earlier runs is ended, which `ask`
    /// tells (see [`what_is_left`]). Must be called within a tokio runtime.
    pub fn new<A>(
        folder: Option<Folder>,
        ask: impl Fn() -> A + Send + 'static,
        pods: Writer,
        lines: Lines,
        clock: WallClock,
    ) -> Self
    where
        A: Future<Output = Left> + Send,
    {
        Self {
            folder,
            left: Asking::begin(ask, pods.clone()),
            adopted: None,
            empty_since: None,
            ready: VecDeque::new(),
            pods,
            lines,
            clock,
        }
    }

    fn adopt(&mut self, left: Left) {
        self.pods.send_modify(|pods| {
            for container in left.containers {
                let of_pod = pods.adopted.entry(container.pod.uid).or_default();
                let its = (container.id, container.sandbox_id);
                // Of a pod whose manifest is refused it is told each time.
                if !of_pod.contains(&its) {
                    of_pod.push(its);
                }
            }
        });
        self.adopted.get_or_insert_default().extend(left.pods);
        if self.folder.is_none() {
            self.end_unwanted(&Why::ShuttingDown);
            self.pods.send_modify(|pods| pods.is_synced = true);
        } else if self.pods.borrow().is_synced {
            self.end_removed();
        }
    }

    fn take(&mut self, change: folder::Change) {
        let line = |pod: Option<&PodRef>, action, why: String| Line {
            kind: Kind::Manifest,
            time: (self.clock)(),
            pod: pod.cloned(),
            container: None,
            action,
            why,
        };
        match change {
            folder::Change::Set { spec, file } => {
                self.lines
                    .tell(line(Some(&spec.pod), "Add", file.to_string()));
                self.end_namesakes(&spec.pod);
                self.pods.send_modify(|pods| pods.want(spec.clone()));
                self.ready.push_back(Change::Set(spec.pod.clone(), spec));
            }
            folder::Change::Removed { pod, file } => {
                self.lines
                    .tell(line(Some(&pod), "Remove", file.to_string()));
                self.pods
                    .send_modify(|pods| pods.end(&pod, Why::ManifestRemoved, None));
                self.ready.push_back(Change::Remove(pod));
            }
            folder::Change::Problem {
                ref subject,
                ref kept,
                ..
            } => {
                self.lines
                    .tell(line(kept.as_ref(), "Refuse", change.to_string()));
                if let Subject::File(file) = subject {
                    self.pods.send_modify(|pods| {
                        pods.refused.insert(file.clone());
                    });
                }
            }
            folder::Change::Solved { ref subject } => {
                self.lines.tell(line(None, "Solve", change.to_string()));
                if let Subject::File(file) = subject {
                    self.pods.send_modify(|pods| {
                        pods.refused.remove(file);
                    });
                }
            }
            folder::Change::Synced => self.pods.send_modify(|pods| pods.is_synced = true),
        }
        if self.pods.borrow().is_synced {
            self.end_removed();
        }
    }

    /// Ends what was adopted and has no manifest. If no manifest is there at all, the file system of
    /// the folder may not be mounted yet: that must last.
    fn end_removed(&mut self) {
        let is_empty = {
            let pods = self.pods.borrow();
            pods.wanted.is_empty() && pods.refused.is_empty()
        };
        let has_adopted = self.adopted.as_ref().is_some_and(|left| !left.is_empty());
        if is_empty && has_adopted {
            let since = *self.empty_since.get_or_insert_with(|| {
                let seconds = ALL_GONE_FOR.as_secs();
                tracing::warn!(
                    "there is no manifest: the pods of an earlier run end if none is there within {seconds} s"
                );
                Instant::now()
            });
            if since.elapsed() < ALL_GONE_FOR {
                return;
            }
        } else {
            self.empty_since = None;
        }
        self.end_unwanted(&Why::ManifestRemoved);
    }

    /// Whoever was adopted under the name of a pod that is wanted now makes room for it.
    fn end_namesakes(&mut self, wanted: &PodRef) {
        let name = |pod: &PodRef| (pod.namespace.clone(), pod.name.clone());
        self.end_adopted(&Why::ManifestChanged, |it, _| {
            name(&it.pod) == name(wanted) && it.pod.uid != wanted.uid
        });
    }

    /// All manifests are known: what was adopted and is not wanted is ended, unless its manifest has
    /// a mistake.
    fn end_unwanted(&mut self, why: &Why) {
        self.end_adopted(why, |it, refused| !refused.contains(&it.file));
    }

    fn end_adopted(&mut self, why: &Why, is_over: impl Fn(&Adopted, &BTreeSet<Arc<str>>) -> bool) {
        let Some(left) = &mut self.adopted else {
            return;
        };
        let over: Vec<Adopted> = {
            let pods = self.pods.borrow();
            left.retain(|uid, _| !pods.wanted.contains_key(uid) && !pods.ending.contains_key(uid));
            let over = left.iter().filter(|(_, it)| is_over(it, &pods.refused));
            let over: Vec<PodUid> = over.map(|(uid, _)| uid.clone()).collect();
            over.iter().filter_map(|uid| left.remove(uid)).collect()
        };
        for adopted in over {
            let Adopted {
                pod, termination, ..
            } = adopted;
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
                let left = self.left.next().await;
                self.adopt(left);
                continue;
            }
            let folder = self.folder.as_mut()?;
            let confirmed = self.empty_since.map(|since| since + ALL_GONE_FOR);
            tokio::select! {
                () = at(confirmed) => {
                    self.end_removed();
                    self.empty_since = None;
                }
                change = folder.next() => self.take(change),
                left = self.left.next() => self.adopt(left),
            }
        }
    }
}

/// Ends at this time, or never.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// What `owner` has in the runtime, and under `root` where the folders of pods are: asked for until
/// the runtime tells it, since nothing is started before.
pub async fn what_is_left(client: Arc<RuntimeClient>, owner: String, root: PathBuf) -> Left {
    let sandboxes = loop {
        match timeout(LIST, client.sandboxes(&owner)).await {
            Ok(Ok(sandboxes)) => break sandboxes,
            Ok(Err(error)) => tracing::warn!(%error, "cannot list the pods of an earlier run"),
            Err(_) => tracing::warn!("the pods of an earlier run are not listed in time"),
        }
        sleep(AGAIN).await;
    };
    let containers = match sandboxes.is_empty() {
        true => Ok(Ok(Vec::new())),
        false => timeout(CONTAINERS, client.containers(&owner)).await,
    };
    let containers = containers.ok().and_then(Result::ok);
    let noted = spawn_blocking(move || noted(&root, &owner)).await;
    let noted = noted.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    let noted = noted.unwrap_or_else(|error| {
        tracing::warn!(%error, "cannot read what an earlier run left on this host");
        Vec::new()
    });
    Left {
        pods: adopted(noted, sandboxes),
        containers: containers.unwrap_or_default(),
    }
}
