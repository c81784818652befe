//! Reads of one id: passed on, shared by those who ask the same, and given up once they are
//! stuck.
//!
//! ```text
//!   called --nobody asks the same--> passed on ------------------> answered: to all who share it;
//!      |                                                           given up: asked again for those
//!      |                                                           who wait longer than the asker
//!      \---somebody asks the same, and nothing was told of the id since--> shared
//!      \---it is stuck--> waits for its end, then asks anew; after 5 s DeadlineExceeded, and
//!                         from then on at once, until the runtime answers it
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use base::id::Id;
use base::ledger::Key;
use bytes::Bytes;
use tokio::time::Instant;

use super::rows::Asked;
use super::usual::Usual;
use super::{Action, AskId, CallId, Caller, Failure, Guard, Outcome, Purpose, Reply, Settings};
use crate::wire::Kind;
use crate::wire::request::{of_id, verbose_of};
use crate::wire::row::{Row, row_of_status};
use crate::wire::status::Status;

/// How often overdue reads are checked.
const AGAIN: Duration = Duration::from_millis(500);

/// The reads that the runtime is asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    reads: BTreeMap<AskId, Read>,
    /// How long answered statuses of each kind take.
    usual: [Usual; 2],
}

#[derive(Clone, Debug)]
struct Read {
    kind: Kind,
    id: Id,
    request: Bytes,
    asked: Instant,
    /// Whose request it is, and until when that caller waits: the runtime was told.
    asker: Option<(CallId, Option<Instant>)>,
    /// Who gets the answer.
    callers: Vec<Reader>,
    /// Who asks anew when it has ended.
    behind: Vec<Reader>,
    /// We want the answer ourselves.
    is_ours: bool,
    /// Something newer may have been told of the id since it was asked.
    is_stale: bool,
}

/// A call for the status of one id.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) call: CallId,
    pub(super) from: Caller,
    pub(super) request: Bytes,
    /// When it stops waiting.
    pub(super) until: Option<Instant>,
}

impl Read {
    fn new(kind: Kind, id: Id, request: Bytes, now: Instant) -> Self {
        Self {
            kind,
            id,
            request,
            asked: now,
            asker: None,
            callers: Vec::new(),
            behind: Vec::new(),
            is_ours: false,
            is_stale: false,
        }
    }

    fn key(&self) -> Key {
        (self.kind.status(), Some(self.id.clone()))
    }

    /// Whether whoever waits `until` then may get this answer: it is not given up before that, or
    /// not before it is stuck.
    fn lasts(&self, until: Option<Instant>, stuck: Instant) -> bool {
        let Some((_, Some(given_up))) = self.asker else {
            return true;
        };
        given_up >= stuck || until.is_some_and(|until| until <= given_up)
    }

    fn is_wanted(&self) -> bool {
        self.is_ours || !self.callers.is_empty() || !self.behind.is_empty()
    }
}

impl Reads {
    /// The oldest outstanding read of an id.
    fn of(&self, kind: Kind, id: &Id) -> Option<AskId> {
        let mut reads = self.reads.iter();
        let found = reads.find(|(_, read)| read.kind == kind && read.id == *id);
        found.map(|(ask, _)| *ask)
    }

    /// The ids that are asked for.
    pub(super) fn ids(&self) -> impl Iterator<Item = &Id> {
        self.reads.values().map(|read| &read.id)
    }

    /// The reads that the guard wants itself.
    pub(super) fn ours(&self) -> impl Iterator<Item = Key> {
        let ours = self.reads.values().filter(|read| read.is_ours);
        ours.map(Read::key)
    }

    pub(super) fn is_outstanding(&self, kind: Kind, id: &Id) -> bool {
        self.of(kind, id).is_some()
    }

    /// Something was told of an id: reads that were asked before are not shared any more.
    pub(super) fn tell(&mut self, kind: Kind, id: &Id) {
        let reads = self.reads.values_mut();
        for read in reads.filter(|read| read.kind == kind && read.id == *id) {
            read.is_stale = true;
        }
    }

    /// The same for all ids: a list was told.
    pub(super) fn tell_all(&mut self, kind: Kind) {
        for read in self.reads.values_mut().filter(|read| read.kind == kind) {
            read.is_stale = true;
        }
    }

