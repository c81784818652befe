//! Memory cgroups that were removed but are still held: the kernel has only 65535 ids.

use causes::Cause;
use causes::finding::{Confidence, Culprit};
use causes::versions::leaks_memory_cgroups;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::lack;
use crate::evidence::waits::kernel_says;
use crate::facts::NodeFacts;

/// The number of ids that the kernel has for memory cgroups.
const MAX_IDS: u64 = 65_535;
/// On a kernel that leaks cgroups, the ids are not freed again.
const MANY_IF_LEAKING: u64 = 50_000;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let Some(groups) = host.cgroups.memory.value() else {
        return Opinion::of(None, [lack(&host.cgroups.memory)]);
    };
    let release = host.versions.kernel.value().map_or("", String::as_str);
    let leaks = leaks_memory_cgroups(release);
    // On version 2, a group that was removed holds no id, and the count says nothing about them.
    let counts_ids = groups.version != 2;
    let limits = &causes::facts::facts().limits;
    let is_nearly_all = groups.counted as f64 >= limits.memory_cgroups_nearly_used_up;
    let confidence = match groups.counted {
        // Hardly any time is left to drain the node.
        _ if counts_ids && is_nearly_all => Confidence::Certain,
        MANY_IF_LEAKING.. if counts_ids && leaks => Confidence::High,
        _ if groups.left_over as f64 >= limits.many_leaked_cgroups => Confidence::Medium,
        _ => return Opinion::Clear,
    };
    let mut evidence = vec![format!(
        "the kernel counts {} memory cgroups, {} of them leaked",
        groups.counted, groups.left_over
    )];
    if counts_ids {
        evidence.push(format!("it has {MAX_IDS} ids for them"));
    }
    if leaks {
        evidence.push(format!(
            "kernel {release} leaks memory cgroups with every container"
        ));
    }
    let said = kernel_says(facts, Cause::MemoryCgroupLeak);
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let mut found = finding(
        Cause::MemoryCgroupLeak,
        confidence,
        Culprit::default(),
        evidence,
    );
    if counts_ids {
        found.advise_first(format!(
            "drain and reboot this node before all {MAX_IDS} ids are used; {} are used now",
            groups.counted
        ));
    } else {
        found.sentence =
            "memory cgroups that were removed are still held, which slows down reading memory \
             statistics"
                .to_owned();
    }
    Opinion::Found(vec![found])
}
