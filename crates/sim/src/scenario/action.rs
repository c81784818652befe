//! The actions of scenarios.

use std::fmt;
use std::time::Duration;

use cri::Rpc;

use crate::faults::Fault;
use crate::flood::Flood;
use crate::manner::Manner;
use crate::stream::Serving;
use crate::stream_faults::StreamFault;

/// The action of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Creates a pod and starts its containers.
    Run {
        /// The name of the pod.
        pod: String,
        /// The names of the containers.
        containers: Vec<String>,
    },
    /// Ends a container, with an exit code.
    Exit(ContainerName, i32, ExitReport),
    /// Ends a container, with an exit code, and starts its successor.
    Restart(ContainerName, i32),
    /// Ends all containers and sandboxes of a pod.
    Stop(String),
    /// Removes a pod.
    RemovePod(String),
    /// Removes a container.
    RemoveContainer(ContainerName),
    /// Restarts containers one after the other; `None` ends this.
    Churn(Option<Churn>),
    /// Sets a fault of calls.
    Fault(Calls, Fault),
    /// Takes the status lock of a container.
    StatusLock(ContainerName),
    /// Lifts faults.
    Lift(Lifted),
    /// Sets a fault of the stream of events.
    SetStreamFault(StreamFault),
    /// Sends this number of events at once, which are not caused by any change.
    Flood(Flood, usize),
    /// Sets how the stream of events is served.
    Serve(Serving),
    /// Sets the runtime that the simulated one imitates.
    BehaveAs(Manner),
    /// Ends the open streams of events.
    CutStreams,
    /// Stops the runtime.
    StopRuntime,
    /// Continues the stopped runtime.
    ContinueRuntime,
    /// Restarts the runtime, which is unreachable for this long.
    RestartRuntime(Duration),
    /// Ends the scenario.
    End,
}

/// A container by its pod and its own name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerName {
    /// The pod's name.
    pub pod: String,
    /// The container's name in the pod.
    pub container: String,
}

impl fmt::Display for ContainerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.pod, self.container)
    }
}

/// How a runtime reports the exit of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitReport {
    /// In the list and in the status, at once.
    Prompt,
    /// Only in the status: the state in the list does not change.
    NotListed,
    /// With the exit code -1 for this long, then with the real one.
    CodeDelayed(Duration),
}

/// Restarts of containers, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Churn {
    /// The time between two restarts.
    pub period: Duration,
    /// How long the restarts continue; `None` if they do not end.
    pub duration: Option<Duration>,
}

/// The calls to which an action applies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Calls {
    /// The methods.
    pub rpcs: Vec<Rpc>,
    /// The subject of the calls; `None` for any.
    pub of: Option<Target>,
}

/// The subject of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// The newest sandbox of the pod.
    Pod(String),
    /// The newest container with this name.
    Container(ContainerName),
    /// The object with this id.
    Id(String),
}

/// The faults that an action lifts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lifted {
    /// All faults.
    All,
    /// All faults of the stream of events.
    Events,
    /// The status lock of a container.
    StatusLock(ContainerName),
    /// The faults of calls.
    Calls(Calls),
}
