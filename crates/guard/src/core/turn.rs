//! What the core is told, and what it wants done: one input, and the actions in their order.

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::Reply;

/// A call that somebody made to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CallId(pub u64);

/// A call that we make to the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AskId(pub u64);

/// Who calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    /// A kubelet, or whoever uses our socket in its place.
    Client,
    /// An agent, which observes the runtime itself: nothing is answered in the runtime's place.
    Observer,
}

/// What the guard does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// It answers what the runtime does not.
    #[default]
    Guard,
    /// It passes everything, and compares what it would have answered.
    Shadow,
    /// It passes everything.
    Pass,
}

/// What is done for lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// They pass.
    #[default]
    Passing,
    /// They are answered from the rows since then.
    Guarding {
        /// Since when.
        since: Instant,
    },
    /// They are overdue, and none has been answered or refused since then.
    Waiting {
        /// Since when they are not passed.
        since: Instant,
    },
    /// They are overdue, and so is every other call: there is nothing to answer them from.
    Silent {
        /// Since when they are not passed.
        since: Instant,
    },
    /// They are overdue, and the last one that was asked for could not be answered: not everything
    /// in it was confirmed, or nothing was known yet.
    Refusing {
        /// Since when they are not passed.
        since: Instant,
    },
    /// They pass although they are overdue: that was guarded for as long as the limit allows.
    GivenUp,
}

/// What has happened.
#[derive(Clone, Debug)]
pub enum Input {
    /// Somebody calls one of the methods of [`is_intercepted`].
    Called {
        /// The call.
        call: CallId,
        /// What it calls.
        rpc: Rpc,
        /// The message of its request.
        request: Bytes,
        /// Who.
        from: Caller,
        /// Until when it waits.
        deadline: Option<Instant>,
    },
    /// The caller does not wait any more.
    Abandoned(CallId),
    /// The runtime has answered.
    Answered(AskId, Outcome),
    /// The host was asked which ids the runtime has.
    HostIds(HostIds),
    /// A connection to the runtime has ended: the next may be to another process.
    Disconnected,
    /// The runtime's stream spoke of this id.
    Announced(Id),
    /// From now on do this.
    Mode(Mode),
    /// Time has passed.
    Time,
}

/// What a host tells of the ids that a runtime has.
#[derive(Clone, Debug)]
pub enum HostIds {
    /// All of them, and perhaps others.
    All(Vec<Id>),
    /// What is there could not be read, or not in time.
    Unread,
    /// There is nothing that could be read.
    CannotTell,
}

/// How a call to the runtime ended.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// Well, with these messages: one, but for a stream.
    Messages(Vec<Bytes>),
    /// In a way that nobody here understands. It passes.
    Strange,
    /// The runtime knows of nothing with this id.
    NotFound,
    /// With another error of the runtime.
    Failed,
    /// With an error that says that time ran out, or that somebody gave up: what it was to do may
    /// be done.
    GivenUp,
    /// The connection to the runtime is gone.
    Lost,
}

/// What is to be done, in this order.
#[derive(Clone, Debug)]
pub enum Action {
    /// Pass the request of this call on to the runtime, with all that came with it.
    Pass(AskId, CallId),
    /// Ask the runtime this.
    Ask(AskId, Rpc, Bytes),
    /// Give the caller what the runtime has just answered to this, as it came.
    Relay(AskId, CallId),
    /// Give the caller this.
    Reply(CallId, Reply),
    /// Nobody wants this answer any more.
    Cancel(AskId),
    /// Ask the host which ids the runtime has.
    AskHost,
}

/// Whether the calls of this method are decided on here. All others pass unread.
pub fn is_intercepted(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::Version
            | Rpc::RuntimeConfig
            | Rpc::ListPodSandbox
            | Rpc::ListContainers
            | Rpc::StreamPodSandboxes
            | Rpc::StreamContainers
            | Rpc::PodSandboxStatus
            | Rpc::ContainerStatus
            | Rpc::RunPodSandbox
            | Rpc::StopPodSandbox
            | Rpc::RemovePodSandbox
            | Rpc::RestorePod
            | Rpc::CreateContainer
            | Rpc::StartContainer
            | Rpc::StopContainer
            | Rpc::RemoveContainer
            | Rpc::UpdateContainerResources
            | Rpc::UpdatePodSandboxResources
            | Rpc::ListContainerStats
            | Rpc::StreamContainerStats
            | Rpc::ListPodSandboxStats
            | Rpc::StreamPodSandboxStats
            | Rpc::ListPodSandboxMetrics
            | Rpc::StreamPodSandboxMetrics
            | Rpc::ImageFsInfo
    )
}
