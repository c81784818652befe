//! `Version` and `RuntimeConfig`: which runtime is connected. While the runtime does not respond,
//! the last answer of the same process is as good as a new one.
//!
//! The guard makes each of these calls once for each runtime process, and does not wait for a
//! kubelet to make them: a kubelet that starts during a fault exits if they are not answered.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::{Action, Call, CallId, Caller, Guard, Outcome, Purpose, Reply, RuntimeCallId};

/// The answers to these calls depend on the process alone, not on the request.
const NODE_CALLS: [Rpc; 2] = [Rpc::Version, Rpc::RuntimeConfig];

/// How long a caller waits before it receives the last answer again.
const OVERDUE_AFTER: Duration = Duration::from_secs(2);

/// How often the guard itself makes these calls: each one until it is answered, and `Version` while
/// lists are answered from the rows, to learn whether the runtime responds.
const PERIOD: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(super) struct NodeCalls {
    /// The last answers of the runtime process that is connected now; `None` if it returned an
    /// error.
    answers: BTreeMap<Rpc, Option<Bytes>>,
    outstanding: BTreeMap<RuntimeCallId, NodeCall>,
    /// When the guard makes its next call; `None` if it needs none.
    next: Option<Instant>,
}

#[derive(Clone, Debug)]
struct NodeCall {
    rpc: Rpc,
    sent: Instant,
    /// The call of the caller that waits; `None` if no caller waits.
    call: Option<Call>,
}

impl NodeCall {
    fn is_overdue(&self, now: Instant) -> bool {
        now >= self.sent + OVERDUE_AFTER
    }
}

impl NodeCalls {
    /// Forgets the answers: the next connection may be to another process.
    pub(super) fn forget(&mut self) {
        self.answers.clear();
    }

    /// Removes a call that its caller has cancelled. Returns the call to the runtime that was made
    /// for it.
    pub(super) fn abandoned(&mut self, call: CallId) -> Option<RuntimeCallId> {
        let is_its = |it: &NodeCall| it.call.as_ref().is_some_and(|it| it.id == call);
        let mut outstanding = self.outstanding.iter();
        let (&runtime_call, _) = outstanding.find(|(_, it)| is_its(it))?;
        self.outstanding.remove(&runtime_call);
        Some(runtime_call)
    }

    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self.outstanding.values().filter(|it| it.call.is_some());
        let times = waiting.map(|it| it.sent + OVERDUE_AFTER);
        times.chain(self.next).filter(|time| *time > now).min()
    }

    fn is_outstanding(&self, rpc: Rpc) -> bool {
        self.outstanding.values().any(|it| it.rpc == rpc)
    }
}

impl Guard {
    pub(super) fn on_node_called(&mut self, call: Call, now: Instant) {
        let mut outstanding = self.node_calls.outstanding.values();
        if outstanding.any(|it| it.rpc == call.rpc && it.is_overdue(now))
            && self.may_answer(call.from)
            && let Some(Some(last)) = self.node_calls.answers.get(&call.rpc)
        {
            let reply = Reply::Message(last.clone());
            return self.reply(&call, reply);
        }
        let runtime_call = self.pass_on(Purpose::NodeCall(call.rpc), call.id, now);
        self.note_node_call(runtime_call, call.rpc, Some(call), now);
    }

    fn note_node_call(
        &mut self,
        runtime_call: RuntimeCallId,
        rpc: Rpc,
        call: Option<Call>,
        now: Instant,
    ) {
        let sent = now;
        let call = NodeCall { rpc, sent, call };
        self.node_calls.outstanding.insert(runtime_call, call);
    }

    pub(super) fn on_node_answered(&mut self, runtime_call: RuntimeCallId, outcome: &Outcome) {
        let Some(it) = self.node_calls.outstanding.remove(&runtime_call) else {
            return;
        };
        let answers = &mut self.node_calls.answers;
        if let Some(message) = outcome.message() {
            answers.insert(it.rpc, Some(message.clone()));
        } else if !matches!(outcome, Outcome::GivenUp | Outcome::Lost) {
            // `RuntimeConfig` is unknown to old runtimes: requesting it again would not help.
            answers.entry(it.rpc).or_default();
        }
        if let Some(call) = it.call {
            self.actions.push(Action::Relay(runtime_call, call.id));
        }
    }

    pub(super) fn advance_node_calls(&mut self, now: Instant) {
        self.answer_overdue_node_calls(now);
        self.make_node_calls(now);
    }

    fn answer_overdue_node_calls(&mut self, now: Instant) {
        if !self.is_active() {
            return;
        }
        let mut answered = Vec::new();
        let outstanding = self.node_calls.outstanding.values_mut();
        for it in outstanding.filter(|it| it.is_overdue(now)) {
            let is_client = |call: &mut Call| call.from == Caller::Client;
            if let Some(Some(last)) = self.node_calls.answers.get(&it.rpc)
                && let Some(call) = it.call.take_if(is_client)
            {
                answered.push((call, last.clone()));
            }
        }
        for (call, message) in answered {
            self.reply(&call, Reply::Message(message));
        }
    }

    /// Makes the calls that the guard itself needs.
    fn make_node_calls(&mut self, now: Instant) {
        let needs = |rpc: &Rpc| {
            let is_unknown = !self.node_calls.answers.contains_key(rpc);
            let is_heartbeat = *rpc == Rpc::Version && self.guarding_since().is_some();
            self.is_active() && is_unknown || is_heartbeat
        };
        let needed: Vec<Rpc> = NODE_CALLS.into_iter().filter(needs).collect();
        let due = self.node_calls.next.unwrap_or(now);
        self.node_calls.next = (!needed.is_empty()).then_some(due);
        if needed.is_empty() || now < due {
            return;
        }
        self.node_calls.next = Some(now + PERIOD);
        for rpc in needed {
            if !self.node_calls.is_outstanding(rpc) {
                let runtime_call =
                    self.call_runtime(Purpose::NodeCall(rpc), rpc, Bytes::new(), now);
                self.note_node_call(runtime_call, rpc, None, now);
            }
        }
    }
}
