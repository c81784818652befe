//! What is known of the calls to a runtime, and what its state directories show.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use cri::Endpoint;
use pleg::Environment;
use pleg::runtime::grpc::{GrpcRuntime, MAX_MESSAGE_SIZE};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::disagreements::{Disagreeing, Disagreements};
use super::kubelet;
use super::listener::listener;
use super::names::{names, running_without_sandbox};
use super::observation::{Observation, OwnEngine, Source};
use super::observed::Observed;
use super::single_calls::SingleCalls;
use super::slow_calls::SlowCalls;
use super::task_folder::{Listed, TaskFolder};
use super::{report, stacks};

pub use super::stacks::DumpGoroutines;
use crate::facts::kubelet::KubeletHealth;
use crate::facts::probes::{End, Probe, ProbeFacts};
use crate::facts::tasks::Task;
use crate::facts::{Fact, HostFacts, Missing};
use crate::limits::{RESERVED_FOR_READING, STATE_DIRECTORIES};

/// Which runtime to observe.
pub struct Asking {
    /// The runtime's socket.
    pub endpoint: Endpoint,
    /// Where `/proc` is.
    pub proc: PathBuf,
    /// Where `/run` is.
    pub run: PathBuf,
    /// The address of the kubelet's healthz endpoint.
    pub kubelet: SocketAddr,
    /// Makes the runtime write its goroutines, if a signal may be sent to it.
    pub dump_goroutines: Option<DumpGoroutines>,
    /// When all must have ended.
    pub until: Instant,
}

/// The collecting of [`ProbeFacts`], which goes on while the machine is read.
pub struct Probing<S> {
    asking: Asking,
    observation: Observation<S>,
    runtime: Arc<GrpcRuntime>,
    single_calls: Option<SingleCalls>,
    disagreements: Disagreements,
    slow: SlowCalls,
    kubelet: JoinHandle<Fact<KubeletHealth>>,
}

impl Probing<OwnEngine> {
    /// With an engine of its own, in this environment.
    pub fn with_own_engine(asking: Asking, environment: Environment) -> Self {
        let (engine, runtime) = OwnEngine::start(&asking.endpoint, environment);
        Self::begin(asking, engine, runtime)
    }
}

impl<S: Source> Probing<S> {
    /// With the reports of an agent.
    pub fn with_agent(asking: Asking, agent: S) -> Self {
        let runtime = Arc::new(GrpcRuntime::new(&asking.endpoint, MAX_MESSAGE_SIZE));
        Self::begin(asking, agent, runtime)
    }

    fn begin(asking: Asking, source: S, runtime: Arc<GrpcRuntime>) -> Self {
        let socket = asking.endpoint.path();
        let folder = TaskFolder::of(socket, &asking.run, &asking.proc);
        let latest = asking.until - RESERVED_FOR_READING;
        Self {
            observation: Observation::begin(source, latest),
            runtime,
            single_calls: None,
            disagreements: Disagreements::new(folder),
            slow: SlowCalls::default(),
            kubelet: tokio::spawn(kubelet::health(asking.kubelet)),
            asking,
        }
    }

    /// Observes the runtime until the report is complete, or the time is up; `None` if the agent is
    /// gone. An agent whose runtime announces all changes may have last listed pods long ago.
    pub async fn observe(&mut self) -> Option<()> {
        let since = match S::IS_AGENT {
            true => self.refresh().await,
            false => None,
        };
        self.observe_since(since).await.map(|_| ())
    }

    /// Requests a look at all pods. Returns since when one is due, if there will be one.
    async fn refresh(&self) -> Option<Instant> {
        let now = Instant::now();
        self.observation.source.refresh().await.then_some(now)
    }

