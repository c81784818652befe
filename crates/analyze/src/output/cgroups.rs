//! `/proc/cgroups`.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// The kernel gives each memory cgroup one of 65535 ids; from here on they are nearly used up.
const NEARLY_ALL: u64 = 60_000;

/// Whether only that file has this line.
pub(super) fn begins(words: &[&str]) -> bool {
    words.starts_with(&["#subsys_name", "hierarchy", "num_cgroups"])
}

/// Reads `memory  4  64734  1`.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let ["memory", _, count, _] = words[..] else {
        return;
    };
    let Some(count) = count
        .parse::<u64>()
        .ok()
        .filter(|count| *count >= NEARLY_ALL)
    else {
        return;
    };
    let says = format!("the kernel counts {count} memory cgroups, of at most 65535");
    seen.proof(Proof::new(
        Cause::MemoryCgroupLeak,
        Confidence::High,
        line,
        says,
    ));
}
