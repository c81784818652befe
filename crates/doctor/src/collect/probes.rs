//! Collects [`ProbeFacts`]: observes the runtime, then reads its state directories and goroutines.

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
use super::report::Report;
use super::single_calls::SingleCalls;
use super::slow_calls::SlowCalls;
use super::stacks;
use super::task_folder::{Listed, TaskFolder};

pub use super::stacks::DumpGoroutines;
use crate::facts::kubelet::KubeletHealth;
use crate::facts::probes::{End, Probe, ProbeFacts};
use crate::facts::tasks::Task;
use crate::facts::{Fact, HostFacts, Missing};
use crate::limits::{RESERVED_FOR_READING, STATE_DIRECTORIES};

/// The runtime to observe, and where further facts about it are read.
pub struct Target {
    /// The runtime's socket.
    pub endpoint: Endpoint,
    /// Where `/proc` is.
    pub proc: PathBuf,
    /// Where `/run` is.
    pub run: PathBuf,
    /// The address of the kubelet's `/healthz`.
    pub kubelet: SocketAddr,
    /// Makes the runtime write its goroutines, if a signal may be sent to it.
    pub dump_goroutines: Option<DumpGoroutines>,
    /// The deadline for collecting everything.
    pub until: Instant,
}

impl Target {
    fn task_folder(&self) -> TaskFolder {
        TaskFolder::of(self.endpoint.path(), &self.run, &self.proc)
    }
}

/// The collection of [`ProbeFacts`], which continues while the machine is read.
pub struct Probing<S> {
    target: Target,
    observation: Observation<S>,
    runtime: Arc<GrpcRuntime>,
    single_calls: Option<SingleCalls>,
    disagreements: Disagreements,
    slow: SlowCalls,
    kubelet: JoinHandle<Fact<KubeletHealth>>,
}

impl Probing<OwnEngine> {
    /// Begins with an engine in this process.
    pub fn with_own_engine(target: Target, environment: Environment) -> Self {
        let (engine, runtime) = OwnEngine::start(&target.endpoint, environment);
        Self::begin(target, engine, runtime)
    }
}

impl<S: Source> Probing<S> {
    /// Begins with the reports of an agent.
    pub fn with_agent(target: Target, agent: S) -> Self {
        let runtime = Arc::new(GrpcRuntime::new(&target.endpoint, MAX_MESSAGE_SIZE));
        Self::begin(target, agent, runtime)
    }

    fn begin(target: Target, source: S, runtime: Arc<GrpcRuntime>) -> Self {
        Self {
            observation: Observation::begin(source, target.until - RESERVED_FOR_READING),
            runtime,
            single_calls: None,
            disagreements: Disagreements::new(target.task_folder()),
            slow: SlowCalls::default(),
            kubelet: tokio::spawn(kubelet::health(target.kubelet)),
            target,
        }
    }

    /// Observes the runtime until the report is complete or the time is up; `None` if the agent has stopped.
    pub async fn observe(&mut self) -> Option<()> {
        // An agent whose runtime announces all changes may have listed pods long ago.
        let since = match S::IS_AGENT {
            true => self.refresh().await,
            false => None,
        };
        self.observe_since(since).await.map(|_| ())
    }

    /// Requests a relist. Returns the time after which it begins, if there will be one.
    async fn refresh(&self) -> Option<Instant> {
        let now = Instant::now();
        self.observation.source.refresh().await.then_some(now)
    }

    /// Observes the runtime as `observe` does. If nothing is wrong, all pods must have been observed after
    /// `since`, so that a runtime that has just become unreachable is not reported as healthy.
    async fn observe_since(&mut self, since: Option<Instant>) -> Option<Observed> {
        let Self {
            target,
            observation,
            runtime,
            single_calls,
            disagreements,
            slow,
            ..
        } = self;
        let settled = observation.complete(async |observed| {
            slow.note(observed);
            if observed.unreachable().is_some() {
                return true;
            }
            if let Some(name) = &observed.status.runtime.name {
                // dockerd takes a second for the statistics of each container.
                let with_statistics = &**name != "docker";
                let make = || SingleCalls::make(runtime, !S::IS_AGENT, with_statistics);
                single_calls.get_or_insert_with(make);
            }
            if observed.status.relist.count > 0 && !disagreements.is_checked() {
                let process = listener(target.endpoint.path()).await.value().copied();
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

    /// Returns the facts, once the `host` has been read; `None` if the agent has stopped. The runtime is
    /// observed again first, because no process should be killed for a fault that has ended meanwhile.
    pub async fn finish(mut self, host: &HostFacts) -> Option<ProbeFacts> {
        self.disagreements.note_living(host).await;
        self.observation.prolong();
        let since = self.refresh().await;
        let observed = self.observe_since(since).await?;
        let Self {
            target,
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
        let report = Report {
            observed: &observed,
            names: &names,
            disagreeing: &disagreeing,
            slow: slow.answered(&observed),
            by_agent: S::IS_AGENT,
        };
        let mut facts = report.facts();
        facts.undecided = undecided;
        facts.endpoint = target.endpoint.to_string();
        facts.as_root = rustix::process::geteuid().is_root();
        if let Some(calls) = single_calls {
            let (probes, conditions) = calls.end().await;
            facts.calls.extend(probes);
            facts.conditions = conditions;
        }
        facts.listener = listener(target.endpoint.path()).await;
        let listed = Listed {
            disagreeing,
            without_sandbox: running_without_sandbox(&observed.pods),
        };

        let hung = facts.calls.iter().filter(|probe| probe.end == End::Hung);
        let suspects: Vec<String> = hung.clone().filter_map(|probe| probe.id.clone()).collect();
        let dump = target.dump_goroutines.filter(|_| hung.count() > 0);
        let runtime = facts.listener.value().copied().zip(dump);
        let limit = target.until.min(Instant::now() + STATE_DIRECTORIES);
        let read = tokio::task::spawn_blocking(move || {
            let tasks = target.task_folder().tasks(&suspects, names, &listed);
            let stacks = runtime.map(|(runtime, dump)| stacks::fact(&target.proc, runtime, dump));
            (tasks, stacks.unwrap_or_default())
        });
        let read = timeout_at(limit, read).await.ok().and_then(Result::ok);
        (facts.tasks, facts.stacks) = read.unwrap_or_else(|| {
            let why = Missing::overdue(STATE_DIRECTORIES);
            let tasks = Fact::missing(&why, "the runtime's state directory");
            (tasks, Fact::missing(why, "SIGUSR1"))
        });
        // The outstanding calls are ended only here, so that the goroutines that were read above include
        // them.
        drop(observation);
        if let Some(tasks) = facts.tasks.value() {
            add_names(&mut facts.calls, tasks);
        }
        facts.kubelet = kubelet.await.unwrap_or_default();
        Some(facts)
    }
}

/// Adds the names of containers whose calls hang, from the runtime's state directories, if the
/// engine does not know them.
fn add_names(calls: &mut [Probe], tasks: &[Task]) {
    let nameless = calls.iter_mut().filter(|probe| probe.pod.is_none());
    for probe in nameless.filter(|probe| probe.end == End::Hung) {
        let mut tasks = tasks.iter();
        if let Some(task) = tasks.find(|task| Some(&task.id) == probe.id.as_ref()) {
            probe.pod = task.pod.clone();
            probe.container = task.container.clone();
        }
    }
}
