//! Some versions of runc miss the exit of a short-lived process that they started.

use causes::Cause;
use causes::finding::Confidence;
use causes::versions::{RUNC_SHORT_EXEC, runc_has};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack_of_processes;
use crate::evidence::owner::culprit;
use crate::evidence::who::{MAX_EXAMPLES, names};
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};

/// Under a shim, runc exits as soon as the process that it starts is running.
const STUCK_SECONDS: f64 = 60.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let stuck: Vec<&Process> = host
        .all_processes()
        .iter()
        .filter(|process| is_left_waiting(host, process))
        .collect();
    let Some(first) = stuck.first() else {
        return Opinion::of(None, [lack_of_processes(host)]);
    };
    let version = host.versions.runc();
    if version.and_then(|version| runc_has(RUNC_SHORT_EXEC, version)) != Some(true) {
        let unknown = version.is_none().then(|| {
            format!(
                "the version of runc is not known; without a child process for more than \
                 {STUCK_SECONDS:.0} s: {}",
                names(stuck.iter().copied())
            )
        });
        return Opinion::of(None, [unknown]);
    }
    let evidence = vec![
        format!(
            "started by a shim more than {STUCK_SECONDS:.0} s ago, without a child process and not blocked \
             in the kernel: {}",
            names(stuck.iter().copied())
        ),
        format!("version of runc: {}", version.unwrap_or_default()),
    ];
    let found = finding(
        Cause::RuncShortExecStuck,
        Confidence::High,
        culprit(first),
        evidence,
    );
    let pids: Vec<String> = stuck
        .iter()
        .take(MAX_EXAMPLES)
        .map(|process| process.pid.to_string())
        .collect();
    Opinion::Found(vec![found.advising(format!(
        "run `kill -KILL {}` to end these runc processes, which wait for an exit that they \
         missed; the containers are not affected",
        pids.join(" ")
    ))])
}

fn is_left_waiting(host: &HostFacts, process: &Process) -> bool {
    let under_shim = host.process(process.ppid).is_some_and(Process::is_shim);
    let mut running = host
        .children(process.pid)
        .filter(|child| child.state != 'Z');
    process.is_runc()
        && process.age_seconds > STUCK_SECONDS
        && under_shim
        && running.next().is_none()
        && process.threads.iter().all(|thread| thread.state != 'D')
}
