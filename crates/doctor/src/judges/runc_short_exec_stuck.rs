//! Some versions of runc do not notice that what they executed has already ended.

use causes::Cause;
use causes::finding::Confidence;
use causes::versions::{RUNC_SHORT_EXEC, runc_has};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack_of_processes;
use crate::evidence::owner::culprit;
use crate::evidence::who::{EXAMPLES, names};
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};

/// Under a shim runc ends as soon as what it was asked for has begun.
const LONG: f64 = 60.0;

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
                "{} is old and has no child, but the version of runc is not known",
                names(stuck.iter().copied())
            )
        });
        return Opinion::of(None, [unknown]);
    }
    let evidence = vec![
        format!(
            "{} under a shim for more than {LONG:.0} s, without a child, and not in the kernel",
            names(stuck.iter().copied())
        ),
        format!("runc is {}", version.unwrap_or_default()),
    ];
    let found = finding(
        Cause::RuncShortExecStuck,
        Confidence::High,
        culprit(first),
        evidence,
    );
    let pids: Vec<String> = stuck
        .iter()
        .take(EXAMPLES)
        .map(|process| process.pid.to_string())
        .collect();
    Opinion::Found(vec![found.advising(format!(
        "`kill -KILL {}` ends what waits for nobody; the containers do not notice",
        pids.join(" ")
    ))])
}

fn is_left_waiting(host: &HostFacts, process: &Process) -> bool {
    let under_shim = host.process(process.ppid).is_some_and(Process::is_shim);
    let mut running = host
        .children(process.pid)
        .filter(|child| child.state != 'Z');
    process.is_runc()
        && process.age_seconds > LONG
        && under_shim
        && running.next().is_none()
        && process.threads.iter().all(|thread| thread.state != 'D')
}
