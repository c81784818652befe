//! Lists: passed on, and answered from the rows while the real one is overdue.
//!
//! ```text
//!   Passing --a list is not answered for 2 s--> Guarding --a complete list comes in time--> Passing
//!                                                  \--guarded for too long--> GivenUp, until one does
//! ```
//!
//! While guarding one complete list is outstanding: its answer replaces the rows. A fault that lets
//! a list through now and then is one fault: its limit is not begun anew.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::Rpc;
use pleg::model::id::Id;
use tokio::time::Instant;

use super::rows::{Asked, Known};
use super::{
    Action, AskId, CallId, Caller, Failure, Guard, Mode, Outcome, Purpose, Reply, Settings,
};
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

/// A caller is answered so long before it stops waiting.
const BEFORE_DEADLINE: Duration = Duration::from_millis(500);

/// The lists of one kind.
#[derive(Debug)]
pub(super) struct Lists {
    state: State,
    /// The lists that the runtime is asked for.
    real: BTreeMap<AskId, Real>,
    waiting: Vec<Waiting>,
    pub(super) told: Told,
    /// When we may next ask for all by ourselves, to know what there is.
    next_own: Option<Instant>,
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
    /// When one was last refused, because it could not be answered.
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
#[derive(Debug)]
struct Real {
    asked: Instant,
    filter: Filter,
}

/// Somebody asks for a list.
#[derive(Debug)]
pub(super) struct Called {
    pub(super) call: CallId,
    pub(super) rpc: Rpc,
    pub(super) filter: Filter,
    pub(super) asked: Instant,
    pub(super) until: Option<Instant>,
    pub(super) from: Caller,
}

#[derive(Debug)]
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

    /// The caller has gone: gives the list that nobody wants any more.
    pub(super) fn abandoned(&mut self, call: CallId) -> Option<AskId> {
        let place = self.waiting.iter().position(|it| it.called.call == call)?;
        let ask = self.waiting.remove(place).real?;
        self.drop_if_dispensable(ask)
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

    fn asks_for_all(&self) -> bool {
        self.real.values().any(|real| real.filter.is_whole())
    }

    /// How long the oldest outstanding list has not been answered.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.real.values().map(|real| real.asked).min()
    }

    /// Whether every id is to be asked for by itself now.
    pub(super) fn wants_probes(&self, settings: &Settings, now: Instant) -> bool {
        match self.state {
            State::Passing { .. } => {
                let half = settings.list_overdue / 2;
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
        let steps = [settings.list_overdue / 2, settings.list_overdue];
        let steps = steps.into_iter().filter_map(|step| Some(oldest? + step));
        let guarding = match self.state {
            State::Guarding { since, next, .. } => [Some(since + settings.limit), Some(next)],
            _ => [None, None],
        };
        let waiting = self.waiting.iter();
        let waiting = waiting.filter_map(|it| self.gives_up(it, settings));
        // Whether all is known now may change by time alone.
        let looks = (guards && !self.waiting.is_empty()).then(|| now + LOOK);
        let steps = steps.chain(guarding.into_iter().flatten()).chain(waiting);
        let steps = steps.chain(looks).chain(self.next_own);
        steps.filter(|time| *time > now).min()
    }

    /// When a list is given up that cannot be answered.
    fn gives_up(&self, waiting: &Waiting, settings: &Settings) -> Option<Instant> {
        let Called { asked, until, .. } = waiting.called;
        match self.state {
            State::Passing { .. } => Some(asked + settings.list_patience),
            State::Guarding { begun, .. } => {
                let patience = asked.max(begun) + settings.list_patience;
                let until = until.and_then(|until| until.checked_sub(BEFORE_DEADLINE));
                Some(until.map_or(patience, |until| until.min(patience)))
            }
            State::GivenUp { .. } => None,
        }
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
        if may_be_answered && lists.guarding_since().is_some() {
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
        if !self.lists[kind as usize].asks_for_all() {
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
        let in_time = learnt && asked.1 < asked.0 + self.settings.list_overdue;
        let lists = &mut self.lists[kind as usize];
        match &mut lists.state {
            State::Guarding { since, .. } if matches!(outcome, Outcome::Lost) => {
                let (since, ended) = (*since, asked.1);
                self.pass_all(kind, Some(Fault { since, ended }), asked.1);
            }
            _ if !real.filter.is_whole() => {}
            State::Guarding { since, .. } | State::GivenUp { since } if in_time => {
                let (since, ended) = (*since, asked.1);
                self.pass_all(kind, Some(Fault { since, ended }), asked.1);
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
            self.rows_mut(kind).complete(rows, asked);
            self.ids.saw_all(kind, asked.0);
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
        }
        let rows = match kind {
            Kind::Sandbox => &self.sandboxes,
            Kind::Container => &self.containers,
        };
        self.ids.found_in(rows);
        self.prove_creations(asked.1);
        true
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
        let lists = &mut self.lists[kind as usize];
        match lists.state {
            State::Passing { last } if self.mode == Mode::Guard && is_complete => {
                let overdue = self.settings.list_overdue;
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

    /// Answers the lists that wait, as far as all that they ask for is known now, and gives up
    /// those that wait for too long.
    pub(super) fn answer_lists(&mut self, kind: Kind, now: Instant) {
        let knows_none = self.rows(kind).complete_since().is_none();
        let lists = &mut self.lists[kind as usize];
        let decides = match lists.state {
            State::Guarding { .. } => true,
            // Nobody knows what there is: there is nothing to guard with.
            State::Passing { .. } => knows_none && self.mode == Mode::Guard,
            State::GivenUp { .. } => false,
        };
        if !decides || lists.waiting.is_empty() {
            return;
        }
        let waiting = std::mem::take(&mut lists.waiting);
        for mut it in waiting {
            let since = it.called.asked.checked_sub(FRESH);
            let since = since.unwrap_or(it.called.asked);
            // A caller that waits since before a switch of the mode may be, too.
            let may_be_answered = self.answers(it.called.from);
            let filter = &*self.with_whole_ids(&it.called.filter);
            let rows = match may_be_answered {
                true => self.known_rows(kind, filter, &mut it.known_to, since, now),
                false => None,
            };
            let list = rows.map(|known| {
                let state = |known: &&Known| it.called.filter.matches_state(&known.row);
                self.rows(kind).write(known.filter(state))
            });
            let reply = match list {
                Some(list) => Some(Reply::Message(list.into())),
                None if may_be_answered && self.is_to_be_given_up(kind, &it, now) => {
                    Some(Reply::Failed(Failure::ListOverdue))
                }
                None => None,
            };
            let Some(reply) = reply else {
                self.lists[kind as usize].waiting.push(it);
                continue;
            };
            match reply {
                Reply::Message(_) => {
                    if it.called.filter.is_whole() {
                        self.lists[kind as usize].told.answered = Some(now);
                    }
                    self.note_told(kind, &it.called, now);
                }
                Reply::Failed(_) if it.called.filter.is_whole() => {
                    self.lists[kind as usize].told.refused = Some(now);
                }
                Reply::Failed(_) => {}
            }
            self.reads.tell_all(kind);
            self.reply(it.called.call, it.called.rpc, reply);
            let lists = &mut self.lists[kind as usize];
            if let Some(ask) = it.real.and_then(|real| lists.drop_if_dispensable(real)) {
                self.cancel(ask, now);
            }
        }
    }

    fn is_to_be_given_up(&self, kind: Kind, waiting: &Waiting, now: Instant) -> bool {
        let until = self.lists[kind as usize].gives_up(waiting, &self.settings);
        until.is_some_and(|until| now >= until)
    }
}
