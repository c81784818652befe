//! Lists: passed on, and answered from the rows while the real one is overdue.
//!
//! ```text
//!   Passing --a list is overdue--> Guarding --a complete list is answered in time--> Passing
//!                                     \--guarded for too long--> GivenUp, until one is
//! ```
//!
//! A list is overdue after two seconds, or after twice the time that lists usually take on this
//! node. While guarding, one complete list is outstanding: its answer replaces the rows, and answers
//! the callers that requested a list no later. A list that cannot be answered waits for as long as
//! its caller does, as it would without the guard. A fault that lets a list through now and then is
//! one fault: its limit does not start again.

use std::collections::BTreeMap;
use std::time::Duration;

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::rows::{Asked, Known};
use super::usual::Usual;
use super::{Action, AskId, CallId, Caller, Guard, Mode, Outcome, Purpose, Reply, Settings};
use crate::wire::Kind;
use crate::wire::filter::Filter;
use crate::wire::row::{Row, rows_of};

/// What was confirmed no longer ago when a list is asked for is as good as confirmed since.
const FRESH: Duration = Duration::from_secs(1);

/// After a list that came late the next complete one is asked for.
const PAUSE: Duration = Duration::from_secs(1);

/// While a kubelet asks for lists at least this often, every id is confirmed before it asks.
const LATELY: Duration = Duration::from_secs(5);

/// A fault that is back within this time is the same: a kubelet gives up the call that holds a
/// lock after two minutes, and makes it again within seconds.
const SAME_FAULT: Duration = Duration::from_secs(60);

/// How often it is looked whether a list that waits can be answered.
const LOOK: Duration = Duration::from_millis(50);

/// Another complete list is requested once the outstanding one is this old.
const LOST_AFTER: Duration = Duration::from_secs(60);

/// The lists of one kind.
#[derive(Clone, Debug)]
pub(super) struct Lists {
    state: State,
    /// The lists that the runtime is asked for.
    real: BTreeMap<AskId, Real>,
    waiting: Vec<Waiting>,
    pub(super) told: Told,
    /// When we may next ask for all by ourselves, to know what there is.
    next_own: Option<Instant>,
    /// How long the last complete lists took that no stuck container held up.
    usual: Usual,
    /// When the last of these was answered.
    learned: Option<Instant>,
    /// When the newest complete list was requested that was answered.
    complete: Option<Instant>,
    /// When a status of this kind was last stuck: then lists are held up, and not just slow.
    stuck: Option<Instant>,
}

/// What callers were last told, and when. All but `asked` is of lists that ask for all.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Told {
    /// When one that may be answered last asked.
    pub(super) asked: Option<Instant>,
    /// When one that may be answered last got a list, by whomever.
    pub(super) listed: Option<Instant>,
    /// When one was last answered from the rows.
    answered: Option<Instant>,
    /// When the runtime's own answer was last passed on, whatever it was.
    passed: Option<Instant>,
    /// When a caller last gave one up that was overdue.
    refused: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Passing {
        /// The last fault, while it may not be over.
        last: Option<Fault>,
    },
    Guarding {
        since: Instant,
        /// When it was begun, or begun again.
        begun: Instant,
        /// When the next complete list may be asked for.
        next: Instant,
    },
    /// Guarded for too long.
    GivenUp { since: Instant },
}

/// A fault that seems to be over.
#[derive(Clone, Copy, Debug)]
struct Fault {
    since: Instant,
    ended: Instant,
}

/// A list that the runtime is asked for.
#[derive(Clone, Debug)]
struct Real {
    asked: Instant,
    filter: Filter,
}

/// Somebody asks for a list.
#[derive(Clone, Debug)]
pub(super) struct Called {
    pub(super) call: CallId,
    pub(super) rpc: Rpc,
    pub(super) filter: Filter,
    pub(super) asked: Instant,
    pub(super) from: Caller,
}

#[derive(Clone, Debug)]
struct Waiting {
    called: Called,
    /// The list that the runtime is asked for on its behalf.
    real: Option<AskId>,
    /// Up to this id all was known when it was last looked.
    known_to: Option<Id>,
}

