//! One round of calls. At most eight are outstanding, and none is repeated, except while something
//! hangs, to see whether the runtime answers anything (`pulse`), and the lists, if something that they
//! showed does not exist or is dead, or if they took very long. The round goes on after two seconds or, if the runtime is slow as a whole, after
//! a few times the duration of other calls. A call that is not answered within six seconds hangs; lists
//! may take longer where both do. If a connection is lost, the round ends: what was seen until then is
//! of a runtime that has gone.
//!
//! ```text
//!   Version --> Status, both lists --> each id, at first one after the other
//!                                         ^                             |
//!      a list that comes late ------------+        six seconds for each that hangs,
//!                                                  and does the runtime answer anything?
//!                                                                       |
//!      who does not exist although he was listed: is he listed still? <-+
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use cri::{Endpoint, Rpc};
use pleg::engine::SMALLEST_WINDOW;
use pleg::model::id::Id;
use pleg::model::status::PodStatus;
use pleg::out::health::RELIST_THRESHOLD;
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, Conditions, NoConnection, RuntimeVersion};
use tokio::time::{Instant, sleep};

use super::agent;
use super::answers::Answers;
use super::bounded::{bounded_conditions, bounded_error, bounded_version};
use super::calls::{Answer, Calls, EndedCall, Outstanding, Question};
use super::patience::{MAX_DEADLINE, list_patience, patience};
use super::pulse::{self, KNOWN_WITHIN, Pulse};
use super::suspects::Suspects;
use super::targets::{Known, Target};
use super::vanished::Vanished;
use crate::facts::probes::{AgentsWord, End, OtherCalls, Probe};

/// How many calls may be outstanding, including those that hang: as many as an agent allows itself
/// on a runtime that answers nothing, because unhealthy runtimes are what the doctor is for.
const MAX_OUTSTANDING: usize = SMALLEST_WINDOW;

/// Of these, three are for what is asked of the whole node beside those that hang: `Version` and the
/// lists.
const MAX_FOR_IDS: usize = MAX_OUTSTANDING - 3;

/// A runtime that was restarted listens again within this time.
const RESTARTS_WITHIN: Duration = Duration::from_secs(3);

/// After this time it is checked for the first time whether it does, and then each time after this
/// much longer: what goes and comes at intervals is not met each time when it has gone.
const RESTART_INTERVAL: Duration = Duration::from_millis(200);

/// An answer of `Version` that is older says nothing of now.
pub(super) const STILL_THERE: Duration = Duration::from_secs(2);

/// For this long, calls are made one after the other, to measure what they cost a kubelet.
const ONE_AT_A_TIME: Duration = Duration::from_secs(1);

/// How much longer the last of these is waited for; otherwise only quick calls would count.
const LAST_ONE_LIMIT: Duration = Duration::from_secs(1);

/// After this time, no further status calls are started: what was not asked is counted.
const ASKING_LIMIT: Duration = Duration::from_secs(10);

/// A runtime that crashes by a call may do so a moment after its answer.
pub(super) const QUIET: Duration = Duration::from_millis(150);

/// Lists that were slow only for a moment come within this time.
const TIME_FOR_QUICK_LISTS: Duration = Duration::from_secs(2);

/// How often to check whether another call can be started.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// The calls of one round.
pub(super) struct Round {
    pub calls: Calls,
    /// The status calls that were made.
    asked: BTreeSet<(Rpc, Id)>,
    /// Those of them that failed for ids that no list had shown.
    guessed: BTreeSet<(Rpc, Id)>,
    /// When the lists were requested that are known.
    listed: BTreeMap<Rpc, Instant>,
    vanished: Vanished,
    /// There was no connection for a call.
    interrupted: bool,
    /// The status calls that were outstanding when the connection was lost, if it was.
    lost: Option<Vec<Probe>>,
    /// Those during which the runtime has gone before.
    suspects: Suspects,
    /// When a call ended last.
    ended: Option<Instant>,
    pub known: Known,
    pub answers: Answers,
    pub version: Option<RuntimeVersion>,
    /// When it was answered last.
    pub version_at: Option<Instant>,
    /// Whether anything is answered while something hangs.
    pulse: Pulse,
    /// The same at the end, while `Version` hangs.
    pub besides_version: OtherCalls,
    pub conditions: Option<Conditions>,
    /// An agent on the node, until its data replaces own calls.
    agent: Option<StatusReport>,
    /// What the agent reported then.
    pub agents_word: Option<AgentsWord>,
    /// Calls that are not made, because an agent waits for them already.
    agents: Vec<Question>,
    /// When the last call must have ended; otherwise it hangs.
    until: Instant,
}