    /// The caller has gone: gives the read that nobody wants any more.
    pub(super) fn abandoned(&mut self, call: CallId) -> Option<AskId> {
        let waits = |reader: &Reader| reader.call == call;
        let (ask, read) = self
            .reads
            .iter_mut()
            .find(|(_, read)| read.callers.iter().any(waits) || read.behind.iter().any(waits))?;
        read.callers.retain(|reader| !waits(reader));
        read.behind.retain(|reader| !waits(reader));
        if read.is_wanted() {
            return None;
        }
        let ask = *ask;
        self.reads.remove(&ask);
        Some(ask)
    }

    pub(super) fn alarm(&self, settings: &Settings, now: Instant) -> Option<Instant> {
        let waiting = self.reads.values();
        let waiting = waiting.filter(|read| !read.callers.is_empty() || !read.behind.is_empty());
        // What is usual may change: then it is stuck a little later.
        let times = waiting.map(|read| (read.asked + settings.read_overdue).max(now + AGAIN));
        times.min()
    }
}

impl Guard {
    pub(super) fn on_read_called(&mut self, kind: Kind, id: Id, reader: Reader, now: Instant) {
        let call = reader.call;
        let may_be_shared = self.mode == super::Mode::Guard;
        let may_be_answered = self.answers(reader.from);
        let overdue = self.read_overdue_after(kind);
        let outstanding = self.reads.of(kind, &id).filter(|_| may_be_shared);
        if let Some(read) = outstanding.and_then(|ask| self.reads.reads.get_mut(&ask)) {
            let is_stuck = self.prober.is_stuck(&read.key(), now);
            let is_overdue = now >= read.asked + overdue;
            if is_stuck && is_overdue && may_be_answered {
                let reply = Reply::Failed(Failure::StatusOverdue);
                return self.reply(call, kind.status(), reply);
            }
            if is_stuck {
                read.behind.push(reader);
                return;
            }
            let stuck = now + overdue;
            let is_same = !read.is_stale && read.request == reader.request;
            if is_same && read.lasts(reader.until, stuck) {
                read.callers.push(reader);
                return;
            }
        }
        let ask = self.pass_on(Purpose::Read(kind, id.clone()), call, now);
        let read = Read {
            asker: Some((call, reader.until)),
            callers: vec![reader.clone()],
            ..Read::new(kind, id, reader.request, now)
        };
        self.reads.reads.insert(ask, read);
    }

    /// Asks for an id ourselves, unless somebody does. Only a verbose status tells in which sandbox
    /// a container is that no list has shown.
    pub(super) fn start_read(&mut self, kind: Kind, id: &Id, now: Instant) {
        if let Some(ask) = self.reads.of(kind, id) {
            if let Some(read) = self.reads.reads.get_mut(&ask) {
                read.is_ours = true;
            }
            return;
        }
        let request = match kind == Kind::Container && self.containers.get(id).is_none() {
            true => verbose_of(id),
            false => of_id(id),
        };
        let purpose = Purpose::Read(kind, id.clone());
        let ask = self.ask(purpose, kind.status(), request.clone(), now);
        let read = Read {
            is_ours: true,
            ..Read::new(kind, id.clone(), request, now)
        };
        self.reads.reads.insert(ask, read);
    }

    pub(super) fn on_read_answered(&mut self, ask: AskId, outcome: &Outcome, asked: Asked) {
        let Some(read) = self.reads.reads.remove(&ask) else {
            return;
        };
        let took = asked.1.saturating_duration_since(asked.0);
        if read.is_ours {
            self.prober.took(took);
        }
        if matches!(outcome, Outcome::Messages(_)) {
            self.reads.usual[read.kind as usize].learn(took);
        }
        self.learn_status(&read, outcome, asked);
        if !read.callers.is_empty() {
            self.reads.tell(read.kind, &read.id);
        }
        let mut again = read.behind;
        for reader in read.callers {
            // The asker's time is over, perhaps, and not that of the others.
            let is_anothers = read.asker.is_some_and(|(asker, _)| asker != reader.call);
            let waits_on = reader.until.is_none_or(|until| asked.1 < until);
            match matches!(outcome, Outcome::GivenUp) && is_anothers && waits_on {
                true => again.push(reader),
                false => self.actions.push(Action::Relay(ask, reader.call)),
            }
        }
        for reader in again {
            self.on_read_called(read.kind, read.id.clone(), reader, asked.1);
        }
    }