impl Lists {
    pub(super) fn new() -> Self {
        Self {
            state: State::Passing { last: None },
            real: BTreeMap::new(),
            waiting: Vec::new(),
            told: Told::default(),
            next_own: None,
            usual: Usual::default(),
            learned: None,
            complete: None,
            stuck: None,
        }
    }

    /// After which time a list is overdue.
    pub(super) fn overdue_after(&self, settings: &Settings) -> Duration {
        self.usual.overdue_after(settings.list_overdue)
    }

    /// Learns how long a complete list took, unless a stuck container may have held it up. Of the lists
    /// that were held up together only one counts.
    fn learn_time(&mut self, (asked, answered): Asked) {
        if self.stuck < Some(asked) && self.learned <= Some(asked) {
            self.usual.learn(answered.saturating_duration_since(asked));
            self.learned = Some(answered);
        }
    }

    /// Since when lists are answered from the rows, if they are.
    pub(super) fn guarding_since(&self) -> Option<Instant> {
        match self.state {
            State::Guarding { begun, .. } => Some(begun),
            State::Passing { .. } | State::GivenUp { .. } => None,
        }
    }

    /// Whether one was answered from the rows since this fault began.
    pub(super) fn has_answered(&self) -> bool {
        let begun = self.guarding_since();
        begun.is_some() && self.told.answered >= begun
    }

    /// Whether the last one that was asked for was refused.
    pub(super) fn refuses(&self) -> bool {
        self.told.refused > self.told.listed
    }

    /// Whether one was refused since the runtime's own answer was last passed on.
    pub(super) fn refuses_since_passed(&self) -> bool {
        self.told.refused > self.told.passed
    }

    /// Whether one fault was guarded for too long.
    pub(super) fn is_given_up(&self) -> bool {
        matches!(self.state, State::GivenUp { .. })
    }

    /// Since when the fault lasts because of which lists do not pass, or pass for too long.
    pub(super) fn fault_since(&self) -> Option<Instant> {
        match self.state {
            State::Guarding { since, .. } | State::GivenUp { since } => Some(since),
            State::Passing { .. } => None,
        }
    }

    /// An earlier guard ended in the middle of a fault: its limit does not start again, and lists are
    /// answered before they are overdue again.
    pub(super) fn resume_fault(&mut self, since: Instant, now: Instant) {
        self.state = State::Guarding {
            since,
            begun: now,
            next: now,
        };
    }

    /// The next process has faults of its own.
    pub(super) fn forget_fault(&mut self) {
        if let State::Passing { last } = &mut self.state {
            *last = None;
        }
    }

    /// Whether somebody whom we may answer has waited for longer than an answer takes.
    pub(super) fn keeps_waiting(&self, settings: &Settings, now: Instant) -> bool {
        let longest = settings.list_overdue + PAUSE;
        let mut waiting = self.waiting.iter().map(|it| &it.called);
        waiting.any(|called| {
            let is_relist = called.from == Caller::Client && called.filter.is_whole();
            is_relist && now >= called.asked + longest
        })
    }

    /// The caller is gone: returns the list that no other caller needs.
    pub(super) fn abandoned(
        &mut self,
        call: CallId,
        settings: &Settings,
        now: Instant,
    ) -> Option<AskId> {
        let place = self.waiting.iter().position(|it| it.called.call == call)?;
        let Waiting { called, real, .. } = self.waiting.remove(place);
        let is_relist = called.from == Caller::Client && called.filter.is_whole();
        if is_relist && now >= called.asked + self.overdue_after(settings) {
            self.told.refused = Some(now);
        }
        self.drop_if_dispensable(real?)
    }

    /// Gives the list back if it is to be cancelled: while guarding one complete list stays
    /// outstanding.
    fn drop_if_dispensable(&mut self, ask: AskId) -> Option<AskId> {
        let is_whole = self.real.get(&ask)?.filter.is_whole();
        let mut others = self.real.iter().filter(|(other, _)| **other != ask);
        let is_last = !others.any(|(_, real)| real.filter.is_whole());
        let is_kept = self.guarding_since().is_some() && is_whole && is_last;
        (!is_kept).then(|| {
            self.real.remove(&ask);
            ask
        })
    }