impl Round {
    pub fn new(endpoint: &Endpoint, until: Instant) -> Self {
        Self::on(Calls::new(endpoint), until)
    }

    /// On the connection of an earlier round.
    pub fn on(calls: Calls, until: Instant) -> Self {
        Self {
            calls,
            asked: BTreeSet::new(),
            guessed: BTreeSet::new(),
            listed: BTreeMap::new(),
            vanished: Vanished::default(),
            interrupted: false,
            lost: None,
            suspects: Suspects::default(),
            ended: None,
            known: Known::default(),
            answers: Answers::default(),
            version: None,
            version_at: None,
            pulse: Pulse::default(),
            besides_version: OtherCalls::Unknown,
            conditions: None,
            agent: None,
            agents_word: None,
            agents: Vec::new(),
            until,
        }
    }

    /// What an agent on the node answers.
    pub fn know_from_agent(&mut self, status: StatusReport, pods: Vec<PodStatus>) {
        self.agent = Some(status);
        self.known.agent = pods;
    }

    /// The status calls during which the runtime has gone before: they are made last, one after the
    /// other.
    pub fn beware_of(&mut self, suspects: Suspects) {
        self.suspects = suspects;
    }

    /// Calls that it waits for hang, and are not made again.
    pub fn leave_to_agent(&mut self) {
        let Some(status) = &self.agent else { return };
        for (probe, id) in agent::hung(status, &self.known.agent) {
            if probe.call == Rpc::Version {
                self.pulse.leave_version_to_agent();
            }
            self.agents.push((probe.call, id));
            self.answers.take(probe, false);
        }
    }

    /// If the doctor may not call the runtime, the data of an agent is used.
    fn hear_agent(&mut self) {
        let Some(status) = &self.agent else { return };
        if !self.answers.forget_forbidden() {
            return;
        }
        let word = agent::word(status);
        for probe in word.calls {
            self.answers.take(probe, false);
        }
        self.version = word.version;
        self.agents_word = Some(word.said);
    }

    /// The calls for the whole node: first `Version`, which settles the API version.
    pub async fn ask_node(&mut self) {
        self.start(Rpc::Version, None);
        self.settle().await;
        for call in [Rpc::Status, Rpc::ListPodSandbox, Rpc::ListContainers] {
            self.start(call, None);
        }
        self.settle().await;
        self.hear_agent();
    }

    /// Until every call is answered or hangs.
    async fn settle(&mut self) {
        let begun = Instant::now();
        while !self.calls.is_empty() && !self.interrupted {
            // Calls that are answered meanwhile may show that the others are only slow.
            let until = begun + patience(self.answers.slowest);
            if !self.one_ends(until).await {
                break;
            }
        }
    }

    /// Makes the status call of each id, also of those that only a late list shows, and waits for
    /// whoever is slow; returns for how many none was made.
    pub async fn ask_each(&mut self) -> usize {
        let begun = Instant::now();
        loop {
            let (lists, asked) = (self.known.lists(), self.asked.len());
            let unasked = self.ask_ids().await;
            self.wait_for_the_slow().await;
            self.ask_again_who_is_listed().await;
            // Some were only slow, and there is room for others now.
            let is_room = unasked > 0
                && self.asked.len() > asked
                && self.for_ids().count() < MAX_FOR_IDS
                && begun.elapsed() < ASKING_LIMIT;
            if self.interrupted || self.known.lists() == lists && !is_room {
                return unasked;
            }
        }
    }

