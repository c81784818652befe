//! The faults of calls that many tests use, and what a status reports about them.

use pleg::model::id::Id;
use pleg::out::health::{HealthState, StuckCall};
use pleg::out::status_report::StatusReport;
use pleg::runtime::{CallError, Rpc};
use sim::{Fault, Sim};

/// The calls that request the status of an id: of a container, and of a sandbox.
pub const STATUSES: [Rpc; 2] = [Rpc::ContainerStatus, Rpc::PodSandboxStatus];

/// Both lists.
pub const LISTS: [Rpc; 2] = [Rpc::ListPodSandbox, Rpc::ListContainers];

/// A fault: the call fails with an error that is no evidence.
pub fn broken() -> Fault {
    Fault::Fail(CallError::Refused("Unknown: broken".into()))
}

/// A fault: the id is not found.
pub fn not_found() -> Fault {
    Fault::Fail(CallError::NotFound("no such id".into()))
}

/// A fault: the list is larger than the receive limit.
pub fn too_large() -> Fault {
    Fault::Fail(CallError::TooLarge("by far".into()))
}

/// Whether the status reports no problem.
pub fn is_healthy(status: &StatusReport) -> bool {
    status.health.state == HealthState::Healthy
}

/// Whether the status reports that the call for this id fails.
pub fn has_failing(status: &StatusReport, id: &str) -> bool {
    let mut failing = status.failing.iter();
    failing.any(|call| call.id.as_str() == id)
}

/// The ids of the containers and sandboxes among the stuck calls.
pub fn named(stuck: &[StuckCall]) -> Vec<Id> {
    stuck.iter().filter_map(|call| call.id.clone()).collect()
}

/// Whether the status reports that the list of containers is stuck.
pub fn lists_are_stuck(status: &StatusReport) -> bool {
    let mut stuck = status.stuck.iter();
    stuck.any(|call| call.call == Rpc::ListContainers)
}

/// Sets this fault for each of these calls, whatever their ids.
pub fn fault_each(sim: &Sim, calls: &[Rpc], fault: Fault) {
    for call in calls {
        sim.fault(*call, None, fault.clone());
    }
}
