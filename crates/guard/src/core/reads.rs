//! Reads of one id. They are passed on, shared by callers with an equal request, and ended with an error
//! once they are stuck.
//!
//! ```text
//!   called --no equal read is outstanding--> passed on --> answered: passed on to all that share it;
//!      |                                                   given up: requested again for the callers
//!      |                                                   with a later deadline than the first one
//!      \---an equal one is, and no newer state of the id was reported--> shared
//!      \---the outstanding one is stuck--> waits until it ends, then is passed on;
//!                                          after 5 s DeadlineExceeded, and from then on at once,
//!                                          until the runtime answers the read
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use base::id::Id;
use base::ledger::Key;
use bytes::Bytes;
use tokio::time::Instant;

use super::known::Interval;
use super::per_kind::PerKind;
use super::usual::Usual;
use super::{
    Action, CallId, Caller, Failure, Guard, Outcome, Purpose, Reply, RuntimeCallId, Settings,
};
use crate::wire::Kind;
use crate::wire::request::{of_id, verbose_of};

/// How often overdue reads are checked.
const CHECK_EVERY: Duration = Duration::from_millis(500);

/// The outstanding reads.
#[derive(Clone, Debug, Default)]
pub(super) struct Reads {
    reads: BTreeMap<RuntimeCallId, Read>,
    /// How long answered statuses of each kind take.
    usual: PerKind<Usual>,
}

#[derive(Clone, Debug)]
struct Read {
    kind: Kind,
    id: Id,
    request: Bytes,
    requested: Instant,
    /// The caller whose request was passed on, and its deadline, which the runtime knows.
    first_caller: Option<(CallId, Option<Instant>)>,
    /// The callers that receive the answer.
    callers: Vec<Reader>,
    /// The callers whose calls are passed on once this read has ended.
    queued: Vec<Reader>,
    /// Whether the guard itself needs the answer.
    is_ours: bool,
    /// Whether a newer state of the id may have been reported since this was requested.
    is_stale: bool,
}

/// A call for the status of one id.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    pub(super) call: CallId,
    pub(super) from: Caller,
    pub(super) request: Bytes,
    /// The deadline of the caller, if it has one.
    pub(super) until: Option<Instant>,
}

impl Read {
    fn new(kind: Kind, id: Id, request: Bytes, now: Instant) -> Self {
        Self {
            kind,
            id,
            request,
            requested: now,
            first_caller: None,
            callers: Vec::new(),
            queued: Vec::new(),
            is_ours: false,
            is_stale: false,
        }
    }

    fn key(&self) -> Key {
        (self.kind.status(), Some(self.id.clone()))
    }

    /// Whether a caller with the deadline `until` may share this read: the read does not end before that
    /// deadline, or not before it counts as stuck.
    fn may_be_shared_until(&self, until: Option<Instant>, stuck: Instant) -> bool {
        let Some((_, Some(given_up))) = self.first_caller else {
            return true;
        };
        given_up >= stuck || until.is_some_and(|until| until <= given_up)
    }

    fn is_wanted(&self) -> bool {
        self.is_ours || !self.callers.is_empty() || !self.queued.is_empty()
    }
}

impl Reads {
    /// The oldest outstanding read of an id.
    fn of(&self, kind: Kind, id: &Id) -> Option<RuntimeCallId> {
        let mut reads = self.reads.iter();
        let found = reads.find(|(_, read)| read.kind == kind && read.id == *id);
        found.map(|(runtime_call, _)| *runtime_call)
    }

    /// The ids whose status is outstanding.
    pub(super) fn ids(&self) -> impl Iterator<Item = &Id> {
        self.reads.values().map(|read| &read.id)
    }

    /// The keys of the reads that the guard itself needs.
    pub(super) fn ours(&self) -> impl Iterator<Item = Key> {
        let ours = self.reads.values().filter(|read| read.is_ours);
        ours.map(Read::key)
    }

    pub(super) fn is_outstanding(&self, kind: Kind, id: &Id) -> bool {
        self.of(kind, id).is_some()
    }

    /// A newer state of an id was reported: reads that were requested before are not shared any more.
    pub(super) fn invalidate(&mut self, kind: Kind, id: &Id) {
        let reads = self.reads.values_mut();
        for read in reads.filter(|read| read.kind == kind && read.id == *id) {
            read.is_stale = true;
        }
    }

    /// A list was reported: no read that was requested before is shared any more.
    pub(super) fn invalidate_all(&mut self, kind: Kind) {
        for read in self.reads.values_mut().filter(|read| read.kind == kind) {
            read.is_stale = true;
        }
    }

    /// The caller has cancelled its call. Returns the read to cancel, if it is not needed any more.
    pub(super) fn abandoned(&mut self, call: CallId) -> Option<RuntimeCallId> {
        let waits = |reader: &Reader| reader.call == call;
        let (runtime_call, read) = self
            .reads
            .iter_mut()
            .find(|(_, read)| read.callers.iter().any(waits) || read.queued.iter().any(waits))?;
        read.callers.retain(|reader| !waits(reader));
        read.queued.retain(|reader| !waits(reader));
        if read.is_wanted() {
            return None;
        }
        let runtime_call = *runtime_call;
        self.reads.remove(&runtime_call);
        Some(runtime_call)
    }