    /// Makes the status call of each id that was not asked yet; returns for how many none was made.
    async fn ask_ids(&mut self) -> usize {
        if self.agents_word.is_some() {
            return 0;
        }
        let (mut targets, beyond) = self.known.targets();
        targets.retain(|target| {
            let question = (target.call, target.id.clone());
            let is_shown = !target.guessed && self.guessed.remove(&question);
            let is_new = is_shown || !self.asked.contains(&question);
            is_new && !self.suspects.is_ruled_out(target)
        });
        let all = targets.len();
        targets.retain(|target| !self.suspects.is_left_to_agent(target));
        let beyond = beyond + all - targets.len();
        targets.sort_by_key(|target| self.suspects.is_one(target));
        if self.answers.is_refused(Rpc::Version) {
            return targets.len() + beyond;
        }
        let mut queue: VecDeque<Target> = targets.into();
        let begun = Instant::now();
        loop {
            while queue
                .front()
                .is_some_and(|next| self.may_start(begun, next))
                && let Some(target) = queue.pop_front()
            {
                self.asked.insert((target.call, target.id.clone()));
                self.start(target.call, Some(target));
            }
            // Those that hang are waited for no longer than the others.
            let patience = patience(self.answers.slowest);
            let calls = self.for_ids();
            let waited_for = calls.map(|call| self.until.min(call.since + patience));
            let Some(last) = waited_for.filter(|until| *until > Instant::now()).max() else {
                if !queue
                    .front()
                    .is_some_and(|next| self.is_too_early_for(next))
                {
                    break;
                }
                sleep(POLL_INTERVAL).await;
                continue;
            };
            let soon = Instant::now() + POLL_INTERVAL;
            self.feel_pulse(last.min(soon)).await;
            if self.interrupted {
                break;
            }
            // An id from a directory that is not a container's may be a sandbox's.
            queue.extend(self.known.maybe_sandboxes.drain(..));
        }
        queue.len() + beyond
    }

    /// If listed ids do not exist: whether they are still listed, which is a fault of the runtime,
    /// or were removed since.
    async fn ask_again_who_is_listed(&mut self) {
        let Some(since) = self.vanished.since() else {
            return;
        };
        if !self.is_listed_since(since) && !self.ask_lists_again().await {
            return;
        }
        for probe in self.vanished.decide(&self.known.listed()) {
            self.answers.take(probe, false);
        }
    }

    /// Of how many listed ids it is not known whether they still exist.
    pub fn undecided(&self) -> usize {
        self.vanished.undecided()
    }

    /// Whether both lists are known as of then, or later.
    fn is_listed_since(&self, time: Instant) -> bool {
        [Rpc::ListPodSandbox, Rpc::ListContainers]
            .iter()
            .all(|list| self.listed.get(list).is_some_and(|asked| *asked >= time))
    }

    /// Requests both lists again if they seem to cost more than a kubelet can spend, which pays for both
    /// with each pod: it may have been a moment in which nothing was answered.
    pub async fn ask_costly_lists_again(&mut self) {
        let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
        let seconds: f64 = lists
            .iter()
            .filter_map(|list| self.answers.of_node(*list))
            .sum();
        let pods = self.known.sandboxes.as_ref().map_or(0, |rows| rows.len());
        let is_costly = seconds * pods as f64 >= RELIST_THRESHOLD.as_secs_f64();
        let is_time = Instant::now() + TIME_FOR_QUICK_LISTS < self.until;
        let are_known = self.known.lists() == lists.len();
        if are_known && is_costly && is_time && !self.interrupted {
            self.request_lists().await;
        }
    }

    /// Requests both lists again; false if there is no time for that, or they do not come.
    pub async fn ask_lists_again(&mut self) -> bool {
        if self.interrupted || !self.is_time_for_all() {
            return false;
        }
        let since = Instant::now();
        self.request_lists().await;
        self.is_listed_since(since)
    }

    /// One after the other, as a kubelet does; no other beside one that hangs.
    async fn request_lists(&mut self) {
        let lists = [Rpc::ListPodSandbox, Rpc::ListContainers];
        for list in lists {
            let mut outstanding = lists.iter();
            if outstanding.any(|list| self.calls.is_waiting_for(&(*list, None))) {
                return;
            }
            self.start(list, None);
            self.wait_for_the_slow().await;
        }
    }

    /// Waits for the maximum time before calls count as hung: one that is only slow is answered by
    /// then, and no advice to kill something is based on it. Meanwhile, it is asked whether the runtime
    /// answers anything.
    async fn wait_for_the_slow(&mut self) {
        while !self.interrupted && Instant::now() < self.until && self.is_any_undecided() {
            self.feel_pulse(self.until).await;
        }
    }