    /// The same by a look that was begun `since` then, if nothing is wrong: a runtime that has gone
    /// just now is not called healthy.
    async fn observe_since(&mut self, since: Option<Instant>) -> Option<Observed> {
        let Self {
            asking,
            observation,
            runtime,
            single_calls,
            disagreements,
            slow,
            ..
        } = self;
        let socket = asking.endpoint.path();
        let settled = observation.complete(async |observed| {
            slow.note(observed);
            if observed.unreachable().is_some() {
                return true;
            }
            if let Some(name) = &observed.status.runtime.name {
                let has_statistics = &**name != "docker";
                let make = || SingleCalls::make(runtime, !S::IS_AGENT, has_statistics);
                single_calls.get_or_insert_with(make);
            }
            if observed.status.relist.count > 0 && !disagreements.is_checked() {
                let process = listener(socket).await.value().copied();
                disagreements.check(observed, process).await;
            }
            let calls = single_calls.as_ref();
            let is_current =
                since.is_none_or(|since| observed.has_trouble() || observed.is_newer_than(since));
            is_current
                && calls.is_none_or(|calls| calls.are_decided(observed.has_trouble()))
                && disagreements.is_decided(observed)
        });
        settled.await
    }

    /// What is known now, after the `host` was read; `None` if the agent is gone. What was complete may
    /// not be any more, so it is observed again: a fault that has ended is no reason to kill a process.
    pub async fn finish(mut self, host: &HostFacts) -> Option<ProbeFacts> {
        self.disagreements.note_living(host).await;
        self.observation.prolong();
        let since = self.refresh().await;
        let observed = self.observe_since(since).await?;
        let Self {
            asking,
            observation,
            single_calls,
            disagreements,
            slow,
            kubelet,
            ..
        } = self;
        let (disagreeing, undecided) = match disagreements.end(&observed).await {
            Ok(disagreeing) => (disagreeing, 0),
            Err(unknown) => (Disagreeing::default(), unknown),
        };
        let names = names(&observed.pods);
        let mut facts = report::facts(&observed, &names, &disagreeing, S::IS_AGENT);
        let slow = slow.answered(&observed);
        let slow = slow.map(|call| report::slow(call, &names, S::IS_AGENT));
        facts.calls.extend(slow);
        facts.undecided = undecided;
        facts.endpoint = asking.endpoint.to_string();
        facts.as_root = rustix::process::geteuid().is_root();
        if let Some(calls) = single_calls {
            let (probes, conditions) = calls.end().await;
            facts.calls.extend(probes);
            facts.conditions = conditions;
        }
        let socket = asking.endpoint.path();
        facts.listener = listener(socket).await;
        let listed = Listed {
            disagreeing,
            without_sandbox: running_without_sandbox(&observed.pods),
        };

        let hung = facts.calls.iter().filter(|probe| probe.end == End::Hung);
        let suspects: Vec<String> = hung.clone().filter_map(|probe| probe.id.clone()).collect();
        let dump = asking.dump_goroutines.filter(|_| hung.count() > 0);
        let runtime = facts.listener.value().copied().zip(dump);
        let folder = TaskFolder::of(socket, &asking.run, &asking.proc);
        let read = tokio::task::spawn_blocking(move || {
            let tasks = folder.tasks(&suspects, names, &listed);
            let stacks = runtime.map(|(runtime, dump)| stacks::ask(&asking.proc, runtime, dump));
            (tasks, stacks.unwrap_or_default())
        });
        let limit = asking.until.min(Instant::now() + STATE_DIRECTORIES);
        (facts.tasks, facts.stacks) = match timeout_at(limit, read).await {
            Ok(Ok(read)) => read,
            _ => {
                let why = Missing::overdue(STATE_DIRECTORIES);
                (
                    Fact::missing(&why, "the runtime's state directory"),
                    Fact::missing(why, "SIGUSR1"),
                )
            }
        };
        // Until here, the outstanding calls were in the runtime's goroutines.
        drop(observation);
        name(
            &mut facts.calls,
            facts.tasks.value().map_or(&[], Vec::as_slice),
        );
        facts.kubelet = kubelet.await.unwrap_or_default();
        Some(facts)
    }
}

/// Adds the names of containers whose calls hang, from the runtime's state directories, if the
/// engine does not know them.
fn name(calls: &mut [Probe], tasks: &[Task]) {
    let nameless = calls.iter_mut().filter(|probe| probe.pod.is_none());
    for probe in nameless.filter(|probe| probe.end == End::Hung) {
        let task = tasks
            .iter()
            .find(|task| Some(&task.id) == probe.id.as_ref());
        if let Some(task) = task {
            probe.pod = task.pod.clone();
            probe.container = task.container.clone();
        }
    }
}
