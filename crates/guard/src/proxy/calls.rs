//! The calls on which the core decides: their callers, and the tasks that wait for the runtime's answers.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::Request;
use tokio::sync::oneshot;
use tokio::task::AbortHandle;

use super::added::{Added, Passage};
use super::answer::Answer;
use crate::core::{CallId, Caller, RuntimeCallId};

/// The callers that wait, and the outstanding calls to the runtime.
#[derive(Default)]
pub(super) struct Calls {
    last: u64,
    waiting: BTreeMap<CallId, Waiting>,
    outstanding: BTreeMap<RuntimeCallId, AbortHandle>,
}

/// A caller that waits.
struct Waiting {
    from: Caller,
    /// The request until it is passed on.
    request: Option<Request<Bytes>>,
    /// The measurement of the added latency; `None` for a request that is not passed on at once.
    passage: Option<Passage>,
    answer: oneshot::Sender<Answer>,
}

impl Calls {
    /// Adds a caller. Its answer is sent to the receiver.
    pub(super) fn add(
        &mut self,
        request: Request<Bytes>,
        from: Caller,
        passage: Passage,
    ) -> (CallId, oneshot::Receiver<Answer>) {
        let (answer, receiver) = oneshot::channel();
        self.last += 1;
        let call = CallId(self.last);
        let waiting = Waiting {
            from,
            request: Some(request),
            passage: Some(passage),
            answer,
        };
        self.waiting.insert(call, waiting);
        (call, receiver)
    }

    /// Drops the measurement of a call that the core did not pass on at once. Its request may be passed
    /// on later.
    pub(super) fn decided(&mut self, call: CallId) {
        if let Some(waiting) = self.waiting.get_mut(&call)
            && waiting.request.is_some()
        {
            waiting.passage = None;
        }
    }

    /// Takes the request, to pass it on. `None` if the caller has left.
    pub(super) fn pass(&mut self, call: CallId) -> Option<(Request<Bytes>, Caller)> {
        let waiting = self.waiting.get_mut(&call)?;
        Some((waiting.request.take()?, waiting.from))
    }

    /// Records that the request was sent to the runtime.
    pub(super) fn sent(&mut self, call: CallId) {
        if let Some(waiting) = self.waiting.get_mut(&call)
            && let Some(passage) = &mut waiting.passage
        {
            passage.sent();
        }
    }

    /// Answers a caller. An observer whose call was lost gets no answer: it loses its connection instead.
    pub(super) fn answer(&mut self, call: CallId, answer: Answer, added: &Added) {
        let Some(waiting) = self.waiting.remove(&call) else {
            return;
        };
        match (answer.complete, waiting.passage) {
            (Some(complete), Some(passage)) => passage.ended(complete, added),
            (None, _) if waiting.from == Caller::Observer => return,
            _ => {}
        }
        // The receiver may be gone; ignore the error.
        let _ = waiting.answer.send(answer);
    }

    /// Removes a caller that has left. Returns whether it was waiting.
    pub(super) fn leave(&mut self, call: CallId) -> bool {
        self.waiting.remove(&call).is_some()
    }

    /// Records the task that waits for the answer to this call.
    pub(super) fn begin(&mut self, runtime_call: RuntimeCallId, task: AbortHandle) {
        self.outstanding.insert(runtime_call, task);
    }

    /// Forgets a call that has ended.
    pub(super) fn end(&mut self, runtime_call: RuntimeCallId) {
        self.outstanding.remove(&runtime_call);
    }

    /// Cancels the call.
    pub(super) fn cancel(&mut self, runtime_call: RuntimeCallId) {
        if let Some(task) = self.outstanding.remove(&runtime_call) {
            task.abort();
        }
    }
}
