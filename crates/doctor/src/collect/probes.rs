//! Calls a runtime, harmlessly, and then reads its state directories.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use cri::{Endpoint, Rpc};
use pleg::model::id::Id;
use pleg::model::status::PodStatus;
use pleg::out::status_report::StatusReport;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::calls::Calls;
use super::dead::Dead;
use super::listener::listener;
use super::patience::MAX_DEADLINE;
use super::round::{QUIET, Round, STILL_THERE};
use super::suspects::Suspects;
use super::task_folder::TaskFolder;
use super::{agent, kubelet, stacks};
use crate::facts::probes::{End, OtherCalls, Outcome, Probe, ProbeFacts, WentAway};
use crate::facts::tasks::Task;
use crate::facts::{Fact, Missing};

/// How long reading the runtime's state directories and its goroutines may take.
const READING_LIMIT: Duration = Duration::from_secs(8);

/// The time reserved for reading if the calls use up all of theirs.
const RESERVED_FOR_READING: Duration = Duration::from_secs(4);

/// A runtime that goes each time it is asked is not asked more often.
const MAX_ATTEMPTS: usize = 3;

/// How many times as long as before a runtime stays without the call by which it goes away.
const STAYS_LONGER: f64 = 2.0;

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
    /// How many may be listed although they do not exist, or do not run.
    undecided: usize,
    listed_though_dead: BTreeSet<Id>,
    /// Whether the runtime has gone, or was exchanged, since the round began.
    went_away: WentAway,
}

/// The connection on which a runtime was asked.
pub struct Contact {
    calls: Calls,
    /// When `Version` was answered last.
    answered: Option<Instant>,
}

impl Attempt {
    async fn make(asking: &Asking, is_first: bool, suspects: &Suspects) -> Self {
        let begun = Instant::now();
        let socket = asking.endpoint.path();
        let listener = listener(socket).await;
        let mut round = Round::new(&asking.endpoint, asking.until - RESERVED_FOR_READING);
        if let Some((status, pods)) = asking.agent.clone() {
            round.know_from_agent(status, pods);
            // What it waited for has ended with the runtime that has gone.
            if is_first {
                round.leave_to_agent();
            }
        }
        round.known.ids = asking.ids.clone();
        round.beware_of(suspects.clone());
        let folder = TaskFolder::of(socket, &asking.run, &asking.proc);
        round.ask_node().await;
        let process = listener.value().copied();
        let at_first = round.known.lists();
        let mut dead = Dead::look(folder.clone(), process, &round).await;
        let mut unasked = round.ask_each().await;
        let afterwards = round.known.lists();
        // A list that has come since shows who is said to run.
        if afterwards > at_first {
            dead = dead.and(Dead::look(folder, process, &round).await);
        }
        let dead = dead.still_listed(&mut round).await;
        // And whom to ask.
        if round.known.lists() > afterwards {
            unasked = round.ask_each().await;
        }
        loop {
            let lists = round.known.lists();
            round.ask_costly_lists_again().await;
            if suspects.twice.is_empty() {
                round.ask_whether_it_is_still_there().await;
            } else if !round.is_interrupted() {
                // Without the calls that are ruled out, it must stay for longer than it did.
                let stays = begun + suspects.longest.mul_f64(STAYS_LONGER);
                sleep_until(stays.max(Instant::now() + QUIET)).await;
                round.ask_version().await;
            }
            // One that came only now shows whom else to ask, and may have been slow for a moment.
            if round.known.lists() == lists || round.is_interrupted() {
                break;
            }
            unasked = round.ask_each().await;
        }
        // No call notices a restart between two calls.
        let is_other = process.is_some() && is_other(process, &self::listener(socket).await);
        let went_away = match &suspects.twice[..] {
            _ if round.is_interrupted() || is_other => WentAway::EachTime(Vec::new()),
            [] => WentAway::Never,
            twice => WentAway::During(twice.to_vec()),
        };
        Self {
            went_away,
            undecided: round.undecided() + dead.as_ref().err().copied().unwrap_or_default(),
            listed_though_dead: dead.unwrap_or_default(),
            round,
            listener,
            unasked,
        }
    }

    /// Whether the runtime that has gone is back, and nothing else.
    async fn only_version(asking: &Asking, suspects: &Suspects) -> Self {
        let mut round = Round::new(&asking.endpoint, asking.until - RESERVED_FOR_READING);
        round.ask_whether_it_is_back().await;
        Self {
            went_away: WentAway::EachTime(suspects.last.clone()),
            round,
            listener: listener(asking.endpoint.path()).await,
            unasked: 0,
            undecided: 0,
            listed_though_dead: BTreeSet::new(),
        }
    }

