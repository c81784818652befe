//! Asking for each id, and finding ids that nobody told us of.
//!
//! ```text
//!   rows --those that were not confirmed lately--> queue --as far as the governor admits--> reads
//!   host, stream --unknown ids--> a container's? --not found--> a sandbox's? --not found--> neither
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use pleg::Config;
use pleg::engine::{Governor, Key};
use pleg::model::id::Id;
use pleg::runtime::About;
use tokio::time::Instant;

use super::rows::{Asked, Rows};
use super::{Action, Guard, Mode, Outcome};
use crate::wire::Kind;

/// What was confirmed no longer ago is not asked for again.
const REFRESH: Duration = Duration::from_millis(600);

/// At most a thousand calls a second, or as many more as make a round of this.
const PACE: Duration = Duration::from_millis(1);
const ROUND: Duration = Duration::from_secs(2);

/// So much of that may be made up for.
const BURST: Duration = Duration::from_millis(10);

/// How often the host is asked for ids.
const HOST: Duration = Duration::from_secs(1);

/// What the host told so long ago is not all.
const LATELY: Duration = Duration::from_secs(2);

/// One of which it is still not known what it is, is asked for again after this.
const AGAIN: Duration = Duration::from_millis(500);

/// How many ids of which nobody knows what they are may be in question at once.
const MOST_UNKNOWN: usize = 1024;

#[derive(Debug)]
pub(super) struct Prober {
    pub(super) governor: Governor,
    queues: [Queue; 2],
    /// When the next call may be made.
    next: Instant,
    /// Ids of which nobody knows what they are, or in which sandbox.
    unknown: BTreeMap<Id, Unknown>,
    /// How many of them are containers, of which there are no more than the runtime has.
    unplaced: usize,
    host: Host,
}

/// The ids of one kind that are to be asked for.
#[derive(Debug, Default)]
struct Queue {
    ids: VecDeque<Id>,
    begun: Option<Instant>,
    /// Since when there may be some that nobody has told us of.
    missed: Option<Instant>,
}

/// An id that is neither a container's nor a sandbox's, as far as we know.
#[derive(Clone, Copy, Debug)]
struct Unknown {
    /// What it is asked for as.
    kind: Kind,
    /// When the runtime first told its status as a container's.
    container_since: Option<Instant>,
    /// When it was asked for as a container, and the runtime had none.
    no_container: Option<Instant>,
    /// The runtime has said that it is neither, when it was asked then. It may become one: folders
    /// come first.
    neither: Option<Instant>,
    /// When it is asked for.
    next: Instant,
}

impl Unknown {
    /// Whether it is known that there is nothing behind it, which holds for a while only.
    fn is_neither(&self, now: Instant) -> bool {
        self.neither.is_some_and(|asked| now < asked + LATELY)
    }

    /// Whether it may be a sandbox that was there at this time.
    fn may_be_sandbox_of(&self, time: Instant) -> bool {
        let is_none = self.neither.is_some_and(|asked| asked >= time);
        self.container_since.is_none() && !is_none
    }
}

/// What the host was asked.
#[derive(Debug)]
struct Host {
    asking: Option<Instant>,
    next: Instant,
    is_wanted: bool,
    knows: HostKnows,
}

/// What the host knows of the runtime's ids.
#[derive(Clone, Copy, Debug)]
enum HostKnows {
    /// It was not asked yet.
    NotAsked,
    /// It told all that there were at this time.
    All(Instant),
    /// It told more than can be asked for at once.
    More,
    /// It cannot tell.
    Nothing,
}

