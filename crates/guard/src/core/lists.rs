//! Lists. They are passed on, and answered from the rows while the runtime's own list is overdue.
//!
//! A list is overdue after two seconds (a setting), or after twice the time that lists usually take on this
//! node if that is longer. While guarding, one complete list is outstanding: its answer replaces the rows, and
//! answers the callers that requested theirs before it, or up to a second later. A list that cannot be answered
//! waits until its caller cancels it, as it would without the guard.

use std::collections::BTreeMap;
use std::time::Duration;

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::fault::{Fault, State};
use super::known::{Interval, Known};
use super::served::Served;
use super::usual::Usual;
use super::{
    Action, CallId, Caller, Guard, Mode, Outcome, Purpose, Reply, RuntimeCallId, Settings,
};
use crate::wire::Kind;
use crate::wire::filter::Filter;

/// A row that was confirmed within this time before the request of a list may be in the answer.
const MAX_AGE: Duration = Duration::from_secs(1);

/// How long after an overdue list the next complete one is requested.
const NEXT_LIST_AFTER: Duration = Duration::from_secs(1);

/// For how long after a client's last list every id is confirmed again in advance.
const CLIENT_ACTIVE_FOR: Duration = Duration::from_secs(5);

/// How often the guard checks whether a waiting list can be answered.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Another complete list is requested once the outstanding one is this old.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// The lists of one kind.
#[derive(Clone, Debug, Default)]
pub(super) struct Lists {
    pub(super) state: State,
    pub(super) served: Served,
    /// The outstanding lists.
    real: BTreeMap<RuntimeCallId, Real>,
    waiting: Vec<Waiting>,
    /// When the guard may next request a complete list of its own.
    next_own: Option<Instant>,
    /// How long the last complete lists took, without those that a stuck container delayed.
    usual: Usual,
    /// When the last of these was answered.
    learned: Option<Instant>,
    /// When the newest answered complete list was requested.
    complete: Option<Instant>,
    /// When a status of this kind was last stuck: then lists are delayed by a stuck container, and not only
    /// slow.
    stuck: Option<Instant>,
}

/// An outstanding list.
#[derive(Clone, Debug)]
struct Real {
    requested: Instant,
    filter: Filter,
}

/// A call of a list.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) call: CallId,
    pub(super) rpc: Rpc,
    pub(super) filter: Filter,
    pub(super) requested: Instant,
    pub(super) from: Caller,
}

impl Called {
    /// Whether it is a list that a kubelet's PLEG may have requested.
    pub(super) fn is_relist(&self) -> bool {
        self.from == Caller::Client && self.filter.is_whole()
    }
}

#[derive(Clone, Debug)]
struct Waiting {
    called: Called,
    /// The call that was passed on for this caller.
    real: Option<RuntimeCallId>,
    /// The id at which the last check stopped; the rows before it were known then.
    known_to: Option<Id>,
}

impl Lists {
    /// How long after its request a list is overdue.
    pub(super) fn overdue_after(&self, settings: &Settings) -> Duration {
        self.usual.overdue_after(settings.list_overdue)
    }

    /// Records how long a complete list took, unless a stuck container may have delayed it. Of several lists
    /// that were delayed together only one counts.
    fn learn_time(&mut self, (requested, answered): Interval) {
        if self.stuck < Some(requested) && self.learned <= Some(requested) {
            self.usual
                .learn(answered.saturating_duration_since(requested));
            self.learned = Some(answered);
        }
    }

    /// Whether a list was answered from the rows since this fault began.
    pub(super) fn has_answered(&self) -> bool {
        let begun = self.state.guarding_since();
        begun.is_some_and(|begun| self.served.has_answered_since(begun))
    }

    /// Continues a fault during which an earlier guard process ended. Its limit does not start again, and
    /// lists are answered before they are overdue again.
    pub(super) fn resume_fault(&mut self, since: Instant, now: Instant) {
        self.state = State::guarding(since, now);
    }

