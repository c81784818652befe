//! Statistics, which a kubelet requests every ten seconds to decide which pods to evict. Lists of
//! statistics are passed on, and collected id by id once one is overdue.
//!
//! ```text
//!   called --passed on------------------------------------------------> the runtime's answer
//!      |         \--overdue: each id is requested; all known ----------> the list
//!      |                     not all known: requested again, until just before the deadline
//!      \--an equal list is overdue, or the last one took `MAX_OVERDUE`: each id is requested at once
//! ```
//!
//! An id whose call is not answered keeps its last value, but only while another id's call is answered.
//! The guard never returns an incomplete list: a kubelet evicts a pod without statistics first.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::known::Interval;
use super::per_kind::PerKind;
use super::{Action, Call, CallId, Caller, Failure, Guard, Outcome, Purpose, Reply, RuntimeCallId};
use crate::wire::Kind;
use crate::wire::request::of_id;
use crate::wire::row::{READY, RUNNING};
use crate::wire::stats::{is_for_all, rows_of};

/// A list is overdue after three times the duration of the last one that was answered in time, within
/// these limits.
const OVERDUE_FACTOR: u32 = 3;
const MIN_OVERDUE: Duration = Duration::from_secs(5);
const MAX_OVERDUE: Duration = Duration::from_secs(15);

/// At the caller's deadline containerd answers with an incomplete list. The guard ends the call with an
/// error this long before it.
const ERROR_BEFORE_DEADLINE: Duration = Duration::from_secs(2);

/// How long a collection waits for all ids, and how long it waits for the call of one id.
const COLLECTION_TIMEOUT: Duration = Duration::from_secs(2);

/// How many calls for the statistics of one id may be outstanding at once. A call that is older than
/// `SLOT_TIME` does not count.
const MAX_OUTSTANDING_CALLS: usize = 16;
const SLOT_TIME: Duration = Duration::from_millis(500);

/// The last statistics, and the calls for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Stats {
    /// The outstanding lists.
    lists: BTreeMap<RuntimeCallId, List>,
    waiting: Vec<Waiting>,
    /// The last answer for each id.
    last: PerKind<BTreeMap<Id, Bytes>>,
    /// The ids whose statistics are outstanding, and when they were requested.
    requested: BTreeMap<(Kind, Id), Instant>,
    /// For each method, the duration of the last list that succeeded in time.
    usual: BTreeMap<Rpc, Duration>,
    /// The methods whose last complete list took `MAX_OVERDUE` or longer. The runtime ends such a list at
    /// the caller's deadline, and the next one is likely to be as slow.
    slow: BTreeSet<Rpc>,
}

#[derive(Clone, Debug)]
struct List {
    rpc: Rpc,
    request: Bytes,
    requested: Instant,
}

#[derive(Clone, Debug)]
struct Waiting {
    call: Call,
    /// When the call counts as requested: earlier than it was, if it counts as overdue at once.
    requested: Instant,
    /// The list that was passed on for this caller.
    list: Option<RuntimeCallId>,
    collecting: Option<Collecting>,
}

impl Waiting {
    /// Whether this caller waits for a list that an earlier caller requested and that was overdue.
    fn shares(&self, list: &List) -> bool {
        let Call { rpc, request, .. } = &self.call;
        self.list.is_none() && *rpc == list.rpc && *request == list.request
    }

    fn given_up_at(&self) -> Option<Instant> {
        self.call.deadline?.checked_sub(ERROR_BEFORE_DEADLINE)
    }
}

/// A collection of the statistics of all ids, which are requested id by id.
#[derive(Clone, Debug)]
struct Collecting {
    kind: Kind,
    until: Instant,
    open: BTreeSet<Id>,
    answers: BTreeMap<Id, Bytes>,
    /// Whether the runtime has answered for at least one id.
    is_any_answered: bool,
    /// Whether the call failed for an id that has no earlier value.
    has_failed: bool,
}

/// The result of a collection.
enum Collected {
    /// The complete list.
    All(Bytes),
    /// Some calls may still be answered.
    Pending,
    /// The collection has not begun, or must begin again.
    Restart,
}

/// The kind whose statistics this method lists; `None` if it returns statistics of the whole node.
fn kind_of(rpc: Rpc) -> Option<Kind> {
    match rpc {
        Rpc::ListContainerStats | Rpc::StreamContainerStats => Some(Kind::Container),
        Rpc::ListPodSandboxStats | Rpc::StreamPodSandboxStats => Some(Kind::Sandbox),
        _ => None,
    }
}

fn call_of(kind: Kind) -> Rpc {
    match kind {
        Kind::Container => Rpc::ContainerStats,
        Kind::Sandbox => Rpc::PodSandboxStats,
    }
}

impl Stats {
    fn overdue_after(&self, rpc: Rpc) -> Duration {
        let usual = self.usual.get(&rpc).copied().unwrap_or_default();
        (usual * OVERDUE_FACTOR).clamp(MIN_OVERDUE, MAX_OVERDUE)
    }