impl Prober {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            governor: Governor::new(&Config::default(), now),
            queues: Default::default(),
            next: now,
            unknown: BTreeMap::new(),
            unplaced: 0,
            host: Host {
                asking: None,
                next: now,
                is_wanted: false,
                knows: HostKnows::NotAsked,
            },
        }
    }

    /// A call is made; says whether it is the one by which the governor knows its key.
    pub(super) fn begin(&mut self, key: &Key, now: Instant) -> bool {
        if self.governor.is_outstanding(key) {
            return false;
        }
        let (call, id) = key.clone();
        let about = About {
            id,
            ..About::node(call)
        };
        self.governor.begin(about, now);
        true
    }

    pub(super) fn ended(&mut self, key: &Key, outcome: &Outcome, now: Instant) {
        match outcome {
            Outcome::Lost => self.governor.lost(key),
            Outcome::NotFound | Outcome::Failed | Outcome::Strange => {
                self.governor.failed(key, now)
            }
            Outcome::Messages(_) => self.governor.answered(key, now),
        };
    }

    /// There may be some of this kind that nobody told us of.
    pub(super) fn may_have_missed(&mut self, kind: Kind, now: Instant) {
        self.queues[kind as usize].missed = Some(now);
    }

    /// Whether there may be some of this kind that nobody told us of.
    pub(super) fn missed_some(&self, kind: Kind) -> bool {
        self.queues[kind as usize].missed.is_some()
    }

    /// A complete list was asked for at this time, and came.
    pub(super) fn saw_all(&mut self, kind: Kind, asked: Instant) {
        let missed = &mut self.queues[kind as usize].missed;
        missed.take_if(|missed| asked >= *missed);
    }

    /// Whether all are known. What others have made is known within seconds, unless nobody can tell.
    pub(super) fn sees_all(&self, kind: Kind, now: Instant) -> bool {
        let mut unknown = self.unknown.values();
        let none_is_open = unknown.all(|id| id.is_neither(now));
        match (self.queues[kind as usize].missed, self.host.knows) {
            (None, HostKnows::Nothing) => none_is_open,
            (None, HostKnows::All(told)) => now < told + LATELY && none_is_open,
            (Some(missed), HostKnows::All(told)) => told >= missed && none_is_open,
            (_, HostKnows::NotAsked | HostKnows::More) | (Some(_), HostKnows::Nothing) => false,
        }
    }

    /// This is a container's, of which it is not known yet in which sandbox it is. Says whether
    /// that may be one that nobody has told of: what was told before says nothing of it.
    pub(super) fn may_be_in_unknown(&mut self, id: &Id, now: Instant) -> bool {
        self.ask_what_it_is(id.clone(), now);
        let since = self.unknown.get_mut(id).map_or(now, |unknown| {
            unknown.neither = None;
            self.unplaced += usize::from(unknown.container_since.is_none());
            *unknown.container_since.get_or_insert(now)
        });
        let mut others = self.unknown.iter().filter(|(other, _)| *other != id);
        if others.any(|(_, it)| it.may_be_sandbox_of(since)) {
            return true;
        }
        match (self.queues[Kind::Sandbox as usize].missed, self.host.knows) {
            (_, HostKnows::All(told)) => {
                self.ask_host_soon();
                told < since
            }
            (missed, HostKnows::Nothing) => missed.is_some(),
            (_, HostKnows::NotAsked | HostKnows::More) => {
                self.ask_host_soon();
                true
            }
        }
    }

    /// It is asked what this id is. Whatever the answer is, it is not asked again at once.
    fn asks_for(&mut self, id: &Id, now: Instant) {
        let unplaced = u32::try_from(self.unplaced).unwrap_or(u32::MAX);
        if let Some(unknown) = self.unknown.get_mut(id) {
            // Of a container only an answer about its sandbox tells more.
            unknown.next = now
                + match unknown.container_since {
                    Some(_) => AGAIN.max(PACE.saturating_mul(unplaced)),
                    None => AGAIN,
                };
        }
    }

    /// It is known now what this id is.
    pub(super) fn found(&mut self, id: &Id) {
        let found = self.unknown.remove(id);
        let was_unplaced = found.is_some_and(|unknown| unknown.container_since.is_some());
        self.unplaced -= usize::from(was_unplaced);
    }

    /// No container or no sandbox has this id.
    pub(super) fn is_not_of(&mut self, kind: Kind, id: &Id, (asked, answered): Asked) {
        let Some(unknown) = self.unknown.get_mut(id).filter(|it| it.kind == kind) else {
            return;
        };
        match kind {
            Kind::Container => {
                unknown.kind = Kind::Sandbox;
                unknown.no_container = Some(asked);
                unknown.next = answered;
            }
            Kind::Sandbox => {
                unknown.kind = Kind::Container;
                // A client may have asked before.
                let no_container = unknown.no_container.take();
                unknown.neither = no_container.map(|no_container| no_container.min(asked));
                // What was announced came before, and is gone.
                if matches!(self.host.knows, HostKnows::Nothing) {
                    self.found(id);
                }
            }
        }
    }

    pub(super) fn ask_host_soon(&mut self) {
        self.host.is_wanted = true;
    }

    pub(super) fn on_host_ids(&mut self, ids: Option<Vec<Id>>, rows: [&Rows; 2], now: Instant) {
        let (Some(asked), Some(ids)) = (self.host.asking.take(), ids) else {
            self.host.knows = HostKnows::Nothing;
            return;
        };
        self.host.knows = HostKnows::All(asked);
        let ids: BTreeSet<Id> = ids.into_iter().collect();
        let is_gone =
            |(id, unknown): &(&Id, &Unknown)| unknown.neither.is_some() && !ids.contains(*id);
        let gone = self.unknown.iter().filter(is_gone);
        for id in gone.map(|(id, _)| id.clone()).collect::<Vec<_>>() {
            self.found(&id);
        }
        for id in ids {
            // What the runtime lacked, and the host still has, may be there after all.
            let is_known = |rows: &&Rows| rows.get(&id).is_some() || rows.is_removed(&id);
            if !rows.iter().any(is_known) && !self.ask_what_it_is(id, now) {
                self.host.knows = HostKnows::More;
            }
        }
    }

    /// Somebody spoke of this id.
    pub(super) fn on_met(&mut self, id: Id, rows: [&Rows; 2], now: Instant) {
        let is_known = |rows: &&Rows| rows.get(&id).is_some() || rows.is_gone(&id);
        if !rows.iter().any(is_known) && !self.ask_what_it_is(id, now) {
            for kind in [Kind::Sandbox, Kind::Container] {
                self.may_have_missed(kind, now);
            }
        }
    }

    /// Says whether there is room for it. What there is none for is found by a list, or by the host.
    fn ask_what_it_is(&mut self, id: Id, now: Instant) -> bool {
        let open = self.unknown.len() - self.unplaced;
        let has_room = open < MOST_UNKNOWN || self.unknown.contains_key(&id);
        if has_room {
            self.unknown.entry(id).or_insert(Unknown {
                kind: Kind::Container,
                container_since: None,
                no_container: None,
                neither: None,
                next: now,
            });
        }
        has_room
    }

    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waits = self.queues.iter().any(|queue| !queue.ids.is_empty());
        let refresh = self.queues.iter().filter_map(|queue| queue.begun);
        let next = (waits && self.governor.has_room()).then_some(self.next);
        let host = (self.host.is_wanted && self.host.asking.is_none()).then_some(self.host.next);
        let has_room = self.governor.has_room();
        let unknown = self.unknown.values();
        let unknown = unknown.filter(|it| has_room && it.neither.is_none());
        refresh
            .map(|begun| begun + REFRESH)
            .chain(next)
            .chain(host)
            .chain(unknown.map(|it| it.next))
            .chain(self.governor.alarm(now))
            .filter(|time| *time > now)
            .min()
    }
}