    /// The runtime's next process begins without a fault.
    pub(super) fn forget_fault(&mut self) {
        if let State::Passing { last } = &mut self.state {
            *last = None;
        }
    }

    /// Whether a caller that the guard may answer has waited for longer than an answer takes.
    pub(super) fn keeps_waiting(&self, settings: &Settings, now: Instant) -> bool {
        let longest = settings.list_overdue + NEXT_LIST_AFTER;
        let mut waiting = self.waiting.iter().map(|it| &it.called);
        waiting.any(|called| called.is_relist() && now >= called.requested + longest)
    }

    /// The caller has cancelled its call. Returns the list to cancel, if it is not needed any more.
    pub(super) fn abandoned(
        &mut self,
        call: CallId,
        settings: &Settings,
        now: Instant,
    ) -> Option<RuntimeCallId> {
        let place = self.waiting.iter().position(|it| it.called.call == call)?;
        let Waiting { called, real, .. } = self.waiting.remove(place);
        if now >= called.requested + self.overdue_after(settings) {
            self.served.note_refused(&called, now);
        }
        self.drop_if_dispensable(real?)
    }

    /// Returns the list if it is to be cancelled. While guarding, one complete list stays outstanding.
    fn drop_if_dispensable(&mut self, runtime_call: RuntimeCallId) -> Option<RuntimeCallId> {
        let is_whole = self.real.get(&runtime_call)?.filter.is_whole();
        let mut others = self
            .real
            .iter()
            .filter(|(other, _)| **other != runtime_call);
        let is_last = !others.any(|(_, real)| real.filter.is_whole());
        let is_kept = self.state.guarding_since().is_some() && is_whole && is_last;
        (!is_kept).then(|| {
            self.real.remove(&runtime_call);
            runtime_call
        })
    }

    /// Whether no further complete list is to be requested: a recent one is outstanding, or two are. Beside one
    /// that is older than `LOST_AFTER`, a second one is requested, because the runtime may never answer
    /// that one.
    fn has_enough_complete_lists(&self, now: Instant) -> bool {
        let whole = self.real.values().filter(|real| real.filter.is_whole());
        let mut whole = whole.map(|real| real.requested);
        whole.clone().any(|requested| now < requested + LOST_AFTER) || whole.nth(1).is_some()
    }

    /// When the oldest outstanding list was requested. A list that was requested before an answered one does
    /// not count: it hangs alone.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let requested = self.real.values().map(|real| real.requested);
        requested
            .filter(|requested| Some(*requested) > self.complete)
            .min()
    }

    /// Whether the status of every id is to be requested now.
    pub(super) fn wants_probes(&self, settings: &Settings, now: Instant) -> bool {
        match self.state {
            State::Passing { .. } => {
                let half = self.overdue_after(settings) / 2;
                self.oldest()
                    .is_some_and(|requested| now >= requested + half)
            }
            State::Guarding { .. } => {
                let requested = self.served.requested();
                let is_active = |requested| now < requested + CLIENT_ACTIVE_FOR;
                requested.is_some_and(is_active) || !self.waiting.is_empty()
            }
            State::LimitReached { .. } => false,
        }
    }

    pub(super) fn alarm(&self, settings: &Settings, now: Instant) -> Option<Instant> {
        let oldest = self.oldest();
        let guards = self.state.guarding_since().is_some();
        let overdue = self.overdue_after(settings);
        let steps = [overdue / 2, overdue];
        let steps = steps.into_iter().filter_map(|step| Some(oldest? + step));
        let guarding = match self.state {
            State::Guarding { since, next, .. } => [Some(since + settings.limit), Some(next)],
            _ => [None, None],
        };
        // A waiting list may become answerable by time alone: a status call becomes stuck.
        let looks = (guards && !self.waiting.is_empty()).then(|| now + CHECK_EVERY);
        let steps = steps.chain(guarding.into_iter().flatten());
        let steps = steps.chain(looks).chain(self.next_own);
        steps.filter(|time| *time > now).min()
    }
}