    /// Asks a runtime that stays the same. What was seen of one that has gone says nothing of the
    /// next one.
    async fn of_one_runtime(asking: &Asking) -> Self {
        let agent = asking.agent.as_ref();
        let known = agent.map(|(status, _)| {
            Suspects::known_to_agent(agent::withheld(status), agent::suspects(status))
        });
        let mut suspects = known.unwrap_or_default();
        let mut made = 0;
        loop {
            let begun = Instant::now();
            let mut attempt = Self::make(asking, made == 0, &suspects).await;
            made += 1;
            if !matches!(attempt.went_away, WentAway::EachTime(_)) {
                return attempt;
            }
            let after = attempt.round.lost_at().duration_since(begun);
            suspects.went_away_during(attempt.round.lost(), after);
            let attempt = Self::only_version(asking, &suspects).await;
            let is_back = attempt.round.version.is_some();
            let needed = TIME_FOR_ANOTHER.max(suspects.longest.mul_f64(STAYS_LONGER * 2.0));
            let is_time = Instant::now() + needed <= asking.until;
            if !is_back || !is_time || made == MAX_ATTEMPTS {
                return attempt;
            }
        }
    }
}

/// Whether another process listens than did, or none.
fn is_other(listener: Option<u32>, now: &Fact<u32>) -> bool {
    now.value().copied() != listener
}

/// Probes the runtime, which ends in time whatever hangs. Gives what was seen, and on which
/// connection.
pub async fn collect(asking: Asking) -> (ProbeFacts, Contact) {
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
        undecided,
        listed_though_dead,
        went_away,
    } = attempt;
    let folder = TaskFolder::of(asking.endpoint.path(), &asking.run, &asking.proc);
    let unknown = round.give_up().await;
    let rows = round.known.rows();
    let names = round.known.names();
    let failures = round.answers.failures();
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
    let facts = ProbeFacts {
        endpoint: asking.endpoint.to_string(),
        as_root: rustix::process::geteuid().is_root(),
        runtime: round.version,
        calls,
        costs,
        failures,
        rows,
        conditions: round.conditions,
        besides_version: round.besides_version,
        unasked: unasked + unknown,
        undecided,
        went_away,
        listener,
        tasks,
        kubelet,
        agent: round.agents_word,
        unreachable_to_agent: None,
        guard,
        stacks,
    };
    // Until here, they were in the runtime's goroutines.
    round.calls.end_all();
    let contact = Contact {
        answered: round.version_at,
        calls: round.calls,
    };
    (facts, contact)
}

/// Calls `Version` once more, if it was answered some time ago: reading the machine may take longer
/// than the calls. What was seen of a runtime that has gone since is replaced.
pub async fn confirm(
    facts: &mut ProbeFacts,
    endpoint: &Endpoint,
    contact: Contact,
    until: Instant,
) {
    let Contact { calls, answered } = contact;
    // One that does not answer says so already.
    let responds = facts.outcome(Rpc::Version) == Some(Outcome::Ok);
    if !responds || answered.is_none_or(|answered| answered.elapsed() < STILL_THERE) {
        return;
    }
    let mut round = Round::on(calls, until);
    round.ask_version().await;
    let process = facts.listener.value().copied();
    let listener = listener(endpoint.path()).await;
    let is_other = process.is_some() && is_other(process, &listener);
    if round.is_interrupted() {
        round.ask_whether_it_is_back().await;
    } else if round.version.is_some() && !is_other {
        return;
    }
    round.give_up().await;
    let besides_version = round.besides_version;
    let (calls, costs) = round.answers.finish();
    let hung = calls
        .iter()
        .find(|probe| probe.call == Rpc::Version && probe.end == End::Hung);
    match (hung, besides_version) {
        (None, _) | (Some(_), OtherCalls::Hang) => {}
        (Some(version), OtherCalls::Unknown) if version.seconds < MAX_DEADLINE.as_secs_f64() => {
            // There was not enough time to tell.
            facts.unasked += 1;
            return;
        }
        (Some(version), _) => {
            facts.calls.retain(|probe| probe.call != Rpc::Version);
            facts.calls.push(version.clone());
            facts.besides_version = besides_version;
            return;
        }
    }
    *facts = ProbeFacts {
        endpoint: std::mem::take(&mut facts.endpoint),
        as_root: facts.as_root,
        went_away: WentAway::EachTime(Vec::new()),
        runtime: round.version,
        calls,
        costs,
        besides_version,
        listener,
        kubelet: facts.kubelet.clone(),
        guard: facts.guard.clone(),
        ..ProbeFacts::default()
    };
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
