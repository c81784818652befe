//! What can happen: each verb of the text, read.

use std::fmt;
use std::time::Duration;

use cri::Rpc;

use crate::faults::Fault;
use crate::flood::Flood;
use crate::manner::Manner;
use crate::stream::Serving;
use crate::stream_faults::StreamFault;

/// What happens at a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// A pod comes whose containers run.
    Run {
        /// Its name.
        pod: String,
        /// Theirs.
        containers: Vec<String>,
    },
    /// A container ends.
    Exit(ContainerName, i32, Told),
    /// A container ends, and its successor starts.
    Restart(ContainerName, i32),
    /// All that is in a pod ends.
    Stop(String),
    /// A pod is gone.
    RemovePod(String),
    /// A container is gone.
    RemoveContainer(ContainerName),
    /// Containers restart one after the other; `None` ends it.
    Churn(Option<Churn>),
    /// Calls go wrong.
    Fault(Calls, Fault),
    /// Something has a container's status lock.
    StatusLock(ContainerName),
    /// Something goes well again.
    Lift(Lifted),
    /// The stream of events goes wrong.
    Disturb(StreamFault),
    /// So many events are told at once that no change has made.
    Flood(Flood, usize),
    /// The stream of events is served another way.
    Serve(Serving),
    /// The runtime behaves as another does.
    BehaveAs(Manner),
    /// The streams that are open end.
    CutStreams,
    /// The runtime is stopped.
    StopRuntime,
    /// It goes on.
    ContinueRuntime,
    /// The runtime restarts, and is away for that long.
    RestartRuntime(Duration),
    /// The scenario is over, and who plays it may go.
    End,
}

/// A container by its pod and its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerName {
    /// The pod's name.
    pub pod: String,
    /// The container's name in it.
    pub container: String,
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pod, self.container)
    }
}

/// How a runtime tells that a container has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// Everywhere, at once.
    AsItIs,
    /// By its status; the list goes on saying what it said.
    NotListed,
    /// With the exit code -1, and the right one that much later.
    CodeAfter(Duration),
}

/// How containers come and go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Churn {
    /// From one restart to the next.
    pub period: Duration,
    /// For how long; for ever if it is not said.
    pub duration: Option<Duration>,
}

/// Which calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// The methods.
    pub rpcs: Vec<Rpc>,
    /// About what; about anything if it is not said.
    pub of: Option<Of>,
}

/// What a call is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Of {
    /// The newest sandbox of the pod.
    Pod(String),
    /// The newest container of that name.
    Container(ContainerName),
    /// Whatever has this id.
    Id(String),
}

/// What goes well again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifted {
    /// All faults.
    All,
    /// Those of the stream.
    Events,
    /// A status lock.
    StatusLock(ContainerName),
    /// Those of calls.
    Calls(Calls),
}