    /// Whether a call may be slow, or hang, or wait for a runtime that is silent.
    fn is_any_undecided(&self) -> bool {
        let now = Instant::now();
        let is_silent = self.pulse.is_silent(now, &self.calls.times());
        self.waited_for().any(|(question, call)| {
            let longest = self.longest(question);
            let end = call.since + longest;
            let is_known = is_silent || self.pulse.proves(now, call.since, longest);
            now < end || !is_known && now < end + KNOWN_WITHIN
        })
    }

    /// The calls that are outstanding, without those that are made again to see whether they are
    /// answered.
    fn waited_for(&self) -> impl Iterator<Item = (&Question, &Outstanding)> {
        let calls = self.calls.all();
        calls.filter(|(question, _)| !self.pulse.is_again(question))
    }

    /// The same without `Version`, for which there is always room.
    fn for_ids(&self) -> impl Iterator<Item = &Outstanding> {
        let calls = self.waited_for();
        let calls = calls.filter(|((call, _), _)| *call != Rpc::Version);
        calls.map(|(_, call)| call)
    }

    fn ask_pulse(&mut self, now: Instant) {
        let times = self.calls.times();
        let most = MAX_OUTSTANDING.saturating_sub(times.len());
        for (call, target) in self.pulse.ask(now, &times, most) {
            self.start(call, target);
        }
    }

    /// Waits until a call ends, until then and for a second at most, and asks whether the runtime answers
    /// anything if it is time for that: once a second, and when the time of a call is up.
    async fn feel_pulse(&mut self, until: Instant) {
        let now = Instant::now();
        let calls = self.waited_for();
        let ends = calls.map(|(question, call)| (call.since, call.since + self.longest(question)));
        let next = self.pulse.next(ends);
        if self.agents_word.is_none() && next.is_some_and(|next| next <= now) {
            self.ask_pulse(now);
        }
        let soon = now + pulse::INTERVAL;
        let next = next.filter(|next| *next > now);
        let wake = next.map_or(soon, |next| next.min(soon));
        self.one_ends(wake.min(until)).await;
    }

    /// After which time a call hangs, however slow others are.
    fn longest(&self, (call, _): &Question) -> Duration {
        let other = match call {
            Rpc::ListPodSandbox => Rpc::ListContainers,
            Rpc::ListContainers => Rpc::ListPodSandbox,
            _ => return MAX_DEADLINE,
        };
        // One that answers nothing is not slow in its lists.
        if self.version.is_none() {
            return MAX_DEADLINE;
        }
        let are_slow = self.agent.as_ref().is_some_and(agent::are_lists_slow);
        list_patience(self.answers.of_node(other), are_slow)
    }

    /// Asks for `Version` until it is answered or hangs, or for as long as a restart takes.
    pub async fn ask_whether_it_is_back(&mut self) {
        let until = self.until.min(Instant::now() + RESTARTS_WITHIN);
        let mut interval = RESTART_INTERVAL;
        loop {
            self.interrupted = false;
            self.ask_version().await;
            if self.version.is_some() || Instant::now() >= until {
                return;
            }
            sleep(interval).await;
            interval += RESTART_INTERVAL;
        }
    }

    /// Waits for an answer of `Version` for as long as it takes to tell whether it hangs.
    pub async fn ask_version(&mut self) {
        self.start(Rpc::Version, None);
        self.wait_for_the_slow().await;
    }

    /// Whether the runtime is there at the end, too.
    pub async fn ask_whether_it_is_still_there(&mut self) {
        if self.interrupted || !self.is_time_for_all() {
            return;
        }
        if self.version_at.is_some_and(is_long_ago) {
            self.ask_version().await;
        }
        if self.agents_word.is_some() {
            return;
        }
        // While `Version` hangs, others show it.
        let until = Instant::now() + MAX_DEADLINE;
        while self.is_pulse_lost() && !self.interrupted && Instant::now() < until {
            let now = Instant::now();
            self.ask_pulse(now);
            self.one_ends(now + pulse::INTERVAL).await;
        }
    }

