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

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
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
pub(super) const PLACES: usize = 4;

/// The first pause before the runtime is asked about a death; each further one is half as
/// long again. containerd takes 60 to 100 ms to know.
const PAUSE: Duration = Duration::from_millis(5);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// After this long a runtime that still says that it runs is left to the lists.
const PATIENCE: Duration = Duration::from_secs(10);

/// What the watch over a container's process tells.
pub(super) enum Watched {
    /// It has begun, or it could not.
    Begun(Result<(), String>),
    /// The process is dead, and the runtime knows.
    Died,
    /// The process is dead, and the runtime went on saying that it runs.
    InVain,
}

/// The processes that are watched.
#[derive(Default)]
pub(super) struct Processes {
    kernel: Option<Arc<dyn Kernel>>,
    watches: BTreeMap<Id, Watch>,
    /// What runs and cannot be watched, and why.
    unwatched: BTreeMap<Id, String>,
}

struct Watch {
    task: AbortHandle,
    begun: bool,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Processes {
    pub(super) fn new(kernel: Option<Arc<dyn Kernel>>) -> Self {
        Self {
            kernel,
            ..Self::default()
        }
    }

    pub(super) fn status(&self) -> KernelStatus {
        let watched = self.watches.values().filter(|watch| watch.begun).count();
        let state = match &self.kernel {
            None => "off",
            Some(_) if watched == 0 && !self.unwatched.is_empty() => "unavailable",
            Some(_) => "live",
        };
        let why = self
            .unwatched
            .values()
            .next()
            .map(|why| match self.unwatched.len() {
                1 => format!("1 container is not watched: {why}"),
                many => format!("{many} containers are not watched: {why}"),
            });
        KernelStatus {
            state: state.to_owned(),
            watched,
            why,
        }
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
        let containers = status.iter().flat_map(|status| &status.containers);
        for container in containers.filter(|it| it.state == ContainerState::Running) {
            if !self.processes.watches.contains_key(&container.id) {
                let pod = status.map(PodStatus::pod);
                self.watch(kernel.clone(), container, pod);
            }
        }
    }

    fn watch(&mut self, kernel: Arc<dyn Kernel>, container: &ContainerStatus, pod: Option<PodRef>) {
        let id = container.id.clone();
        let watcher = Watcher {
            about: About {
                call: Call::ContainerStatus,
                id: Some(id.clone()),
                container: Some(container.name.clone()),
                pod,
            },
            id: id.clone(),
            runtime: self.runtime.clone(),
            calls: self.calls.clone(),
            lanes: self.process_lanes.clone(),
            kernel,
            reports: self.reports.clone(),
        };
        let task = self.tasks.spawn(watcher.watch());
        let watch = Watch { task, begun: false };
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
            // Tried again when the pod is next inspected.
            Watched::Begun(Err(why)) => {
                if self.processes.watches.remove(&id).is_some() {
                    tracing::debug!("{id} is not watched: {why}");
                    self.processes.unwatched.insert(id, why);
                }
            }
            Watched::InVain => {
                self.processes.watches.remove(&id);
                tracing::debug!("the process of {id} is dead, and the runtime says that it runs");
            }
            Watched::Died => {
                self.processes.watches.remove(&id);
                if let Some(pod) = self.records.pod_of(&id) {
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
}

/// The watch over one container's process.
struct Watcher<R> {
    about: About,
    id: Id,
    runtime: Arc<R>,
    calls: Calls,
    lanes: Lanes,
    kernel: Arc<dyn Kernel>,
    reports: mpsc::UnboundedSender<Message>,
}

impl<R: Runtime> Watcher<R> {
    async fn watch(self) {
        let death = match self.begin().await {
            Ok(death) => death,
            Err(why) => return self.tell(Watched::Begun(Err(why))),
        };
        self.tell(Watched::Begun(Ok(())));
        death.await;
        let begun = Instant::now();
        let mut pause = PAUSE;
        while begun.elapsed() < PATIENCE {
            sleep(pause).await;
            if !self.still_runs().await {
                return self.tell(Watched::Died);
            }
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
        self.tell(Watched::InVain);
    }

    async fn begin(&self) -> Result<Death, String> {
        let pid = self.runtime.container_pid(&self.id);
        let pid = self
            .lanes
            .run(self.calls.run(self.about.clone(), pid))
            .await;
        let pid = pid.map_err(|error| error.to_string())?;
        let pid = pid.ok_or("the runtime tells no pid of its containers")?;
        self.kernel
            .watch(pid, &self.id)
            .map_err(|why: Unwatched| why.to_string())
    }

    /// What the runtime says; one that cannot be asked says nothing new.
    async fn still_runs(&self) -> bool {
        let status = self.runtime.container_status(&self.id);
        let status = self.calls.run(self.about.clone(), status);
        match self.lanes.run(status).await {
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
