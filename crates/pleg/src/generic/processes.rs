//! The processes of running containers: whoever dies gives a hint.
//!
//! ```text
//!   a container runs --> its pid (verbose ContainerStatus) --> watched --dies-->
//!     the runtime is asked, after a few milliseconds and then more, until it knows --> hint
//! ```
//!
//! The kernel knows of a death some 60 ms before the runtime says so, on any runtime, and
//! while neither lists nor events come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep};

use super::{Generic, Message};
use crate::calls::{About, Calls};
use crate::event::Source;
use crate::id::{Id, PodRef};
use crate::inspect::Lanes;
use crate::kernel::{Death, Kernel, Unwatched};
use crate::listed::ContainerState;
use crate::records::{Commit, Hint};
use crate::runtime::{Call, CallError, Runtime};
use crate::status::{ContainerStatus, PodStatus};
use crate::status_report::KernelStatus;

/// How many pids are asked for at once: nothing waits for them.
const PIDS: usize = 4;

/// How many deaths the runtime is asked about at once.
const DEATHS: usize = 8;

/// The first pause before the runtime is asked about a death; each further one is half as
/// long again. containerd takes 60 to 100 ms to know.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest pause, which is what a runtime that is busy with many deaths costs each of
/// them; for fifty at once it makes two hundred calls a second.
const LONGEST_PAUSE: Duration = Duration::from_millis(250);

/// After this long a runtime that still says that it runs is left to the lists.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the watch over a container's process tells.
pub(super) enum Watched {
    /// It has begun, or it could not.
    Begun(Result<(), Refusal>),
    /// The process is dead, and the runtime knows.
    Died(PodRef),
    /// The process is dead, and the runtime went on saying that it runs.
    InVain,
}

/// Why a process is not watched.
#[derive(Clone, Debug)]
pub(super) enum Refusal {
    /// It will not be otherwise for this container.
    ForGood(String),
    /// It may be otherwise when the pod is next inspected.
    ForNow(String),
}

/// The processes that are watched.
pub(super) struct Processes {
    kernel: Option<Arc<dyn Kernel>>,
    pids: Lanes,
    /// Of their own, so that no death waits for a pid.
    deaths: Lanes,
    watches: BTreeMap<Id, Watch>,
    /// What runs and cannot be watched, and why.
    unwatched: BTreeMap<Id, Refusal>,
}

struct Watch {
    begun: bool,
    /// Dropped with the watch, which then ends; but not a call that is under way.
    _stop: oneshot::Sender<()>,
}

impl Processes {
    pub(super) fn new(kernel: Option<Arc<dyn Kernel>>, overdue: Duration) -> Self {
        Self {
            kernel,
            pids: Lanes::new(PIDS, overdue),
            deaths: Lanes::new(DEATHS, overdue),
            watches: BTreeMap::new(),
            unwatched: BTreeMap::new(),
        }
    }

    pub(super) fn status(&self) -> KernelStatus {
        let watched = self.watches.values().filter(|watch| watch.begun).count();
        let state = match &self.kernel {
            None => "off",
            Some(_) if watched == 0 && !self.unwatched.is_empty() => "unavailable",
            Some(_) => "live",
        };
        let why = self.unwatched.values().next().map(|refusal| {
            let (Refusal::ForGood(why) | Refusal::ForNow(why)) = refusal;
            match self.unwatched.len() {
                1 => format!("1 container is not watched: {why}"),
                many => format!("{many} containers are not watched: {why}"),
            }
        });
        KernelStatus {
            state: state.to_owned(),
            watched,
            why,
        }
    }

    /// Whether a container is not watched, and could be.
    fn may_watch(&self, id: &Id) -> bool {
        let for_good = matches!(self.unwatched.get(id), Some(Refusal::ForGood(_)));
        !for_good && !self.watches.contains_key(id)
    }

    /// A container runs no more, or is no more.
    fn forget(&mut self, id: &Id) {
        self.watches.remove(id);
        self.unwatched.remove(id);
    }
}

impl<R: Runtime> Generic<R> {
    /// Watches what runs in a pod that was inspected, and nothing else of it.
    pub(super) fn watch_processes(&mut self, commit: &Commit, status: Option<&PodStatus>) {
        let Some(kernel) = self.processes.kernel.clone() else {
            return;
        };
        for change in &commit.changes {
            self.processes.forget(&change.id);
        }
        let Some(status) = status else {
            return;
        };
        for container in &status.containers {
            let runs = container.state == ContainerState::Running;
            if runs && self.processes.may_watch(&container.id) {
                self.watch(kernel.clone(), container, status.pod());
            }
        }
    }