    /// Whether `Version` hangs, and nothing else was answered lately, or is known not to be.
    fn is_pulse_lost(&self) -> bool {
        let outstanding = self.calls.times();
        self.pulse.is_waiting_for_version(&outstanding)
            && self.pulse.answered().is_none_or(is_long_ago)
            && !self.pulse.is_silent(Instant::now(), &outstanding)
    }

    /// Whether there was no connection for a call, or another one than for those before, so that what
    /// was seen is of a runtime that has gone.
    pub fn is_interrupted(&self) -> bool {
        self.interrupted || self.calls.connections() > 1
    }

    /// When a call ended last; of a round that was interrupted, when it was.
    pub fn lost_at(&self) -> Instant {
        self.ended.unwrap_or_else(Instant::now)
    }

    /// The status calls that were outstanding when the connection was lost.
    pub fn lost(&mut self) -> Vec<Probe> {
        self.lost.take().unwrap_or_default()
    }

    /// Whether a call that is made now has enough time before the end of the round.
    fn is_time_for_more(&self) -> bool {
        Instant::now() + patience(self.answers.slowest) < self.until
    }

    /// Whether it has all the time that it takes to tell whether it hangs.
    fn is_time_for_all(&self) -> bool {
        Instant::now() + MAX_DEADLINE < self.until
    }

    /// Whether the runtime may go away because of what it has answered just now.
    fn is_too_early_for(&self, suspect: &Target) -> bool {
        let is_quiet = self.ended.is_none_or(|ended| ended.elapsed() >= QUIET);
        self.suspects.is_one(suspect) && !is_quiet
    }

    fn may_start(&self, begun: Instant, next: &Target) -> bool {
        let is_time = begun.elapsed() < ASKING_LIMIT && self.is_time_for_more();
        if self.interrupted || !is_time {
            return false;
        }
        let patience = patience(self.answers.slowest);
        let hangs = |call: &Outstanding| call.since.elapsed() >= patience;
        let is_alone = self.for_ids().all(hangs);
        if self.suspects.is_one(next) && !is_alone || self.is_too_early_for(next) {
            return false;
        }
        let mut calls = self.calls.outstanding();
        let waited_for_alone = |call: &Outstanding| {
            call.since < begun + ONE_AT_A_TIME && call.since.elapsed() < LAST_ONE_LIMIT
        };
        let most = match self.calls.is_empty() {
            true if begun.elapsed() < ONE_AT_A_TIME => 1,
            false if calls.all(waited_for_alone) => 1,
            _ => MAX_FOR_IDS,
        };
        self.for_ids().count() < most
    }

    /// Calls that an agent waits for are not made again.
    fn start(&mut self, call: Rpc, target: Option<Target>) {
        let id = target.as_ref().map(|target| target.id.clone());
        let is_room = self.calls.outstanding().count() < MAX_OUTSTANDING;
        if is_room && !self.agents.contains(&(call, id)) {
            self.calls.start(call, target);
        }
    }

    /// Waits until a call ends; false if none ends in time.
    async fn one_ends(&mut self, until: Instant) -> bool {
        let Some(ended) = self.calls.one_ends(until).await else {
            return false;
        };
        self.take(ended);
        true
    }