    /// Takes in what the runtime says of an id.
    fn learn_status(&mut self, read: &Read, outcome: &Outcome, asked: Asked) {
        let (kind, id) = (read.kind, &read.id);
        let status = match outcome {
            Outcome::Messages(messages) => match messages.as_slice() {
                [message] => Status::read(kind, message).ok(),
                _ => None,
            },
            Outcome::NotFound => return self.learn_absence(kind, id, asked),
            Outcome::Failed | Outcome::GivenUp => {
                return self.rows_mut(kind).failed(id, asked);
            }
            Outcome::Strange | Outcome::Lost => None,
        };
        let Some(status) = status else {
            return;
        };
        if status.id != *id {
            return self.learn_of_another(id, &status.id, asked.1);
        }
        if status.is_of_other_kind {
            if kind == Kind::Sandbox && self.containers.get(id).is_none() {
                self.ids.is_somewhere(id, asked.1);
            }
            if kind == Kind::Container {
                self.learn_absence(kind, id, asked);
            }
            return;
        }
        let known = self.rows(kind).get(id).map(|known| &known.row);
        let is_shown = known.is_some_and(|row| !row.is_made);
        let sandbox = match known {
            Some(row) => row.sandbox.clone(),
            None => status.sandbox.clone(),
        };
        let row = || row_of_status(kind, &status.bytes, sandbox.as_ref(), known);
        let row = (!is_shown).then(row);
        if is_shown {
            self.rows_mut(kind).tell(id, status.state, asked);
        } else if kind == Kind::Container && sandbox.is_none() {
            self.ids.is_somewhere(id, asked.1);
        } else if let Some(Ok(row)) = row {
            self.learn_row(kind, row, asked);
            self.prove_creations(asked.1);
        }
        self.prove_by_status(kind, id, Some(&status), asked);
    }

    /// The status of another id says nothing of this one, but that it may be the beginning of that.
    fn learn_of_another(&mut self, id: &Id, other: &Id, now: Instant) {
        if other.as_str().starts_with(id.as_str()) {
            self.ids.found(id);
            self.on_met(other, now);
        }
    }

    /// Takes in a row, unless it is of a time before the id was gone.
    pub(super) fn learn_row(&mut self, kind: Kind, row: Row, asked: Asked) {
        let id = row.id.clone();
        self.rows_mut(kind).learn(row, asked);
        if self.rows(kind).get(&id).is_some() {
            self.ids.found(&id);
        }
    }

    /// Takes in that the runtime has none of this kind with this id.
    fn learn_absence(&mut self, kind: Kind, id: &Id, asked: Asked) {
        self.rows_mut(kind).absent(id, asked);
        let overdue = self.read_overdue_after(kind);
        self.ids.is_not_of(kind, id, asked, overdue);
        match self.rows(kind).get(id) {
            Some(_) => self.prove_again_soon(kind, id, asked.1),
            None => self.prove_by_status(kind, id, None, asked),
        }
    }

    /// A status that is stuck is given up for its callers after this: not before a list is overdue.
    fn read_overdue_after(&self, kind: Kind) -> Duration {
        let list = self.lists[kind as usize].overdue_after(&self.settings);
        let usual = &self.reads.usual[kind as usize];
        usual.overdue_after(self.settings.read_overdue).max(list)
    }

    /// Gives up what is stuck for those whom we may answer.
    pub(super) fn pass_reads(&mut self, now: Instant) {
        let overdue = [Kind::Sandbox, Kind::Container].map(|kind| self.read_overdue_after(kind));
        let mut given_up = Vec::new();
        if !self.acts() {
            return;
        }
        for read in self.reads.reads.values_mut() {
            let has_readers = !read.callers.is_empty() || !read.behind.is_empty();
            if !has_readers || now < read.asked + overdue[read.kind as usize] {
                continue;
            }
            if self.prober.is_stuck(&read.key(), now) {
                let is_client = |reader: &mut Reader| reader.from == Caller::Client;
                let readers = read.callers.extract_if(.., is_client);
                let readers = readers.chain(read.behind.extract_if(.., is_client));
                given_up.extend(readers.map(|reader| (read.kind, reader.call)));
                // As long as it is outstanding, others are told at once.
                read.is_ours = true;
            }
        }
        for (kind, call) in given_up {
            let reply = Reply::Failed(Failure::StatusOverdue);
            self.reply(call, kind.status(), reply);
        }
    }
}
