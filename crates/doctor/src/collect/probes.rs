//! Calls a runtime, harmlessly, and then reads its state directories.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cri::{Endpoint, Rpc};
use pleg::model::id::Id;
use pleg::model::status::PodStatus;
use pleg::out::status_report::StatusReport;
use tokio::time::{Instant, timeout_at};

use super::ended::Ended;
use super::listener::listener;
use super::round::{Round, STILL_THERE};
use super::task_folder::TaskFolder;
use super::{agent, kubelet, stacks};
use crate::facts::probes::{End, Probe, ProbeFacts};
use crate::facts::tasks::Task;
use crate::facts::{Fact, Missing};

/// How long reading the runtime's state directories and its goroutines may take.
const READING_LIMIT: Duration = Duration::from_secs(8);

/// The time reserved for reading if the calls use up all of theirs.
const RESERVED_FOR_READING: Duration = Duration::from_secs(4);

/// A runtime that goes each time it is asked is not asked more often.
const MAX_ATTEMPTS: usize = 3;

/// In less time than this nothing can be told of a call that hangs.
const TIME_FOR_ANOTHER: Duration = Duration::from_secs(12);

/// What to probe, and what is known already.
pub struct Asking {
    /// The runtime's socket.
    pub endpoint: Endpoint,
    /// Ids of containers and sandboxes, in case a list hangs.
    pub ids: Vec<Id>,
    /// What an agent on this node answered.
    pub agent: Option<(StatusReport, Vec<PodStatus>)>,
    /// Where `/proc` is.
    pub proc: PathBuf,
    /// Where `/run` is.
    pub run: PathBuf,
    /// The address of the kubelet's healthz endpoint.
    pub kubelet: SocketAddr,
    /// Whether a signal may be sent to the runtime to get its goroutines.
    pub allow_signals: bool,
    /// When probing must have ended.
    pub until: Instant,
}

/// A round with what was read beside it, all of one runtime.
struct Attempt {
    round: Round,
    listener: Fact<u32>,
    unasked: usize,
    listed_though_dead: BTreeSet<Id>,
    /// The runtime has gone, or was exchanged, since the round began.
    is_interrupted: bool,
}

impl Attempt {
    async fn make(asking: &Asking, is_first: bool) -> Self {
        let socket = asking.endpoint.path();
        let listener = listener(socket).await;
        let mut round = Round::new(&asking.endpoint, asking.until - RESERVED_FOR_READING);
        if let Some((status, pods)) = asking.agent.clone() {
            match is_first {
                true => round.leave_to_agent(status, pods),
                // What the agent waited for has ended with the connection.
                false => round.known.agent = pods,
            }
        }
        round.known.ids = asking.ids.clone();
        let folder = TaskFolder::of(socket, &asking.run, &asking.proc);
        round.ask_node().await;
        let process = listener.value().copied();
        let lists = round.known.lists();
        let mut ended = Ended::look(folder.clone(), process, &round).await;
        let unasked = round.ask_each().await;
        // A list that has come since shows who is said to run.
        if round.known.lists() > lists {
            ended = Ended::look(folder, process, &round).await;
        }
        let listed_though_dead = ended.still_listed(&mut round).await;
        round.ask_whether_it_is_still_there().await;
        // No call notices a restart between two calls.
        let process = self::listener(socket).await.value().copied().or(process);
        let is_other = listener.value().is_some() && process != listener.value().copied();
        Self {
            is_interrupted: round.is_interrupted() || is_other,
            round,
            listener,
            unasked,
            listed_though_dead,
        }
    }

    /// Whether the runtime that has gone is back, and nothing else.
    async fn only_version(asking: &Asking) -> Self {
        let mut round = Round::new(&asking.endpoint, asking.until - RESERVED_FOR_READING);
        round.ask_whether_it_is_back().await;
        Self {
            is_interrupted: round.version.is_some(),
            round,
            listener: listener(asking.endpoint.path()).await,
            unasked: 0,
            listed_though_dead: BTreeSet::new(),
        }
    }

