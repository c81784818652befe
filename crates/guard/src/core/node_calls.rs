//! `Version` and `RuntimeConfig`: who the runtime is. On a hang the last answer of the same
//! process is as good as a new one.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::{Action, AskId, CallId, Caller, Guard, Outcome, Purpose, Reply};

/// Who asks in more ways than these, or at greater length, is no kubelet.
const MOST: usize = 16;
const LONGEST: usize = 1024;

/// After this the last answer is given again.
const OVERDUE: Duration = Duration::from_secs(2);

/// While lists are answered from the rows, the runtime is asked whether it lives.
const HEARTBEAT: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, Default)]
pub(super) struct NodeCalls {
    /// The last answers of the process that is connected now, by what was asked.
    last: BTreeMap<(Rpc, Bytes), Bytes>,
    outstanding: BTreeMap<AskId, NodeCall>,
    heartbeat: Option<Instant>,
}

#[derive(Clone, Debug)]
struct NodeCall {
    rpc: Rpc,
    request: Bytes,
    asked: Instant,
    caller: Option<(CallId, Caller)>,
}

impl NodeCalls {
    /// The process that answers next may be another one.
    pub(super) fn forget(&mut self) {
        self.last.clear();
    }

    /// The caller has gone: gives the call that nobody wants any more.
    pub(super) fn abandoned(&mut self, call: CallId) -> Option<AskId> {
        let is_its = |it: &NodeCall| it.caller.is_some_and(|(caller, _)| caller == call);
        let found = self.outstanding.iter().find(|(_, it)| is_its(it));
        let ask = *found?.0;
        self.outstanding.remove(&ask);
        Some(ask)
    }

    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self.outstanding.values().filter(|it| it.caller.is_some());
        let times = waiting.map(|it| it.asked + OVERDUE);
        times.chain(self.heartbeat).filter(|time| *time > now).min()
    }
}

impl Guard {
    pub(super) fn on_node_called(
        &mut self,
        rpc: Rpc,
        request: Bytes,
        call: CallId,
        from: Caller,
        now: Instant,
    ) {
        let mut outstanding = self.node_calls.outstanding.values();
        let is_overdue =
            |it: &NodeCall| it.rpc == rpc && it.request == request && now >= it.asked + OVERDUE;
        if outstanding.any(is_overdue)
            && self.answers(from)
            && let Some(last) = self.node_calls.last.get(&(rpc, request.clone()))
        {
            let reply = Reply::Message(last.clone());
            return self.reply(call, rpc, reply);
        }
        let ask = self.pass_on(Purpose::NodeCall(rpc), call, now);
        self.note_node_call(ask, rpc, request, Some((call, from)), now);
    }

    fn note_node_call(
        &mut self,
        ask: AskId,
        rpc: Rpc,
        request: Bytes,
        caller: Option<(CallId, Caller)>,
        now: Instant,
    ) {
        let call = NodeCall {
            rpc,
            request,
            asked: now,
            caller,
        };
        self.node_calls.outstanding.insert(ask, call);
    }

    pub(super) fn on_node_answered(&mut self, ask: AskId, outcome: &Outcome) {
        let Some(it) = self.node_calls.outstanding.remove(&ask) else {
            return;
        };
        if let Outcome::Messages(messages) = outcome
            && let [message] = messages.as_slice()
        {
            let last = &mut self.node_calls.last;
            let is_usual = it.request.len() <= LONGEST && last.len() < MOST;
            if is_usual || last.contains_key(&(it.rpc, it.request.clone())) {
                last.insert((it.rpc, it.request), message.clone());
            }
        }
        if let Some((call, _)) = it.caller {
            self.actions.push(Action::Relay(ask, call));
        }
    }

    pub(super) fn pass_node_calls(&mut self, now: Instant) {
        let mut answered = Vec::new();
        let acts = self.acts();
        let NodeCalls {
            last, outstanding, ..
        } = &mut self.node_calls;
        for it in outstanding.values_mut() {
            let of_client = it
                .caller
                .filter(|(_, from)| acts && *from == Caller::Client && now >= it.asked + OVERDUE);
            if let Some((call, _)) = of_client
                && let Some(last) = last.get(&(it.rpc, it.request.clone()))
            {
                it.caller = None;
                answered.push((call, it.rpc, last.clone()));
            }
        }
        for (call, rpc, message) in answered {
            self.reply(call, rpc, Reply::Message(message));
        }
        self.node_calls.heartbeat = match self.guarding_since() {
            None => None,
            Some(_) => Some(self.node_calls.heartbeat.unwrap_or(now)),
        };
        let mut outstanding = self.node_calls.outstanding.values();
        let is_asked = outstanding.any(|it| it.rpc == Rpc::Version);
        if self.node_calls.heartbeat.is_some_and(|due| now >= due) {
            self.node_calls.heartbeat = Some(now + HEARTBEAT);
            if !is_asked {
                let ask = self.ask(
                    Purpose::NodeCall(Rpc::Version),
                    Rpc::Version,
                    Bytes::new(),
                    now,
                );
                self.note_node_call(ask, Rpc::Version, Bytes::new(), None, now);
            }
        }
    }
}
