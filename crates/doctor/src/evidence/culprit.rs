//! A process, a container or a call as the culprit of a finding.

use causes::finding::Culprit;

use super::owner::{cgroup, of_cgroup};
use super::shims::Shim;
use crate::facts::host::Process;
use crate::facts::probes::Probe;
use crate::facts::tasks::Task;

/// A process, with its container and pod if its control group contains them.
pub(crate) fn of_process(process: &Process) -> Culprit {
    with_process(of_cgroup(cgroup(process)), process)
}

/// A container or sandbox.
pub(crate) fn of_task(task: &Task) -> Culprit {
    Culprit {
        pod: task.pod.clone(),
        container: task.container.clone(),
        id: Some(task.id.clone()),
        ..Culprit::default()
    }
}

/// The container or pod of a call.
pub(crate) fn of_call(probe: &Probe) -> Culprit {
    Culprit {
        pod: probe.pod.clone(),
        container: probe.container.clone(),
        id: probe.id.clone(),
        ..Culprit::default()
    }
}

/// The container or pod of a call, and the process of its shim for which the call waits.
pub(crate) fn of_hung_call(probe: &Probe, shim: Option<&Shim>) -> Culprit {
    let culprit = of_call(probe);
    match shim.and_then(Shim::waited_for) {
        Some(process) => with_process(culprit, process),
        None => culprit,
    }
}

/// The culprit, with this process added.
pub(crate) fn with_process(culprit: Culprit, process: &Process) -> Culprit {
    Culprit {
        pid: Some(process.pid),
        process: Some(process.comm.clone()),
        ..culprit
    }
}