    pub(super) fn alarm(&self, settings: &Settings, now: Instant) -> Option<Instant> {
        let waiting = self.reads.values();
        let waiting = waiting.filter(|read| !read.callers.is_empty() || !read.queued.is_empty());
        // The usual duration may change: then the read counts as overdue a little later.
        let times =
            waiting.map(|read| (read.requested + settings.read_overdue).max(now + CHECK_EVERY));
        times.min()
    }
}

impl Guard {
    pub(super) fn on_read_called(&mut self, kind: Kind, id: Id, reader: Reader, now: Instant) {
        let call = reader.call;
        let may_be_shared = self.mode == super::Mode::Guard;
        let may_be_answered = self.may_answer(reader.from);
        let overdue = self.read_overdue_after(kind);
        let outstanding = self.reads.of(kind, &id).filter(|_| may_be_shared);
        if let Some(read) =
            outstanding.and_then(|runtime_call| self.reads.reads.get_mut(&runtime_call))
        {
            let is_stuck = self.prober.is_stuck(&read.key(), now);
            let is_overdue = now >= read.requested + overdue;
            if is_stuck && is_overdue && may_be_answered {
                let reply = Reply::Failed(Failure::StatusOverdue);
                return self.reply(call, kind.status(), reply);
            }
            if is_stuck {
                read.queued.push(reader);
                return;
            }
            let stuck = now + overdue;
            let is_same = !read.is_stale && read.request == reader.request;
            if is_same && read.may_be_shared_until(reader.until, stuck) {
                read.callers.push(reader);
                return;
            }
        }
        let runtime_call = self.pass_on(Purpose::Read(kind, id.clone()), call, now);
        let read = Read {
            first_caller: Some((call, reader.until)),
            callers: vec![reader.clone()],
            ..Read::new(kind, id, reader.request, now)
        };
        self.reads.reads.insert(runtime_call, read);
    }

    /// Requests the status of an id, unless it is outstanding. The request is verbose for a container that no
    /// list has shown, because only a verbose status has its sandbox.
    pub(super) fn start_read(&mut self, kind: Kind, id: &Id, now: Instant) {
        if let Some(runtime_call) = self.reads.of(kind, id) {
            if let Some(read) = self.reads.reads.get_mut(&runtime_call) {
                read.is_ours = true;
            }
            return;
        }
        let request = match kind == Kind::Container && self.rows.containers.get(id).is_none() {
            true => verbose_of(id),
            false => of_id(id),
        };
        let purpose = Purpose::Read(kind, id.clone());
        let runtime_call = self.call_runtime(purpose, kind.status(), request.clone(), now);
        let read = Read {
            is_ours: true,
            ..Read::new(kind, id.clone(), request, now)
        };
        self.reads.reads.insert(runtime_call, read);
    }

    pub(super) fn on_read_answered(
        &mut self,
        runtime_call: RuntimeCallId,
        outcome: &Outcome,
        interval: Interval,
    ) {
        let Some(read) = self.reads.reads.remove(&runtime_call) else {
            return;
        };
        let took = interval.1.saturating_duration_since(interval.0);
        if read.is_ours {
            self.prober.note_duration(took);
        }
        if matches!(outcome, Outcome::Messages(_)) {
            self.reads.usual[read.kind].learn(took);
        }
        self.learn_status(read.kind, &read.id, outcome, interval);
        if !read.callers.is_empty() {
            self.reads.invalidate(read.kind, &read.id);
        }
        let mut again = read.queued;
        for reader in read.callers {
            // The read may have ended at the deadline of the first caller, before those of the others.
            let is_other_caller = read
                .first_caller
                .is_some_and(|(first_caller, _)| first_caller != reader.call);
            let waits_on = reader.until.is_none_or(|until| interval.1 < until);
            match matches!(outcome, Outcome::GivenUp) && is_other_caller && waits_on {
                true => again.push(reader),
                false => self.actions.push(Action::Relay(runtime_call, reader.call)),
            }
        }
        for reader in again {
            self.on_read_called(read.kind, read.id.clone(), reader, interval.1);
        }
    }

    /// How long after its request a stuck status is ended with an error: not before a list is overdue.
    pub(super) fn read_overdue_after(&self, kind: Kind) -> Duration {
        let list = self.lists[kind].overdue_after(&self.settings);
        let usual = &self.reads.usual[kind];
        usual.overdue_after(self.settings.read_overdue).max(list)
    }

    /// Ends stuck reads with an error, for the callers that the guard may answer.
    pub(super) fn advance_reads(&mut self, now: Instant) {
        let overdue = PerKind::new(|kind| self.read_overdue_after(kind));
        let mut given_up = Vec::new();
        if !self.is_active() {
            return;
        }
        for read in self.reads.reads.values_mut() {
            let has_readers = !read.callers.is_empty() || !read.queued.is_empty();
            if !has_readers || now < read.requested + overdue[read.kind] {
                continue;
            }
            if self.prober.is_stuck(&read.key(), now) {
                let is_client = |reader: &mut Reader| reader.from == Caller::Client;
                let readers = read.callers.extract_if(.., is_client);
                let readers = readers.chain(read.queued.extract_if(.., is_client));
                given_up.extend(readers.map(|reader| (read.kind, reader.call)));
                // The read stays outstanding, so that later callers get the error at once.
                read.is_ours = true;
            }
        }
        for (kind, call) in given_up {
            let reply = Reply::Failed(Failure::StatusOverdue);
            self.reply(call, kind.status(), reply);
        }
    }
}