impl Waiting {
    fn new(called: Called, real: Option<RuntimeCallId>) -> Self {
        Self {
            called,
            real,
            known_to: None,
        }
    }
}

impl Guard {
    pub(super) fn on_list_called(&mut self, kind: Kind, called: Called, now: Instant) {
        let may_be_answered = self.may_answer(called.from);
        let lists = &mut self.lists[kind];
        // If the runtime is only slow, its own list may be the first answer.
        let is_delayed_by_stuck = lists.stuck >= lists.state.guarding_since();
        if may_be_answered && lists.state.guarding_since().is_some() && is_delayed_by_stuck {
            return lists.waiting.push(Waiting::new(called, None));
        }
        if self.mode == Mode::Shadow && called.filter.is_whole() {
            self.rehearse(kind, now);
        }
        self.pass_list_on(kind, called, now);
    }

    fn pass_list_on(&mut self, kind: Kind, called: Called, now: Instant) {
        let runtime_call = self.pass_on(Purpose::List(kind), called.call, now);
        self.note_real(kind, runtime_call, called.filter.clone(), now);
        let waiting = &mut self.lists[kind].waiting;
        waiting.push(Waiting::new(called, Some(runtime_call)));
    }

    fn note_real(&mut self, kind: Kind, runtime_call: RuntimeCallId, filter: Filter, now: Instant) {
        let real = Real {
            requested: now,
            filter,
        };
        self.lists[kind].real.insert(runtime_call, real);
    }

    /// Requests a complete list, unless enough of them are outstanding.
    pub(super) fn request_complete_list(&mut self, kind: Kind, now: Instant) {
        if !self.lists[kind].has_enough_complete_lists(now) {
            let runtime_call =
                self.call_runtime(Purpose::List(kind), kind.list(), Bytes::new(), now);
            self.note_real(kind, runtime_call, Filter::default(), now);
        }
    }

    pub(super) fn on_list_answered(
        &mut self,
        kind: Kind,
        runtime_call: RuntimeCallId,
        outcome: &Outcome,
        interval: Interval,
    ) {
        let Some(real) = self.lists[kind].real.remove(&runtime_call) else {
            return;
        };
        let learnt = self.learn_list(kind, &real.filter, outcome, interval);
        self.reads.invalidate_all(kind);
        let waiting = &mut self.lists[kind].waiting;
        let place = waiting.iter().position(|it| it.real == Some(runtime_call));
        if let Some(place) = place {
            let called = waiting.remove(place).called;
            self.actions.push(Action::Relay(runtime_call, called.call));
            let served = &mut self.lists[kind].served;
            served.note_passed(&called, learnt, interval.1);
        }
        let took = interval.1.saturating_duration_since(interval.0);
        let lists = &mut self.lists[kind];
        if learnt && real.filter.is_whole() {
            lists.learn_time(interval);
            lists.complete = lists.complete.max(Some(interval.0));
        }
        let in_time = learnt && took < lists.overdue_after(&self.settings);
        let ended = interval.1;
        match lists.state {
            State::Guarding { since, .. } if matches!(outcome, Outcome::Lost) => {
                let last = Some(Fault { since, ended });
                self.enter(kind, State::Passing { last }, ended);
            }
            _ if !real.filter.is_whole() => {}
            State::Guarding { since, .. } | State::LimitReached { since } if in_time => {
                // The waiting callers are answered first. If their calls were passed on now, they would
                // wait for another list.
                self.answer_lists(kind, ended);
                let lists = &self.lists[kind];
                // Successive short stalls of the whole runtime do not count as one fault.
                let may_be_back = lists.state.is_limit_reached() || lists.stuck >= Some(since);
                let last = may_be_back.then_some(Fault { since, ended });
                self.enter(kind, State::Passing { last }, ended);
            }
            State::Guarding { since, begun, .. } => {
                let next = ended + NEXT_LIST_AFTER;
                lists.state = State::Guarding { since, begun, next };
            }
            State::Passing { .. } | State::LimitReached { .. } => {}
        }
    }