    /// Whether an overdue list is still outstanding although its caller does not wait any more.
    pub(super) fn are_overdue(&self) -> bool {
        let mut lists = self.lists.keys();
        lists.any(|list| self.waiting.iter().all(|it| it.list != Some(*list)))
    }

    /// The last values as one list.
    pub(super) fn written(&self, kind: Kind) -> Vec<u8> {
        let last = self.last[kind].values();
        last.flatten().copied().collect()
    }

    /// Restores the values that an earlier process saved. A list that cannot be decoded is ignored.
    pub(super) fn restore(&mut self, kind: Kind, written: &Bytes) {
        self.last[kind] = rows_of([written]).unwrap_or_default();
    }

    /// Removes a call that its caller has cancelled. Returns the list to cancel, if no other caller waits
    /// for it. An overdue list stays outstanding, so that no second one is requested.
    pub(super) fn abandoned(&mut self, call: CallId, now: Instant) -> Option<RuntimeCallId> {
        let place = self.waiting.iter().position(|it| it.call.id == call)?;
        let runtime_call = self.waiting.remove(place).list?;
        let list = self.lists.get(&runtime_call)?;
        let is_shared = self.waiting.iter().any(|it| it.shares(list));
        let is_overdue = now >= list.requested + self.overdue_after(list.rpc);
        (!is_shared && !is_overdue).then(|| {
            self.lists.remove(&runtime_call);
            runtime_call
        })
    }

    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self.waiting.iter().map(|it| match &it.collecting {
            Some(collecting) => collecting.until,
            None => it.requested + self.overdue_after(it.call.rpc),
        });
        let given_up = self.waiting.iter().filter_map(Waiting::given_up_at);
        let collects = self.waiting.iter().any(|it| it.collecting.is_some());
        let requested = self.requested.values().filter(|_| collects);
        let limits = requested
            .flat_map(|requested| [*requested + SLOT_TIME, *requested + COLLECTION_TIMEOUT]);
        let times = waiting.chain(limits).chain(given_up);
        times.filter(|time| *time > now).min()
    }
}

impl Guard {
    pub(super) fn on_stats_called(&mut self, call: Call, now: Instant) {
        let overdue = self.stats.overdue_after(call.rpc);
        let is_same = |list: &List| {
            list.rpc == call.rpc && list.request == call.request && now >= list.requested + overdue
        };
        let is_outstanding = self.stats.lists.values().any(is_same);
        let was_slow = self.stats.slow.contains(&call.rpc) && self.collectable(&call).is_some();
        let may_answer = self.may_answer(call.from);
        let is_overdue = may_answer && (is_outstanding || was_slow);
        let list = (!may_answer || !is_outstanding).then(|| {
            let runtime_call = self.pass_on(Purpose::StatsList, call.id, now);
            let list = List {
                rpc: call.rpc,
                request: call.request.clone(),
                requested: now,
            };
            self.stats.lists.insert(runtime_call, list);
            runtime_call
        });
        // If an equal list is overdue, or the last one was slow, treat this one as overdue at once.
        let waited = if is_overdue { overdue } else { Duration::ZERO };
        self.stats.waiting.push(Waiting {
            call,
            requested: now.checked_sub(waited).unwrap_or(now),
            list,
            collecting: None,
        });
    }

    pub(super) fn on_stats_listed(
        &mut self,
        runtime_call: RuntimeCallId,
        outcome: &Outcome,
        interval: Interval,
    ) {
        let Some(list) = self.stats.lists.remove(&runtime_call) else {
            return;
        };
        let (requested, answered) = interval;
        let took = answered.saturating_duration_since(requested);
        let kind = kind_of(list.rpc);
        // A list with a filter does not show how long a complete list takes.
        let is_whole = kind.is_none() || is_for_all(&list.request);
        let kind = kind.filter(|_| is_whole);
        if took >= MAX_OVERDUE && kind.is_some() {
            self.stats.slow.insert(list.rpc);
        }
        if let Outcome::Messages(messages) = outcome {
            // At a deadline containerd answers with an incomplete list.
            if is_whole && took < self.stats.overdue_after(list.rpc) {
                self.stats.usual.insert(list.rpc, took);
                self.stats.slow.remove(&list.rpc);
            }
            if let Some(kind) = kind
                && let Ok(rows) = rows_of(messages)
            {
                self.store_stats(kind, rows);
            }
        }
        let is_for = |it: &mut Waiting| it.list == Some(runtime_call) || it.shares(&list);
        let waiting: Vec<Waiting> = self.stats.waiting.extract_if(.., is_for).collect();
        for it in waiting {
            // The list may have ended at the deadline of its first caller. Another caller may have
            // time left.
            let is_other_caller = it.list.is_none() && matches!(outcome, Outcome::GivenUp);
            let has_time = it.call.deadline.is_none_or(|deadline| answered < deadline);
            match is_other_caller && has_time {
                true => self.on_stats_called(it.call, answered),
                false => self.actions.push(Action::Relay(runtime_call, it.call.id)),
            }
        }
    }

    /// Stores new values, and drops the values of ids that no longer exist.
    fn store_stats(&mut self, kind: Kind, rows: BTreeMap<Id, Bytes>) {
        let known = &self.rows[kind];
        let last = &mut self.stats.last[kind];
        last.extend(rows);
        if known.complete_since().is_some() {
            last.retain(|id, _| known.get(id).is_some());
        }
    }