    /// Whether a complete list is outstanding. After a while another one is requested once: a single
    /// call may be lost in the runtime.
    fn asks_for_all(&self, now: Instant) -> bool {
        let whole = self.real.values().filter(|real| real.filter.is_whole());
        let mut whole = whole.map(|real| real.asked);
        whole.clone().any(|asked| now < asked + LOST_AFTER) || whole.nth(1).is_some()
    }

    /// When the oldest outstanding list was requested. A list that was requested before one that was
    /// answered hangs by itself.
    pub(super) fn oldest(&self) -> Option<Instant> {
        let asked = self.real.values().map(|real| real.asked);
        asked.filter(|asked| Some(*asked) > self.complete).min()
    }

    /// Whether every id is to be asked for by itself now.
    pub(super) fn wants_probes(&self, settings: &Settings, now: Instant) -> bool {
        match self.state {
            State::Passing { .. } => {
                let half = self.overdue_after(settings) / 2;
                self.oldest().is_some_and(|asked| now >= asked + half)
            }
            State::Guarding { .. } => {
                let lately = self.told.asked.is_some_and(|asked| now < asked + LATELY);
                lately || !self.waiting.is_empty()
            }
            State::GivenUp { .. } => false,
        }
    }

    pub(super) fn alarm(&self, settings: &Settings, now: Instant) -> Option<Instant> {
        let oldest = self.oldest();
        let guards = self.guarding_since().is_some();
        let overdue = self.overdue_after(settings);
        let steps = [overdue / 2, overdue];
        let steps = steps.into_iter().filter_map(|step| Some(oldest? + step));
        let guarding = match self.state {
            State::Guarding { since, next, .. } => [Some(since + settings.limit), Some(next)],
            _ => [None, None],
        };
        // Whether all is known now may change by time alone.
        let looks = (guards && !self.waiting.is_empty()).then(|| now + LOOK);
        let steps = steps.chain(guarding.into_iter().flatten());
        let steps = steps.chain(looks).chain(self.next_own);
        steps.filter(|time| *time > now).min()
    }
}

impl Waiting {
    fn new(called: Called, real: Option<AskId>) -> Self {
        Self {
            called,
            real,
            known_to: None,
        }
    }
}

impl Guard {
    pub(super) fn on_list_called(&mut self, kind: Kind, called: Called, now: Instant) {
        let may_be_answered = self.answers(called.from);
        let lists = &mut self.lists[kind as usize];
        // Of a runtime that is only slow, its own list may be the first answer.
        let is_held_up = lists.stuck >= lists.guarding_since();
        if may_be_answered && lists.guarding_since().is_some() && is_held_up {
            return lists.waiting.push(Waiting::new(called, None));
        }
        if self.mode == Mode::Shadow && called.filter.is_whole() {
            self.rehearse(kind, now);
        }
        self.pass_list_on(kind, called, now);
    }

    fn pass_list_on(&mut self, kind: Kind, called: Called, now: Instant) {
        let ask = self.pass_on(Purpose::List(kind), called.call, now);
        self.note_real(kind, ask, called.filter.clone(), now);
        let waiting = &mut self.lists[kind as usize].waiting;
        waiting.push(Waiting::new(called, Some(ask)));
    }

    fn note_real(&mut self, kind: Kind, ask: AskId, filter: Filter, now: Instant) {
        let real = Real { asked: now, filter };
        self.lists[kind as usize].real.insert(ask, real);
    }

    /// Asks for a complete list, unless one is outstanding.
    pub(super) fn ask_for_all(&mut self, kind: Kind, now: Instant) {
        if !self.lists[kind as usize].asks_for_all(now) {
            let ask = self.ask(Purpose::List(kind), kind.list(), Bytes::new(), now);
            self.note_real(kind, ask, Filter::default(), now);
        }
    }

