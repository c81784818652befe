//! Lists. They are passed on, and answered from the rows while the runtime's own list is overdue.
//!
//! A list is overdue after two seconds (a setting), or after twice the time that lists usually take on this
//! node if that is longer. While guarding, one complete list is outstanding: its answer replaces the rows,
//! and answers the callers that requested their lists before it, or up to a second later. A list that
//! cannot be answered waits until its caller cancels it, as it would without the guard.

use std::collections::BTreeMap;
use std::time::Duration;

use base::id::Id;
use bytes::Bytes;
use tokio::time::Instant;

use super::fault::{Fault, State};
use super::known::{Interval, Known};
use super::served::Served;
use super::usual::Usual;
use super::{
    Action, Call, CallId, Caller, Guard, Mode, Outcome, Purpose, Reply, RuntimeCallId, Settings,
};
use crate::wire::Kind;
use crate::wire::filter::Filter;

/// A row that was confirmed within this time before the request of a list may be in the answer.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The pause after the answer to an overdue list before the next complete list is requested. While the rows
/// are incomplete, it is also the pause between two lists that the guard requests to complete them.
const NEXT_LIST_AFTER: Duration = Duration::from_secs(1);

/// How long after a client's last list the guard keeps confirming every id in advance.
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
    outstanding: BTreeMap<RuntimeCallId, OutstandingList>,
    waiting: Vec<ListCall>,
    /// When the guard may next request a complete list of its own.
    next_own: Option<Instant>,
    /// How long the last complete lists took, without those that a stuck container delayed.
    usual: Usual,
    /// When the last list whose duration was recorded in `usual` was answered.
    learned: Option<Instant>,
    /// When the newest answered complete list was requested.
    complete: Option<Instant>,
    /// When a status of this kind was last stuck: then lists are delayed by a stuck container, and not only
    /// slow.
    stuck: Option<Instant>,
}

/// An outstanding list.
#[derive(Clone, Debug)]
struct OutstandingList {
    requested: Instant,
    filter: Filter,
}

/// A caller's list.
#[derive(Clone, Debug)]
pub(super) struct ListCall {
    call: Call,
    pub(super) filter: Filter,
    requested: Instant,
    /// The call that was passed on for this caller.
    passed_as: Option<RuntimeCallId>,
    /// The id at which the last check stopped; the rows before it were known then.
    known_to: Option<Id>,
}

