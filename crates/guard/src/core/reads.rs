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
    Action, Call, CallId, Caller, Failure, Guard, Mode, Outcome, Purpose, Reply, RuntimeCallId,
    Settings,
};
use crate::wire::Kind;
use crate::wire::request::status_of;

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
    /// The calls whose callers receive the answer.
    shared_by: Vec<Call>,
    /// The calls that are passed on once this read has ended.
    queued: Vec<Call>,
    /// Whether the guard itself needs the answer.
    is_ours: bool,
    /// Whether a newer state of the id may have been reported since this read was requested.
    is_stale: bool,
}

impl Read {
    fn new(kind: Kind, id: Id, request: Bytes, now: Instant) -> Self {
        Self {
            kind,
            id,
            request,
            requested: now,
            first_caller: None,
            shared_by: Vec::new(),
            queued: Vec::new(),
            is_ours: false,
            is_stale: false,
        }
    }

    fn is_for(&self, kind: Kind, id: &Id) -> bool {
        self.kind == kind && self.id == *id
    }

    fn key(&self) -> Key {
        (self.kind.status(), Some(self.id.clone()))
    }

    /// Whether a call with this deadline may share this read: the runtime does not give the read up before
    /// that deadline, or not before the time `stuck`, at which it would count as stuck.
    fn may_be_shared_until(&self, deadline: Option<Instant>, stuck: Instant) -> bool {
        let Some((_, Some(given_up))) = self.first_caller else {
            return true;
        };
        given_up >= stuck || deadline.is_some_and(|deadline| deadline <= given_up)
    }

    fn has_callers(&self) -> bool {
        !self.shared_by.is_empty() || !self.queued.is_empty()
    }
}

impl Reads {
    /// The oldest outstanding read of an id.
    fn get_mut(&mut self, kind: Kind, id: &Id) -> Option<&mut Read> {
        self.reads.values_mut().find(|read| read.is_for(kind, id))
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
        self.reads.values().any(|read| read.is_for(kind, id))
    }

    /// Records that a newer state of an id was reported: reads that were requested before are not shared
    /// any more.
    pub(super) fn invalidate(&mut self, kind: Kind, id: &Id) {
        let reads = self.reads.values_mut();
        for read in reads.filter(|read| read.is_for(kind, id)) {
            read.is_stale = true;
        }
    }

    /// Records that a list was reported: reads of this kind that were requested before are not shared any
    /// more.
    pub(super) fn invalidate_all(&mut self, kind: Kind) {
        for read in self.reads.values_mut().filter(|read| read.kind == kind) {
            read.is_stale = true;
        }
    }

    /// Removes a call that its caller has cancelled. Returns the read to cancel, if it is not needed any
    /// more.
    pub(super) fn abandoned(&mut self, call: CallId) -> Option<RuntimeCallId> {
        let is_it = |waiting: &mut Call| waiting.id == call;
        let mut reads = self.reads.iter_mut();
        let (runtime_call, is_needed) = reads.find_map(|(runtime_call, read)| {
            let shared = read.shared_by.extract_if(.., is_it).count();
            let queued = read.queued.extract_if(.., is_it).count();
            let is_needed = read.is_ours || read.has_callers();
            (shared + queued > 0).then_some((*runtime_call, is_needed))
        })?;
        (!is_needed).then(|| {
            self.reads.remove(&runtime_call);
            runtime_call
        })
    }

    pub(super) fn alarm(&self, settings: &Settings, now: Instant) -> Option<Instant> {
        let waiting = self.reads.values().filter(|read| read.has_callers());
        let overdue = waiting.map(|read| read.requested + settings.read_overdue);
        // The usual duration may change: then the read counts as overdue a little later.
        Some(overdue.min()?.max(now + CHECK_EVERY))
    }
}

impl Guard {
    pub(super) fn on_read_called(&mut self, kind: Kind, id: Id, call: Call, now: Instant) {
        let may_be_shared = self.mode == Mode::Guard;
        let may_be_answered = self.may_answer(call.from);
        let overdue = self.read_overdue_after(kind);
        let outstanding = self.reads.get_mut(kind, &id).filter(|_| may_be_shared);
        if let Some(read) = outstanding {
            if self.prober.is_stuck(&read.key(), now) {
                if now >= read.requested + overdue && may_be_answered {
                    return self.reply(&call, Reply::Failed(Failure::StatusOverdue));
                }
                return read.queued.push(call);
            }
            let is_same = !read.is_stale && read.request == call.request;
            if is_same && read.may_be_shared_until(call.deadline, now + overdue) {
                return read.shared_by.push(call);
            }
        }
        let runtime_call = self.pass_on(Purpose::Read(kind, id.clone()), call.id, now);
        let read = Read {
            first_caller: Some((call.id, call.deadline)),
            shared_by: vec![call.clone()],
            ..Read::new(kind, id, call.request, now)
        };
        self.reads.reads.insert(runtime_call, read);
    }

    /// Requests the status of an id, unless it is outstanding. The request is verbose for a container that no
    /// list has shown, because only a verbose status has its sandbox.
    pub(super) fn start_read(&mut self, kind: Kind, id: &Id, now: Instant) {
        if let Some(read) = self.reads.get_mut(kind, id) {
            read.is_ours = true;
            return;
        }
        let is_verbose = kind == Kind::Container && self.rows.containers.get(id).is_none();
        let request = status_of(id, is_verbose);
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
        let (requested, answered) = interval;
        let took = answered.saturating_duration_since(requested);
        if read.is_ours {
            self.prober.note_duration(took);
        }
        if matches!(outcome, Outcome::Messages(_)) {
            self.reads.usual[read.kind].learn(took);
        }
        self.learn_status(read.kind, &read.id, outcome, interval);
        if !read.shared_by.is_empty() {
            self.reads.invalidate(read.kind, &read.id);
        }
        let first = read.first_caller.map(|(first, _)| first);
        let mut again = read.queued;
        for call in read.shared_by {
            // The read may have ended at the deadline of the first caller, before those of the others.
            let is_other = first.is_some_and(|first| first != call.id);
            let has_time = call.deadline.is_none_or(|deadline| answered < deadline);
            match matches!(outcome, Outcome::GivenUp) && is_other && has_time {
                true => again.push(call),
                false => self.actions.push(Action::Relay(runtime_call, call.id)),
            }
        }
        for call in again {
            self.on_read_called(read.kind, read.id.clone(), call, answered);
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
        if !self.is_active() {
            return;
        }
        let overdue = PerKind::new(|kind| self.read_overdue_after(kind));
        let mut given_up = Vec::new();
        for read in self.reads.reads.values_mut() {
            if read.has_callers()
                && now >= read.requested + overdue[read.kind]
                && self.prober.is_stuck(&read.key(), now)
            {
                let is_client = |call: &mut Call| call.from == Caller::Client;
                given_up.extend(read.shared_by.extract_if(.., is_client));
                given_up.extend(read.queued.extract_if(.., is_client));
                // The read stays outstanding, so that later callers get the error at once.
                read.is_ours = true;
            }
        }
        for call in given_up {
            self.reply(&call, Reply::Failed(Failure::StatusOverdue));
        }
    }
}