    fn watch(&mut self, kernel: Arc<dyn Kernel>, container: &ContainerStatus, pod: PodRef) {
        let id = container.id.clone();
        let watcher = Watcher {
            about: About {
                call: Call::ContainerStatus,
                id: Some(id.clone()),
                container: Some(container.name.clone()),
                pod: Some(pod.clone()),
            },
            id: id.clone(),
            runtime: self.runtime.clone(),
            calls: self.calls.clone(),
            pids: self.processes.pids.clone(),
            deaths: self.processes.deaths.clone(),
            kernel,
            reports: self.reports.clone(),
        };
        let (stop, stopped) = oneshot::channel();
        self.tasks.spawn(watcher.watch(pod, stopped));
        let watch = Watch {
            begun: false,
            _stop: stop,
        };
        self.processes.watches.insert(id, watch);
    }

    pub(super) fn on_watched(&mut self, id: Id, watched: Watched) {
        match watched {
            Watched::Begun(Ok(())) => {
                if let Some(watch) = self.processes.watches.get_mut(&id) {
                    watch.begun = true;
                    self.processes.unwatched.remove(&id);
                }
            }
            Watched::Begun(Err(why)) => {
                if self.processes.watches.remove(&id).is_some() {
                    tracing::debug!("{id} is not watched: {why:?}");
                    self.processes.unwatched.insert(id, why);
                }
            }
            Watched::InVain => {
                self.processes.watches.remove(&id);
                tracing::debug!("the process of {id} is dead, and the runtime does not say so");
            }
            Watched::Died(pod) => {
                self.processes.watches.remove(&id);
                let hint = Hint {
                    source: Source::Kernel,
                    at: Instant::now(),
                    announced: None,
                    met: Vec::new(),
                };
                self.hint(&pod, hint);
            }
        }
    }
}

/// The watch over one container's process.
struct Watcher<R> {
    about: About,
    id: Id,
    runtime: Arc<R>,
    calls: Calls,
    pids: Lanes,
    deaths: Lanes,
    kernel: Arc<dyn Kernel>,
    reports: mpsc::UnboundedSender<Message>,
}

impl<R: Runtime> Watcher<R> {
    async fn watch(self, pod: PodRef, mut stopped: oneshot::Receiver<()>) {
        let death = match self.begin().await {
            Ok(death) => death,
            Err(why) => return self.tell(Watched::Begun(Err(why))),
        };
        self.tell(Watched::Begun(Ok(())));
        tokio::select! {
            () = death => {}
            _ = &mut stopped => return,
        }
        let begun = Instant::now();
        let mut pause = PAUSE;
        while begun.elapsed() < PATIENCE {
            tokio::select! {
                () = sleep(pause) => {}
                _ = &mut stopped => return,
            }
            if !self.still_runs().await {
                return self.tell(Watched::Died(pod));
            }
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
        self.tell(Watched::InVain);
    }

    async fn begin(&self) -> Result<Death, Refusal> {
        let pid = self.runtime.container_pid(&self.id);
        let pid = self.calls.run(self.about.clone(), pid);
        let pid = self.pids.run(pid).await;
        let pid = pid.map_err(|error| Refusal::ForNow(error.to_string()))?;
        let no_pid = || Refusal::ForGood("the runtime tells no pid of its containers".to_owned());
        let watched = self.kernel.watch(pid.ok_or_else(no_pid)?, &self.id);
        watched.map_err(|why| match why {
            Unwatched::TooMany(_) => Refusal::ForNow(why.to_string()),
            _ => Refusal::ForGood(why.to_string()),
        })
    }

    /// What the runtime says; one that cannot be asked says nothing new.
    async fn still_runs(&self) -> bool {
        let status = self.runtime.container_status(&self.id);
        let status = self.calls.run(self.about.clone(), status);
        match self.deaths.run(status).await {
            Ok(status) => status.state == ContainerState::Running,
            Err(CallError::NotFound(_)) => false,
            Err(_) => true,
        }
    }

    fn tell(&self, watched: Watched) {
        // Nobody listens any more when the generator stops.
        let _ = self
            .reports
            .send(Message::Watched(self.id.clone(), watched));
    }
}