    fn take(&mut self, ended: EndedCall) {
        self.ended = Some(Instant::now());
        let (method, call) = (ended.method, ended.call);
        let (alone, since) = (call.alone, call.since);
        let guessed = call.target.as_ref().filter(|target| target.guessed);
        let guessed = guessed.map(|target| (target.call, target.id.clone()));
        let mut probe = call.probe(method, End::Answered);
        let id = call.target.as_ref().map(|target| target.id.clone());
        let question = (method, id);
        if let Err(CallError::Unavailable(why)) = &ended.answer {
            // Whatever it is that keeps it away now: it was there.
            self.interrupted |= self.version.is_some() || may_pass(why.cause);
            // All that are outstanding are lost with it, whichever says so first.
            if why.cause == NoConnection::Lost && self.lost.is_none() {
                let why = bounded_error(CallError::Unavailable(why.clone()));
                let others = self.for_ids().filter_map(|call| {
                    let method = call.target.as_ref()?.call;
                    Some(call.probe(method, End::Answered))
                });
                let this = Some(probe.clone()).filter(|_| !self.pulse.is_again(&question));
                let all = this.into_iter().chain(others);
                let lost = all.filter(|probe| probe.id.is_some()).map(|probe| Probe {
                    end: End::Failed(why.clone()),
                    ..probe
                });
                self.lost = Some(lost.collect());
            }
        }
        if !matches!(ended.answer, Err(CallError::Unavailable(_))) {
            self.pulse.beats(Instant::now(), since);
            self.pulse.is_answered(method);
        }
        if self.pulse.ends(&question) && question.1.is_some() {
            return;
        }
        match ended.answer {
            // The id may not exist, so the failure says nothing about the runtime.
            Err(error) if guessed.is_some() && !matches!(error, CallError::Unavailable(_)) => {
                let is_container = probe.call == Rpc::ContainerStatus;
                if let (CallError::NotFound(_), true, Some(id)) = (error, is_container, &probe.id) {
                    self.known.may_be_a_sandbox(id);
                }
                self.guessed.extend(guessed);
                return;
            }
            Ok(Answer::Version(version)) => {
                self.version = Some(bounded_version(version));
                self.version_at = Some(Instant::now());
            }
            Ok(Answer::Conditions(conditions)) => {
                self.conditions = Some(bounded_conditions(conditions))
            }
            Ok(Answer::Sandboxes(listing)) => {
                probe.bytes = Some(listing.bytes as u64);
                self.known.sandboxes = Some(listing.rows);
                self.listed.insert(probe.call, since);
            }
            Ok(Answer::Containers(listing)) => {
                probe.bytes = Some(listing.bytes as u64);
                self.known.containers = Some(listing.rows);
                self.listed.insert(probe.call, since);
            }
            Ok(Answer::OfOne) => {
                if let Some(target) = call.target.filter(|target| !self.suspects.is_one(target)) {
                    self.pulse.is_well(target, since.elapsed());
                }
            }
            // It was removed after it was listed, which new lists will show.
            Err(error @ CallError::NotFound(_)) if probe.id.is_some() => {
                probe.end = End::Failed(bounded_error(error));
                self.vanished.note(probe);
                return;
            }
            Err(error) => probe.end = End::Failed(bounded_error(error)),
        }
        self.answers.take(probe, alone);
    }

    /// Ends the calls that are outstanding: those hang whose time was up when something else was
    /// answered. Returns for how many ids it is not known whether their calls hang.
    pub async fn give_up(&mut self) -> usize {
        // What has come while nobody waited.
        while self.one_ends(Instant::now()).await {}
        let now = Instant::now();
        let is_silent = self.pulse.is_silent(now, &self.calls.times());
        self.besides_version = match self.pulse.answers_besides_version(now, &self.calls.times()) {
            _ if is_silent => OtherCalls::Hang,
            true => OtherCalls::Answered,
            false => OtherCalls::Unknown,
        };
        let mut unknown = 0;
        for (question, call) in self.calls.give_up() {
            let (method, _) = question;
            let longest = self.longest(&question);
            let is_up = is_silent || self.pulse.proves(now, call.since, longest);
            let is_again = self.pulse.ends(&question);
            let hung = call.probe(method, End::Hung);
            if hung.id.is_some() {
                match is_up {
                    _ if is_again => {}
                    true => self.answers.take(hung, false),
                    false => unknown += 1,
                }
                continue;
            }
            // A call that was answered before, and has yet to take as long as that.
            let is_known = self.answers.of_node(method);
            let is_longer = |before| before < hung.seconds && now >= call.since + longest;
            if is_known.is_none_or(is_longer) || is_silent {
                self.answers.take(hung, false);
            }
        }
        unknown
    }
}

/// Whether what was answered then says nothing of now.
fn is_long_ago(answered: Instant) -> bool {
    answered.elapsed() > STILL_THERE
}

/// Whether there may be a connection again after a restart, or was one before.
fn may_pass(cause: NoConnection) -> bool {
    match cause {
        NoConnection::NoSocket | NoConnection::Refused | NoConnection::QueueFull => true,
        NoConnection::Lost | NoConnection::Other => true,
        NoConnection::NotASocket | NoConnection::Forbidden => false,
    }
}