    /// Enters a state. Unless it is `Guarding`, passes on the lists that wait to be answered.
    fn enter(&mut self, kind: Kind, state: State, now: Instant) {
        let lists = &mut self.lists[kind];
        lists.state = state;
        if lists.state.guarding_since().is_none() {
            let is_kept_here = |it: &mut Waiting| it.real.is_none();
            let kept: Vec<Waiting> = lists.waiting.extract_if(.., is_kept_here).collect();
            for it in kept {
                self.pass_list_on(kind, it.called, now);
            }
        }
    }

    pub(super) fn advance_list(&mut self, kind: Kind, now: Instant) {
        if self.reads.ids().any(|id| self.is_stuck(kind, id, now)) {
            self.lists[kind].stuck = Some(now);
        }
        if let Some(state) = self.next_state(kind, now) {
            self.enter(kind, state, now);
        }
        let is_complete = self.rows[kind].complete_since().is_some();
        let knows_all = is_complete && !self.ids.has_unshown(kind);
        let lists = &mut self.lists[kind];
        if knows_all {
            lists.next_own = None;
        } else if lists.next_own.is_none_or(|next| now >= next) {
            lists.next_own = Some(now + NEXT_LIST_AFTER);
            self.request_complete_list(kind, now);
        }
        if let State::Guarding { next, .. } = self.lists[kind].state
            && now >= next
        {
            self.request_complete_list(kind, now);
        }
    }

    /// The next state, if the time, the mode, or a limit that the other kind of list has reached requires one.
    fn next_state(&self, kind: Kind, now: Instant) -> Option<State> {
        let lists = &self.lists[kind];
        let passing = State::Passing { last: None };
        match lists.state {
            State::Passing { last } => {
                let is_complete = self.rows[kind].complete_since().is_some();
                let overdue = lists.overdue_after(&self.settings);
                let requested = lists.oldest().filter(|time| now >= *time + overdue)?;
                let is_guarded = self.mode == Mode::Guard && is_complete;
                is_guarded.then(|| State::overdue(requested, last, self.settings.limit, now))
            }
            _ if self.mode != Mode::Guard => Some(passing),
            State::Guarding { .. } if self.is_limit_reached() => Some(passing),
            State::Guarding { since, .. } if now >= since + self.settings.limit => {
                Some(State::LimitReached { since })
            }
            State::Guarding { .. } | State::LimitReached { .. } => None,
        }
    }

    /// Answers the waiting lists whose rows are all known now.
    pub(super) fn answer_lists(&mut self, kind: Kind, now: Instant) {
        let lists = &mut self.lists[kind];
        if lists.state.guarding_since().is_none() || lists.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut lists.waiting);
        for mut it in waiting {
            let Some(list) = self.known_list(kind, &mut it, now) else {
                self.lists[kind].waiting.push(it);
                continue;
            };
            self.lists[kind].served.note_answered(&it.called, now);
            self.reads.invalidate_all(kind);
            let reply = Reply::Message(list.into());
            self.reply(it.called.call, it.called.rpc, reply);
            let lists = &mut self.lists[kind];
            if let Some(runtime_call) = it.real.and_then(|real| lists.drop_if_dispensable(real)) {
                self.cancel(runtime_call, now);
            }
        }
    }

    /// The encoded list for a waiting caller, if all its rows are known.
    fn known_list(&self, kind: Kind, it: &mut Waiting, now: Instant) -> Option<Vec<u8>> {
        // The mode may have been switched since the caller began to wait.
        if !self.may_answer(it.called.from) {
            return None;
        }
        let since = it.called.requested.checked_sub(MAX_AGE);
        let since = since.unwrap_or(it.called.requested);
        let filter = &*self.with_whole_ids(&it.called.filter);
        let rows = self.known_rows(kind, filter, &mut it.known_to, since, now)?;
        let in_state = |known: &&Known| it.called.filter.matches_state(&known.row);
        Some(self.rows[kind].write(rows.filter(in_state)))
    }
}
