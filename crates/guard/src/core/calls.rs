//! The calls to the runtime that it has not answered yet, and which of them the ledger tracks.

use base::id::Id;
use base::ledger::Key;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::{Action, CallId, Guard, Outcome, RuntimeCallId, prober};
use crate::wire::Kind;

/// The purpose of a call to the runtime.
#[derive(Clone, Debug)]
pub(super) enum Purpose {
    /// A list, for a caller or for the guard itself.
    List(Kind),
    /// The status of one id, for callers or for the guard itself.
    Read(Kind, Id),
    Mutation,
    NodeCall(Rpc),
    /// A list of statistics.
    StatsList,
    /// The statistics of one id.
    Stats(Kind, Id),
    /// `RestorePod`, passed on: it creates a sandbox with its containers.
    Restore(CallId),
    /// Any other call that is passed on.
    Other(CallId),
}

impl Purpose {
    /// The key of the call in the ledger. The ledger tracks only calls that read.
    fn key(&self) -> Option<Key> {
        match self {
            Self::List(kind) => Some((kind.list(), None)),
            Self::Read(kind, id) => Some((kind.status(), Some(id.clone()))),
            Self::NodeCall(rpc) => Some((*rpc, None)),
            Self::Mutation
            | Self::StatsList
            | Self::Stats(..)
            | Self::Restore(_)
            | Self::Other(_) => None,
        }
    }
}

/// A call that the runtime has not answered yet.
#[derive(Clone, Debug)]
pub(super) struct Outstanding {
    purpose: Purpose,
    requested: Instant,
    /// Whether the ledger tracks the call. It tracks one of the calls with the same key.
    is_tracked: bool,
}

impl Outstanding {
    /// The key of the call, if the ledger tracks it.
    fn tracked_key(&self) -> Option<Key> {
        self.purpose.key().filter(|_| self.is_tracked)
    }
}

impl Guard {
    /// Passes a caller's call on to the runtime.
    pub(super) fn pass_on(
        &mut self,
        purpose: Purpose,
        call: CallId,
        now: Instant,
    ) -> RuntimeCallId {
        let runtime_call = self.next_runtime_call(purpose, now);
        self.actions.push(Action::Pass(runtime_call, call));
        runtime_call
    }

    /// Sends a call of the guard's own to the runtime.
    pub(super) fn call_runtime(
        &mut self,
        purpose: Purpose,
        rpc: Rpc,
        request: Bytes,
        now: Instant,
    ) -> RuntimeCallId {
        let runtime_call = self.next_runtime_call(purpose, now);
        self.actions.push(Action::Call(runtime_call, rpc, request));
        runtime_call
    }

    fn next_runtime_call(&mut self, purpose: Purpose, now: Instant) -> RuntimeCallId {
        self.last_runtime_call += 1;
        let runtime_call = RuntimeCallId(self.last_runtime_call);
        let outstanding = Outstanding {
            is_tracked: (purpose.key()).is_some_and(|key| self.prober.begin(&key, now)),
            purpose,
            requested: now,
        };
        self.runtime_calls.insert(runtime_call, outstanding);
        runtime_call
    }

    /// Cancels a call that is not needed any more.
    pub(super) fn cancel(&mut self, runtime_call: RuntimeCallId, now: Instant) {
        if let Some(outstanding) = self.runtime_calls.remove(&runtime_call) {
            if let Some(key) = outstanding.tracked_key() {
                self.prober.ledger.cancelled(&key);
                self.track_next(key, now);
            }
            self.actions.push(Action::Cancel(runtime_call));
        }
    }

    /// Lets the ledger track the oldest outstanding call with this key, because the one that it
    /// tracked has ended. The oldest may be stuck.
    fn track_next(&mut self, ended: Key, now: Instant) {
        let mut untracked = self.runtime_calls.values_mut().filter(|it| !it.is_tracked);
        if let Some(next) = untracked.find(|it| it.purpose.key().as_ref() == Some(&ended)) {
            next.is_tracked = true;
            let about = prober::about(&ended);
            self.prober.ledger.take_over(about, next.requested, now);
        }
    }

    pub(super) fn on_answered(
        &mut self,
        runtime_call: RuntimeCallId,
        outcome: &Outcome,
        now: Instant,
    ) {
        let Some(outstanding) = self.runtime_calls.remove(&runtime_call) else {
            return;
        };
        if let Some(key) = outstanding.tracked_key() {
            self.prober.ended(&key, outcome, now);
            self.track_next(key, now);
        }
        if let Outcome::Lost = outcome {
            self.node_calls.forget();
        }
        let interval = (outstanding.requested, now);
        match outstanding.purpose {
            Purpose::List(kind) => self.on_list_answered(kind, runtime_call, outcome, interval),
            Purpose::Read(..) => self.on_read_answered(runtime_call, outcome, interval),
            Purpose::Mutation => self.on_mutation_answered(runtime_call, outcome, interval),
            Purpose::NodeCall(_) => self.on_node_answered(runtime_call, outcome),
            Purpose::StatsList => self.on_stats_listed(runtime_call, outcome, interval),
            Purpose::Stats(kind, id) => self.on_stats_answered(kind, &id, outcome),
            Purpose::Restore(call) => {
                // Only a list shows which containers the pod has.
                self.ids.note_all_unshown(now);
                self.actions.push(Action::Relay(runtime_call, call));
            }
            Purpose::Other(call) => self.actions.push(Action::Relay(runtime_call, call)),
        }
    }

    pub(super) fn on_abandoned(&mut self, call: CallId, now: Instant) {
        let [sandboxes, containers] =
            Kind::BOTH.map(|kind| self.lists[kind].abandoned(call, &self.settings, now));
        let unneeded = (sandboxes.or(containers))
            .or_else(|| self.reads.abandoned(call))
            .or_else(|| self.node_calls.abandoned(call))
            .or_else(|| self.stats.abandoned(call, now));
        if let Some(runtime_call) = unneeded {
            self.cancel(runtime_call, now);
        }
        if let Some((runtime_call, mutation)) = self.mutations.abandoned(call) {
            self.cancel(runtime_call, now);
            self.on_unknown_end(&mutation, now);
        }
        let is_of_call = |it: &Outstanding| match it.purpose {
            Purpose::Other(of) | Purpose::Restore(of) => of == call,
            _ => false,
        };
        let other = self.runtime_calls.iter().find(|(_, it)| is_of_call(it));
        if let Some((&runtime_call, it)) = other {
            if let Purpose::Restore(_) = it.purpose {
                self.ids.note_all_unshown(now);
            }
            self.cancel(runtime_call, now);
        }
    }
}