impl ListCall {
    /// Whether it is a list that a kubelet's PLEG may have requested.
    pub(super) fn is_relist(&self) -> bool {
        self.call.from == Caller::Client && self.filter.is_whole()
    }
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
            self.usual.learn(answered.duration_since(requested));
            self.learned = Some(answered);
        }
    }

    /// Whether a list was answered from the rows since this fault began.
    pub(super) fn has_answered(&self) -> bool {
        let begun = self.state.guarding_since();
        begun.is_some_and(|begun| self.served.has_answered_since(begun))
    }

    /// Forgets the last fault: the runtime's next process begins without one.
    pub(super) fn forget_fault(&mut self) {
        if let State::Passing { last } = &mut self.state {
            *last = None;
        }
    }

    /// Whether a caller that the guard may answer has waited for longer than an answer from the rows takes.
    pub(super) fn keeps_waiting(&self, settings: &Settings, now: Instant) -> bool {
        let longest = settings.list_overdue + NEXT_LIST_AFTER;
        let mut waiting = self.waiting.iter();
        waiting.any(|it| it.is_relist() && now >= it.requested + longest)
    }

    /// Removes a call that its caller has cancelled. Returns the call to the runtime to cancel, if that is
    /// not needed any more.
    pub(super) fn abandoned(
        &mut self,
        call: CallId,
        settings: &Settings,
        now: Instant,
    ) -> Option<RuntimeCallId> {
        let place = self.waiting.iter().position(|it| it.call.id == call)?;
        let list = self.waiting.remove(place);
        if now >= list.requested + self.overdue_after(settings) {
            self.served.note_refused(&list, now);
        }
        self.drop_if_dispensable(list.passed_as?)
    }

    /// Removes an outstanding list, and returns it to be cancelled. While guarding, one complete list stays
    /// outstanding: then returns `None`.
    fn drop_if_dispensable(&mut self, runtime_call: RuntimeCallId) -> Option<RuntimeCallId> {
        let is_whole = self.outstanding.get(&runtime_call)?.filter.is_whole();
        let is_last = is_whole && self.complete_lists().count() == 1;
        let is_kept = self.state.guarding_since().is_some() && is_last;
        (!is_kept).then(|| {
            self.outstanding.remove(&runtime_call);
            runtime_call
        })
    }

    /// Whether no further complete list is to be requested: a recent one is outstanding, or two are. If the
    /// only one is older than `LOST_AFTER`, a second one is requested, because the runtime may never answer
    /// the first.
    fn has_enough_complete_lists(&self, now: Instant) -> bool {
        let is_recent = |requested| now < requested + LOST_AFTER;
        self.complete_lists().any(is_recent) || self.complete_lists().nth(1).is_some()
    }

    /// When each outstanding complete list was requested.
    fn complete_lists(&self) -> impl Iterator<Item = Instant> {
        let lists = self.outstanding.values();
        let complete = lists.filter(|list| list.filter.is_whole());
        complete.map(|list| list.requested)
    }

    /// When the oldest outstanding list was requested. A list that was requested before a complete list
    /// that was answered does not count: only that one call hangs.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let requested = self.outstanding.values().map(|list| list.requested);
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
                let is_active = |requested| now < requested + CLIENT_ACTIVE_FOR;
                self.served.requested.is_some_and(is_active) || !self.waiting.is_empty()
            }
            State::LimitReached { .. } => false,
        }
    }

    pub(super) fn alarm(&self, settings: &Settings, now: Instant) -> Option<Instant> {
        let overdue = self.overdue_after(settings);
        let oldest = self.oldest();
        let [probes, overdue] = [overdue / 2, overdue].map(|after| Some(oldest? + after));
        let [limit, next, check] = match self.state {
            State::Guarding { since, next, .. } => {
                // A waiting list may become answerable by time alone: a status call becomes stuck.
                let check = (!self.waiting.is_empty()).then(|| now + CHECK_EVERY);
                [Some(since + settings.limit), Some(next), check]
            }
            _ => [None; 3],
        };
        let times = [probes, overdue, limit, next, check, self.next_own];
        let times = times.into_iter().flatten();
        times.filter(|time| *time > now).min()
    }
}

impl Guard {
    pub(super) fn on_list_called(&mut self, kind: Kind, call: Call, filter: Filter, now: Instant) {
        let may_be_answered = self.may_answer(call.from);
        let is_rehearsed = self.mode == Mode::Shadow && filter.is_whole();
        let list = ListCall {
            call,
            filter,
            requested: now,
            passed_as: None,
            known_to: None,
        };
        let lists = &mut self.lists[kind];
        // If the runtime is only slow, its own list may be the first answer.
        let is_delayed_by_stuck = lists.stuck >= lists.state.guarding_since();
        if may_be_answered && lists.state.guarding_since().is_some() && is_delayed_by_stuck {
            return lists.waiting.push(list);
        }
        if is_rehearsed {
            self.rehearse(kind, now);
        }
        self.pass_list_on(kind, list, now);
    }

    fn pass_list_on(&mut self, kind: Kind, mut list: ListCall, now: Instant) {
        let runtime_call = self.pass_on(Purpose::List(kind), list.call.id, now);
        self.note_outstanding(kind, runtime_call, list.filter.clone(), now);
        list.passed_as = Some(runtime_call);
        self.lists[kind].waiting.push(list);
    }