    pub(super) fn on_list_answered(
        &mut self,
        kind: Kind,
        ask: AskId,
        outcome: &Outcome,
        asked: Asked,
    ) {
        let Some(real) = self.lists[kind as usize].real.remove(&ask) else {
            return;
        };
        let learnt = self.learn_list(kind, &real.filter, outcome, asked);
        self.reads.tell_all(kind);
        let waiting = &mut self.lists[kind as usize].waiting;
        let place = waiting.iter().position(|it| it.real == Some(ask));
        if let Some(place) = place {
            let called = waiting.remove(place).called;
            self.actions.push(Action::Relay(ask, called.call));
            if called.filter.is_whole() {
                self.lists[kind as usize].told.passed = Some(asked.1);
            }
            if learnt {
                self.note_told(kind, &called, asked.1);
            }
        }
        let took = asked.1.saturating_duration_since(asked.0);
        let lists = &mut self.lists[kind as usize];
        if learnt && real.filter.is_whole() {
            lists.learn_time(asked);
            lists.complete = lists.complete.max(Some(asked.0));
        }
        let in_time = learnt && took < lists.overdue_after(&self.settings);
        match &mut lists.state {
            State::Guarding { since, .. } if matches!(outcome, Outcome::Lost) => {
                let (since, ended) = (*since, asked.1);
                self.pass_all(kind, Some(Fault { since, ended }), asked.1);
            }
            _ if !real.filter.is_whole() => {}
            State::Guarding { since, .. } | State::GivenUp { since } if in_time => {
                let (since, ended) = (*since, asked.1);
                // Passing them on now would make them wait for another list.
                self.answer_lists(kind, ended);
                let lists = &self.lists[kind as usize];
                // Short stalls of the whole runtime are not one fault.
                let may_be_back = lists.is_given_up() || lists.stuck >= Some(since);
                self.pass_all(kind, may_be_back.then_some(Fault { since, ended }), ended);
            }
            State::Guarding { next, .. } => *next = asked.1 + PAUSE,
            State::Passing { .. } | State::GivenUp { .. } => {}
        }
    }

    fn note_told(&mut self, kind: Kind, called: &Called, now: Instant) {
        // What a kubelet's PLEG asks for has no filter.
        if called.from == Caller::Client && called.filter.is_whole() {
            self.lists[kind as usize].told.listed = Some(now);
        }
    }

    /// Takes in what a list tells; says whether it was understood.
    fn learn_list(&mut self, kind: Kind, filter: &Filter, outcome: &Outcome, asked: Asked) -> bool {
        let Outcome::Messages(messages) = outcome else {
            return false;
        };
        let rows = messages.iter().map(|message| rows_of(kind, message));
        let Ok(rows) = rows.collect::<Result<Vec<_>, _>>() else {
            return false;
        };
        let rows: Vec<Row> = rows.into_iter().flatten().collect();
        if filter.is_whole() {
            self.compare(kind, &rows, asked);
        }
        if self.shadows[kind as usize].is_rehearsing() {
            return true;
        }
        if filter.is_whole() {
            self.learn_all(kind, rows, asked);
        } else {
            // What a runtime takes a beginning for, nobody else knows: then nothing is lacking.
            let names_whole_ids = filter
                .id()
                .is_none_or(|id| self.rows(kind).get(&id.into()).is_some())
                && filter
                    .sandbox()
                    .is_none_or(|id| self.sandboxes.get(id).is_some());
            self.rows_mut(kind).part(rows, asked, |row| {
                let is_of_all = names_whole_ids && !filter.is_of_state();
                is_of_all && filter.matches_but_for_state(kind, row)
            });
            self.found_rows(kind, asked);
        }
        true
    }

    /// Takes in a complete list.
    pub(super) fn learn_all(&mut self, kind: Kind, rows: Vec<Row>, asked: Asked) {
        self.rows_mut(kind).complete(rows, asked);
        self.ids.saw_all(kind, asked.0);
        self.found_rows(kind, asked);
    }

    fn found_rows(&mut self, kind: Kind, asked: Asked) {
        let rows = match kind {
            Kind::Sandbox => &self.sandboxes,
            Kind::Container => &self.containers,
        };
        self.ids.found_in(rows);
        self.prove_creations(asked.1);
    }

