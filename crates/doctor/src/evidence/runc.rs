//! runc processes that the runtime itself has started and waits for. CRI-O starts, stops and
//! inspects containers with runc; containerd and dockerd leave that to shims.

use super::remedy::OLD;
use crate::facts::NodeFacts;
use crate::facts::host::Process;

/// Those that make no progress: stopped, or old and without a child process, which the runc of
/// an `exec` has.
pub(crate) fn stuck_runcs(facts: &NodeFacts) -> Vec<&Process> {
    let Some(runtime) = facts.runtime_process() else {
        return Vec::new();
    };
    let host = &facts.host;
    let is_stuck = |runc: &&Process| {
        let is_alone = || host.children(runc.pid).next().is_none();
        runc.is_stopped() || runc.age_seconds >= OLD && is_alone()
    };
    let runcs = host.children(runtime.pid).filter(|child| child.is_runc());
    runcs.filter(is_stuck).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::node::node;

    #[test]
    fn a_session_of_exec_is_not_taken_for_a_runc_that_is_stuck() {
        let facts = node("cri-o", "1.36.3")
            .process(300, 10, "runc")
            .process(301, 300, "sh")
            .process(310, 10, "runc")
            .process(320, 99, "runc")
            .facts();
        let pids: Vec<u32> = stuck_runcs(&facts).iter().map(|runc| runc.pid).collect();
        assert_eq!(pids, [310]);
    }
}