    pub(super) fn on_stats_answered(&mut self, kind: Kind, id: &Id, outcome: &Outcome) {
        self.stats.requested.remove(&(kind, id.clone()));
        let is_gone = matches!(outcome, Outcome::NotFound) && self.rows[kind].get(id).is_none();
        let is_answered = matches!(outcome, Outcome::Messages(_));
        let last = &mut self.stats.last[kind];
        let value = match outcome.message() {
            Some(message) => {
                last.insert(id.clone(), message.clone());
                Some(message.clone())
            }
            None => last.get(id).filter(|_| !is_gone && !is_answered).cloned(),
        };
        for waiting in &mut self.stats.waiting {
            if let Some(collecting) = &mut waiting.collecting
                && collecting.kind == kind
                && collecting.open.remove(id)
            {
                let value = value.clone();
                collecting.is_any_answered |= is_answered;
                collecting.has_failed |= value.is_none() && !is_gone;
                collecting
                    .answers
                    .extend(value.map(|value| (id.clone(), value)));
            }
        }
    }

    pub(super) fn advance_stats(&mut self, now: Instant) {
        if !self.is_active() {
            return;
        }
        for place in (0..self.stats.waiting.len()).rev() {
            let waiting = &self.stats.waiting[place];
            let overdue = self.stats.overdue_after(waiting.call.rpc);
            if waiting.call.from != Caller::Client || now < waiting.requested + overdue {
                continue;
            }
            let collected = match &waiting.collecting {
                None => Collected::Restart,
                Some(collecting) => self.collected(collecting, now),
            };
            let is_given_up = waiting.given_up_at().is_some_and(|until| now >= until);
            let reply = match collected {
                Collected::All(list) => Some(Reply::Message(list)),
                _ if is_given_up => Some(Reply::Failed(Failure::StatsOverdue)),
                Collected::Pending => None,
                Collected::Restart => {
                    let kind = self.collectable(&waiting.call);
                    let collecting = kind.map(|kind| self.collect(kind, now));
                    self.stats.waiting[place].collecting = collecting;
                    None
                }
            };
            if let Some(reply) = reply {
                let waiting = self.stats.waiting.remove(place);
                self.reply(&waiting.call, reply);
            }
        }
        self.request_stats(now);
    }

    /// The kind to collect, if the list is a complete one and all ids of the kind are known.
    fn collectable(&self, call: &Call) -> Option<Kind> {
        let kind = kind_of(call.rpc).filter(|_| is_for_all(&call.request))?;
        self.rows[kind].complete_since().map(|_| kind)
    }

    fn collect(&self, kind: Kind, now: Instant) -> Collecting {
        let has_some = match kind {
            Kind::Container => RUNNING,
            Kind::Sandbox => READY,
        };
        let rows = self.rows[kind].iter();
        let open = rows.filter(|(_, known)| known.row.state == has_some);
        Collecting {
            kind,
            until: now + COLLECTION_TIMEOUT,
            open: open.map(|(id, _)| id.clone()).collect(),
            answers: BTreeMap::new(),
            is_any_answered: false,
            has_failed: false,
        }
    }

    /// The result of a collection at `now`.
    fn collected(&self, collecting: &Collecting, now: Instant) -> Collected {
        let has_timed_out = |id: &Id| {
            let requested = self.stats.requested.get(&(collecting.kind, id.clone()));
            requested.is_some_and(|requested| now >= *requested + COLLECTION_TIMEOUT)
        };
        if now < collecting.until && !collecting.open.iter().all(has_timed_out) {
            return Collected::Pending;
        }
        let last = &self.stats.last[collecting.kind];
        let rest: Option<Vec<&Bytes>> = collecting.open.iter().map(|id| last.get(id)).collect();
        match rest {
            Some(rest) if collecting.is_any_answered && !collecting.has_failed => {
                let all = collecting.answers.values().chain(rest);
                Collected::All(all.flatten().copied().collect())
            }
            _ if now < collecting.until => Collected::Pending,
            _ => Collected::Restart,
        }
    }

    /// Requests the statistics that are still to be collected, a few at a time.
    fn request_stats(&mut self, now: Instant) {
        let requested = self.stats.requested.values();
        let busy = requested.filter(|requested| now < **requested + SLOT_TIME);
        let free = MAX_OUTSTANDING_CALLS.saturating_sub(busy.count());
        let waiting = self.stats.waiting.iter();
        let collecting = waiting.filter_map(|it| it.collecting.as_ref());
        let open = collecting.flat_map(|it| it.open.iter().map(|id| (it.kind, id.clone())));
        let next = open.filter(|key| !self.stats.requested.contains_key(key));
        for (kind, id) in next.take(free).collect::<BTreeSet<_>>() {
            let purpose = Purpose::Stats(kind, id.clone());
            self.call_runtime(purpose, call_of(kind), of_id(&id), now);
            self.stats.requested.insert((kind, id), now);
        }
    }
}