impl Guard {
    /// Asks for what is not confirmed, while lists need it.
    pub(super) fn probe(&mut self, now: Instant) {
        let mut is_probing = false;
        for kind in [Kind::Sandbox, Kind::Container] {
            let wants = match self.mode {
                Mode::Guard => self.lists[kind as usize].wants_probes(&self.settings, now),
                Mode::Shadow => self.shadows[kind as usize].is_rehearsing(),
                Mode::Pass => false,
            };
            let wants = wants && self.rows(kind).complete_since().is_some();
            is_probing |= wants;
            self.refill(kind, wants, now);
        }
        let missed = self
            .prober
            .queues
            .iter()
            .any(|queue| queue.missed.is_some());
        let is_wanted = std::mem::take(&mut self.prober.host.is_wanted);
        let host = &mut self.prober.host;
        host.is_wanted = is_wanted || is_probing || missed;
        if host.is_wanted && host.asking.is_none() && now >= host.next {
            host.asking = Some(now);
            host.next = now + HOST;
            host.is_wanted = false;
            self.actions.push(Action::AskHost);
        }
        // What is neither may have become one, which matters while lists need it.
        let is_due = |unknown: &Unknown| {
            now >= unknown.next && (unknown.neither.is_none() || is_probing || missed)
        };
        let due = self.prober.unknown.iter().filter(|(_, it)| is_due(it));
        let due: Vec<(Id, Kind)> = due.map(|(id, it)| (id.clone(), it.kind)).collect();
        for (id, kind) in due {
            if self.prober.governor.has_room() && !self.reads.is_outstanding(kind, &id) {
                self.prober.asks_for(&id, now);
                self.start_read(kind, &id, now);
            }
        }
        while now >= self.prober.next && self.prober.governor.has_room() {
            let Some((kind, id)) = self.prober.pop() else {
                break;
            };
            if !self.reads.is_outstanding(kind, &id) {
                let known = self.sandboxes.len() + self.containers.len();
                // A timer is no finer than a millisecond: what was not asked in time may be now.
                let earliest = now.checked_sub(BURST).unwrap_or(now);
                let pace = PACE.min(ROUND / known.max(1) as u32);
                self.prober.next = self.prober.next.max(earliest) + pace;
                self.start_read(kind, &id, now);
            }
        }
    }

