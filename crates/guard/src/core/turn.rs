//! The input and output of the core: one event in, a sequence of actions out.

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::Reply;

/// Identifies a call from a client or an observer to the guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// Identifies a call from the guard to the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RuntimeCallId(pub u64);

/// The kind of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A kubelet, or another client such as `crictl`.
    Client,
    /// An agent, which observes the runtime: the guard never answers it in place of the runtime.
    Observer,
}

/// A call of a method for which [`is_intercepted`](super::is_intercepted) is true.
#[derive(Clone, Debug)]
pub struct Call {
    /// The id of the call.
    pub id: CallId,
    /// The method.
    pub rpc: Rpc,
    /// The message of the request.
    pub request: Bytes,
    /// The kind of the caller.
    pub from: Caller,
    /// The caller's deadline, if it has one.
    pub deadline: Option<Instant>,
}

/// The mode of the guard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Answers calls that the runtime does not answer in time.
    #[default]
    Guard,
    /// Passes every call on, and compares its own answers with those of the runtime.
    Shadow,
    /// Passes every call on.
    Pass,
}

/// How the guard handles lists, and since when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Lists are passed on.
    #[default]
    Passing,
    /// Lists are answered from the rows.
    Guarding(Instant),
    /// Lists are overdue. Since then, no list has been answered from the rows or given up by its
    /// caller.
    Waiting(Instant),
    /// Lists are overdue, and so is every other call: nothing confirms the rows.
    Unresponsive(Instant),
    /// Lists are overdue, and the last one could not be answered: not every row in it was confirmed, or
    /// there was no complete list yet.
    Refusing(Instant),
    /// Lists are overdue and passed on: the guard has answered for as long as the limit allows.
    LimitReached,
}

/// An event that the core handles.
#[derive(Clone, Debug)]
pub enum Input {
    /// A call has arrived.
    Called(Call),
    /// The caller has cancelled its call.
    Abandoned(CallId),
    /// A call to the runtime has ended.
    Answered(RuntimeCallId, Outcome),
    /// The host's ids, as requested by [`Action::ListHostIds`].
    HostIds(HostIds),
    /// A connection to the runtime has ended: the next one may be to another process.
    Disconnected,
    /// The runtime's event stream named this id.
    Hint(Id),
    /// The mode is to be this one from now on.
    Mode(Mode),
    /// The time that [`Guard::alarm`](super::Guard::alarm) returned has been reached.
    Time,
}

/// The ids of the runtime's sandboxes and containers, as found on the host.
#[derive(Clone, Debug)]
pub enum HostIds {
    /// All ids of the runtime, and possibly others.
    All(Vec<Id>),
    /// The ids could not be read, or not in time.
    Unread,
    /// The host has no place from which the ids can be read.
    Unavailable,
}

/// How a call to the runtime ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Success, with these messages: one, or any number from a stream.
    Messages(Vec<Bytes>),
    /// An answer that the guard cannot decode. It is passed on unchanged.
    Undecodable,
    /// An error by which the runtime reports that it has no such id.
    NotFound,
    /// Another error of the runtime.
    Failed,
    /// The error `Cancelled`, `DeadlineExceeded` or `Unavailable`: a requested change may be done.
    GivenUp,
    /// The connection to the runtime was lost.
    Lost,
}

impl Outcome {
    /// The message of a successful answer that has exactly one.
    pub(super) fn message(&self) -> Option<&Bytes> {
        match self {
            Self::Messages(messages) if messages.len() == 1 => messages.first(),
            _ => None,
        }
    }
}

/// What the caller of the core must do. Actions are performed in the order in which they are returned.
#[derive(Clone, Debug)]
pub enum Action {
    /// Pass the request of this call on to the runtime, with its metadata.
    Pass(RuntimeCallId, CallId),
    /// Send this call to the runtime: the method and the message of the request.
    Call(RuntimeCallId, Rpc, Bytes),
    /// Pass the runtime's answer to this call on to the caller, unchanged.
    Relay(RuntimeCallId, CallId),
    /// Send this reply to the caller.
    Reply(CallId, Reply),
    /// Cancel this call to the runtime.
    Cancel(RuntimeCallId),
    /// Request the runtime's ids from the host.
    ListHostIds,
}
