//! Memory is so short that all processes wait for evicted pages to be read again.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::evidence::phrases::MAX_EXAMPLES;
use crate::evidence::victims::with_victims;
use crate::evidence::waits::{Said, kernel_lines};
use crate::facts::NodeFacts;
use crate::facts::host::{HostFacts, Process};

/// If less than this share of memory is available, hardly any page stays in memory.
const SHORT_SHARE: f64 = 0.03;
/// If this many pages per second are evicted and read again, memory is too short.
const MANY_REFAULTS: f64 = 5000.0;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let full = host.pressure.memory.value().and_then(|memory| memory.full);
    let stalled =
        full.is_some_and(|memory| memory.avg10 >= causes::facts::facts().limits["allWaitPercent"]);
    let thrashing = thrashing(host);
    let mut said = kernel_lines(facts, Cause::MemoryThrash);
    // Daemons that the node needs are quoted first, however many others were killed.
    said.sort_by_key(|said| killed_daemon(&said.line.text).is_none());
    let by_memory = match (stalled, thrashing.is_some()) {
        (true, _) => Some(Confidence::High),
        (false, true) => Some(Confidence::Medium),
        (false, false) => None,
    };
    let by_log = said.iter().map(|said| said.confidence).max();
    let Some(confidence) = by_memory.max(by_log) else {
        return Opinion::of(None, [lack(&host.memory)]);
    };
    let mut evidence = Vec::new();
    evidence.extend(full.filter(|_| stalled).map(|memory| {
        format!(
            "all tasks were stalled on memory for {:.0} % of the last 10 s",
            memory.avg10
        )
    }));
    evidence.extend(thrashing);
    evidence.extend(said.iter().take(MAX_EXAMPLES).map(Said::says));
    let killed = said.first().and_then(|said| killed_daemon(&said.line.text));
    let culprit = killed.clone().unwrap_or_default();
    let found = finding(Cause::MemoryThrash, confidence, culprit, evidence);
    match killed {
        // The killed daemon is itself the victim.
        Some(killed) => {
            let name = killed.process.unwrap_or_default();
            Opinion::Found(vec![found.advising(format!(
                "check whether {name} is running again, and start it if not; shims and containers \
                 keep running"
            ))])
        }
        None => Opinion::of(with_victims(facts, found), []),
    }
}

/// The process in a line such as `Killed process 500 (containerd)`, if the node needs that process.
///
/// The loss of a shim or runc, or of a process that exceeds the limit of its own cgroup, affects
/// only its pod.
fn killed_daemon(line: &str) -> Option<Culprit> {
    if line.contains("Memory cgroup") {
        return None;
    }
    let (_, killed) = line.split_once("Kill")?;
    let (_, killed) = killed.split_once(" process ")?;
    let (pid, name) = killed.split_once(" (")?;
    let (name, _) = name.split_once(')')?;
    let process = Process {
        comm: name.to_owned(),
        ..Process::default()
    };
    process.is_daemon().then(|| Culprit {
        pid: pid.parse().ok(),
        process: Some(process.comm),
        ..Culprit::default()
    })
}

fn thrashing(host: &HostFacts) -> Option<String> {
    let memory = host.memory.value()?;
    let short = (memory.available_kib as f64) < memory.total_kib as f64 * SHORT_SHARE;
    (short && memory.refaults_per_second >= MANY_REFAULTS).then(|| {
        format!(
            "{} of {} MiB are available, and {:.0} evicted pages per second are read again",
            memory.available_kib / 1024,
            memory.total_kib / 1024,
            memory.refaults_per_second
        )
    })
}