    /// A new round over the ids of a kind, once the last one is over and a while ago.
    fn refill(&mut self, kind: Kind, wants: bool, now: Instant) {
        let queue = &mut self.prober.queues[kind as usize];
        if !wants {
            queue.ids.clear();
            queue.begun = None;
            return;
        }
        if !queue.ids.is_empty() || queue.begun.is_some_and(|begun| now < begun + REFRESH) {
            return;
        }
        let rows = match kind {
            Kind::Sandbox => &self.sandboxes,
            Kind::Container => &self.containers,
        };
        let old = rows
            .iter()
            .filter(|(_, known)| known.age(now) >= REFRESH / 2);
        queue.ids = old.map(|(id, _)| id.clone()).collect();
        queue.begun = Some(now);
    }
}

impl Prober {
    /// The next of the round that began first, so that neither kind waits for ever.
    fn pop(&mut self) -> Option<(Kind, Id)> {
        let kinds = [Kind::Sandbox, Kind::Container].into_iter();
        let waiting = kinds.filter(|kind| !self.queues[*kind as usize].ids.is_empty());
        let first = waiting.min_by_key(|kind| self.queues[*kind as usize].begun)?;
        let id = self.queues[first as usize].ids.pop_front()?;
        Some((first, id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_knows_of_more_ids_than_can_be_in_question_has_not_told_all() {
        let now = Instant::now();
        let rows = [Rows::new(Kind::Sandbox), Rows::new(Kind::Container)];
        let told = |count: usize| {
            let mut prober = Prober::new(now);
            prober.host.asking = Some(now);
            let ids = (0..count).map(|id| Id::from(id.to_string())).collect();
            prober.on_host_ids(Some(ids), [&rows[0], &rows[1]], now);
            // Those that there was room for turn out to be known.
            for id in 0..MOST_UNKNOWN {
                prober.found(&Id::from(id.to_string()));
            }
            prober.sees_all(Kind::Container, now)
        };
        assert!(told(10));
        assert!(!told(2 * MOST_UNKNOWN));
    }
}