    /// The lists pass again, those too that have waited.
    fn pass_all(&mut self, kind: Kind, last: Option<Fault>, now: Instant) {
        let lists = &mut self.lists[kind as usize];
        lists.state = State::Passing { last };
        let all = std::mem::take(&mut lists.waiting);
        let (passed, waiting) = all.into_iter().partition(|it| it.real.is_some());
        lists.waiting = passed;
        let waiting: Vec<Waiting> = waiting;
        for it in waiting {
            self.pass_list_on(kind, it.called, now);
        }
    }

    pub(super) fn pass_list(&mut self, kind: Kind, now: Instant) {
        let is_complete = self.rows(kind).complete_since().is_some();
        if self.reads.ids().any(|id| self.is_stuck(kind, id, now)) {
            self.lists[kind as usize].stuck = Some(now);
        }
        let is_given_up = self.is_given_up();
        let lists = &mut self.lists[kind as usize];
        match lists.state {
            State::Passing { last } if self.mode == Mode::Guard && is_complete => {
                let overdue = lists.overdue_after(&self.settings);
                if let Some(asked) = lists.oldest().filter(|asked| now >= *asked + overdue) {
                    let last = last.filter(|last| now < last.ended + SAME_FAULT);
                    let since = last.map_or(asked, |last| last.since);
                    lists.state = match now < since + self.settings.limit {
                        true => State::Guarding {
                            since,
                            begun: now,
                            next: now,
                        },
                        false => State::GivenUp { since },
                    };
                }
            }
            State::Guarding { .. } if is_given_up => self.pass_all(kind, None, now),
            State::Guarding { .. } | State::GivenUp { .. } if self.mode != Mode::Guard => {
                self.pass_all(kind, None, now);
            }
            State::Guarding { since, .. } if now >= since + self.settings.limit => {
                self.pass_all(kind, None, now);
                self.lists[kind as usize].state = State::GivenUp { since };
            }
            _ => {}
        }
        let knows_all = is_complete && !self.ids.missed_some(kind);
        let lists = &mut self.lists[kind as usize];
        if knows_all {
            lists.next_own = None;
        } else if lists.next_own.is_none_or(|next| now >= next) {
            lists.next_own = Some(now + PAUSE);
            self.ask_for_all(kind, now);
        }
        if let State::Guarding { next, .. } = self.lists[kind as usize].state
            && now >= next
        {
            self.ask_for_all(kind, now);
        }
    }

    /// Answers the waiting lists of which all rows are known now.
    pub(super) fn answer_lists(&mut self, kind: Kind, now: Instant) {
        let lists = &mut self.lists[kind as usize];
        if lists.guarding_since().is_none() || lists.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut lists.waiting);
        for mut it in waiting {
            let Some(list) = self.known_list(kind, &mut it, now) else {
                self.lists[kind as usize].waiting.push(it);
                continue;
            };
            self.note_told(kind, &it.called, now);
            self.reads.tell_all(kind);
            let reply = Reply::Message(list.into());
            self.reply(it.called.call, it.called.rpc, reply);
            let lists = &mut self.lists[kind as usize];
            if it.called.filter.is_whole() {
                lists.told.answered = Some(now);
            }
            if let Some(ask) = it.real.and_then(|real| lists.drop_if_dispensable(real)) {
                self.cancel(ask, now);
            }
        }
    }

    /// The list that a caller waits for, if all of it is known.
    fn known_list(&self, kind: Kind, it: &mut Waiting, now: Instant) -> Option<Vec<u8>> {
        // A caller that has waited since before the mode was switched may be answered, too.
        if !self.answers(it.called.from) {
            return None;
        }
        let since = it.called.asked.checked_sub(FRESH);
        let since = since.unwrap_or(it.called.asked);
        let filter = &*self.with_whole_ids(&it.called.filter);
        let rows = self.known_rows(kind, filter, &mut it.known_to, since, now)?;
        let in_state = |known: &&Known| it.called.filter.matches_state(&known.row);
        Some(self.rows(kind).write(rows.filter(in_state)))
    }
}