    fn note_outstanding(
        &mut self,
        kind: Kind,
        runtime_call: RuntimeCallId,
        filter: Filter,
        now: Instant,
    ) {
        let list = OutstandingList {
            requested: now,
            filter,
        };
        self.lists[kind].outstanding.insert(runtime_call, list);
    }

    /// Requests a complete list, unless enough of them are outstanding.
    pub(super) fn request_complete_list(&mut self, kind: Kind, now: Instant) {
        if !self.lists[kind].has_enough_complete_lists(now) {
            let runtime_call =
                self.call_runtime(Purpose::List(kind), kind.list(), Bytes::new(), now);
            self.note_outstanding(kind, runtime_call, Filter::default(), now);
        }
    }

    pub(super) fn on_list_answered(
        &mut self,
        kind: Kind,
        runtime_call: RuntimeCallId,
        outcome: &Outcome,
        interval: Interval,
    ) {
        let Some(list) = self.lists[kind].outstanding.remove(&runtime_call) else {
            return;
        };
        let is_list = self.learn_list(kind, &list.filter, outcome, interval);
        self.reads.invalidate_all(kind);
        let (requested, ended) = interval;
        let lists = &mut self.lists[kind];
        let mut waiting = lists.waiting.iter();
        if let Some(place) = waiting.position(|it| it.passed_as == Some(runtime_call)) {
            let list = lists.waiting.remove(place);
            lists.served.note_passed(&list, is_list, ended);
            self.actions.push(Action::Relay(runtime_call, list.call.id));
        }
        if is_list && list.filter.is_whole() {
            lists.learn_time(interval);
            lists.complete = lists.complete.max(Some(requested));
        }
        let is_in_time = is_list && ended < requested + lists.overdue_after(&self.settings);
        match lists.state {
            State::Guarding { since, .. } if matches!(outcome, Outcome::Lost) => {
                let last = Some(Fault { since, ended });
                self.enter(kind, State::Passing { last }, ended);
            }
            _ if !list.filter.is_whole() => {}
            State::Guarding { since, .. } | State::LimitReached { since } if is_in_time => {
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

    /// Enters a state. Unless it is `Guarding`, passes on the waiting lists that were not passed on yet.
    fn enter(&mut self, kind: Kind, state: State, now: Instant) {
        let lists = &mut self.lists[kind];
        lists.state = state;
        if lists.state.guarding_since().is_none() {
            let kept = lists.waiting.extract_if(.., |it| it.passed_as.is_none());
            for list in kept.collect::<Vec<_>>() {
                self.pass_list_on(kind, list, now);
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
        for mut list in std::mem::take(&mut lists.waiting) {
            let Some(message) = self.known_list(kind, &mut list, now) else {
                self.lists[kind].waiting.push(list);
                continue;
            };
            self.reads.invalidate_all(kind);
            let lists = &mut self.lists[kind];
            lists.served.note_answered(&list, now);
            let unneeded = list
                .passed_as
                .and_then(|passed| lists.drop_if_dispensable(passed));
            self.reply(&list.call, Reply::Message(message.into()));
            if let Some(runtime_call) = unneeded {
                self.cancel(runtime_call, now);
            }
        }
    }

    /// The encoded list for a waiting caller, if all its rows are known.
    fn known_list(&self, kind: Kind, list: &mut ListCall, now: Instant) -> Option<Vec<u8>> {
        // The mode may have been switched since the caller began to wait.
        if !self.may_answer(list.call.from) {
            return None;
        }
        let since = list.requested.checked_sub(MAX_AGE);
        let since = since.unwrap_or(list.requested);
        let filter = &*self.with_whole_ids(&list.filter);
        let rows = self.known_rows(kind, filter, &mut list.known_to, since, now)?;
        let in_state = |known: &&Known| list.filter.matches_state(&known.row);
        Some(self.rows[kind].write(rows.filter(in_state)))
    }
}
