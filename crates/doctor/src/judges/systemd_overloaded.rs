//! systemd reads the whole mount table again at each change, in one thread.

use causes::Cause;
use causes::finding::Confidence;
use causes::versions::{Fault, has_fault};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::culprit;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::victims::with_victims;
use crate::facts::NodeFacts;
use crate::facts::host::Ping;
use crate::limits::BUSY_CPU_SHARE;

/// A ping that takes longer waits for systemd, not for the bus.
const SLOW_PING_SECONDS: f64 = 1.0;
/// From this number on, each change of the mount table costs milliseconds.
const MANY_MOUNTS: u64 = 1000;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let missing = [lack_of_processes(host), lack(&host.bus.ping)];
    let Some(init) = host.process(1).filter(|init| init.comm == "systemd") else {
        return Opinion::of(None, [lack_of_processes(host)]);
    };
    let share = init.cpu_share.unwrap_or(0.0);
    let mounts = host.mounts.value().map_or(0, |mounts| mounts.count);
    let slow = match host.bus.ping.value() {
        Some(Ping::Answered { seconds, .. }) if *seconds > SLOW_PING_SECONDS => {
            Some(format!("it took {seconds:.1} s to answer a ping"))
        }
        Some(Ping::Silent { seconds }) => {
            Some(format!("it did not answer a ping within {seconds:.0} s"))
        }
        _ => None,
    };
    let is_slow = slow.is_some();
    let confidence = match (is_slow, share > BUSY_CPU_SHARE, mounts > MANY_MOUNTS) {
        (true, true, _) => Confidence::High,
        (false, true, true) => Confidence::Medium,
        // Slow but not busy is another cause: the serial numbers, or the bus.
        _ => return Opinion::of(None, missing),
    };
    let mut evidence = vec![format!(
        "process 1 used {:.0} % of a CPU while tracking {mounts} mounts",
        share * 100.0
    )];
    evidence.extend(slow);
    if let Some(runc) = host.versions.runc()
        && has_fault(Fault::MountsForExec, runc) == Some(true)
    {
        evidence.push(format!(
            "runc {runc} mounts and unmounts its own binary for every exec"
        ));
    }
    let culprit = culprit::of_process(init);
    let found = finding(Cause::SystemdOverloaded, confidence, culprit, evidence);
    // A busy systemd that answers at once is not a problem by itself.
    let found = match is_slow {
        true => Some(found),
        false => with_victims(facts, found),
    };
    Opinion::of(found, missing)
}