    /// Asks a runtime that stays the same. What was seen of one that has gone says nothing of the
    /// next one.
    async fn of_one_runtime(asking: &Asking) -> Self {
        let mut attempt = Self::make(asking, true).await;
        for _ in 1..MAX_ATTEMPTS {
            if !attempt.is_interrupted {
                break;
            }
            attempt = Self::only_version(asking).await;
            let is_back = attempt.round.version.is_some();
            if !is_back || Instant::now() + TIME_FOR_ANOTHER > asking.until {
                return attempt;
            }
            attempt = Self::make(asking, false).await;
        }
        match attempt.is_interrupted {
            true => Self::only_version(asking).await,
            false => attempt,
        }
    }
}

/// Probes the runtime. Whatever hangs, it ends in time: about twenty seconds are enough.
pub async fn collect(asking: Asking) -> ProbeFacts {
    let guard = asking.agent.as_ref();
    let guard = guard.and_then(|(status, _)| agent::guard(status));
    let (attempt, kubelet) = tokio::join!(
        Attempt::of_one_runtime(&asking),
        kubelet::health(asking.kubelet)
    );
    let Attempt {
        mut round,
        listener,
        unasked,
        listed_though_dead,
        is_interrupted,
    } = attempt;
    let folder = TaskFolder::of(asking.endpoint.path(), &asking.run, &asking.proc);
    round.give_up();
    let rows = round.known.rows();
    let names = round.known.names();
    let failures = round.answers.failures();
    let undecided = round.undecided();
    let (mut calls, costs) = round.answers.finish();
    // A list that came late may name whom it was too late to ask for by name.
    for probe in calls.iter_mut().filter(|probe| probe.pod.is_none()) {
        let id = probe.id.as_deref().map(Id::from);
        if let Some(target) = id.and_then(|id| names.get(&id)) {
            probe.pod.clone_from(&target.pod);
            probe.container.clone_from(&target.container);
        }
    }

    let hung = calls.iter().filter(|probe| probe.end == End::Hung);
    let suspects: Vec<String> = hung.clone().filter_map(|probe| probe.id.clone()).collect();
    let ask_for_stacks = asking.allow_signals && hung.count() > 0;
    let runtime = listener.value().copied().filter(|_| ask_for_stacks);
    let read = tokio::task::spawn_blocking(move || {
        let tasks = folder.tasks(&suspects, names, &listed_though_dead);
        let stacks = runtime.map(|runtime| stacks::ask(&asking.proc, runtime));
        (tasks, stacks.unwrap_or_default())
    });
    let (tasks, stacks) =
        match timeout_at(asking.until.min(Instant::now() + READING_LIMIT), read).await {
            Ok(Ok(read)) => read,
            _ => {
                let why = Missing::overdue(READING_LIMIT);
                (
                    Fact::missing(&why, "the runtime's state directory"),
                    Fact::missing(why, "SIGUSR1"),
                )
            }
        };
    name(&mut calls, tasks.value().map_or(&[], Vec::as_slice));
    ProbeFacts {
        endpoint: asking.endpoint.to_string(),
        as_root: rustix::process::geteuid().is_root(),
        runtime: round.version,
        calls,
        costs,
        failures,
        rows,
        conditions: round.conditions,
        unasked,
        undecided,
        is_interrupted,
        listener,
        tasks,
        kubelet,
        agent: round.agents_word,
        guard,
        stacks,
    }
}

/// Calls `Version` once more, if it was answered, and the calls `ended` some time ago: reading the
/// machine may take longer than them, and the runtime may have gone since.
pub async fn confirm(facts: &mut ProbeFacts, endpoint: &Endpoint, ended: Instant, until: Instant) {
    let has_answered = facts.runtime.is_some() && facts.agent.is_none();
    if !has_answered || ended.elapsed() < STILL_THERE {
        return;
    }
    let mut round = Round::new(endpoint, until);
    round.ask_version().await;
    if round.is_interrupted() {
        round.ask_whether_it_is_back().await;
        facts.is_interrupted |= round.version.is_some();
    }
    round.give_up();
    let (calls, _) = round.answers.finish();
    let is_version = |probe: &&mut Probe| probe.call == Rpc::Version;
    let first = facts.calls.iter_mut().find(is_version);
    if let Some((first, now)) = first.zip(calls.into_iter().next()) {
        *first = now;
    }
}

/// Adds the names of containers that hang, from the runtime's state directories, if they are
/// known neither from a list nor from an agent.
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
