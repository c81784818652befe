//! Control groups of memory that are gone and still held: the kernel has only 65535 ids.

use causes::Cause;
use causes::finding::{Confidence, Culprit};
use causes::versions::leaks_memory_cgroups;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::evidence::waits::kernel_says;
use crate::facts::NodeFacts;

const IDS: u64 = 65_535;
/// There is hardly time to drain the node.
const NEARLY: u64 = 60_000;
/// On a kernel that leaks they do not come back.
const MANY: u64 = 50_000;
/// Each makes statistics of memory slower, on any kernel.
const SLOW: u64 = 10_000;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let Some(groups) = host.cgroups.memory.value() else {
        return Opinion::of(None, [lack(&host.cgroups.memory)]);
    };
    let release = host.versions.kernel.value().map_or("", String::as_str);
    let leaks = leaks_memory_cgroups(release);
    let confidence = match groups.counted {
        NEARLY.. => Confidence::Certain,
        MANY.. if leaks => Confidence::High,
        _ if groups.left_over >= SLOW => Confidence::Medium,
        _ => return Opinion::Clear,
    };
    let mut evidence = vec![format!(
        "{} control groups of memory are counted, {} of them left over; there are {IDS} ids",
        groups.counted, groups.left_over
    )];
    if leaks {
        evidence.push(format!("kernel {release} leaks them with every container"));
    }
    let said = kernel_says(facts, Cause::MemoryCgroupLeak);
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let found = finding(
        Cause::MemoryCgroupLeak,
        confidence,
        Culprit::default(),
        evidence,
    );
    Opinion::Found(vec![found.advising(format!(
        "drain this node and reboot it before the last of {IDS} ids is used; {} are",
        groups.counted
    ))])
}
