//! `perf top` and `perf report`: which functions take the time of the processors.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// What walks through all memory cgroups, also those that were removed and are not freed.
const OF_CGROUPS: [&str; 5] = [
    "mem_cgroup_",
    "memcg_",
    "css_next_descendant_",
    "cgroup_rstat_",
    "invalidate_reclaim_iterators",
];

/// In hundredths of a percent; a node spends nearly nothing there.
const MUCH: u32 = 2500;

/// The rows of one listing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Perf {
    of_cgroups: u32,
    is_told: bool,
}

/// Whether only such a listing has this line: `  31.04%  [kernel]  [k] memcg_stat_show`.
pub(super) fn begins(text: &str) -> bool {
    row(text).is_some()
}

/// The share of the time, in hundredths of a percent, and the function of the kernel.
fn row(text: &str) -> Option<(u32, &str)> {
    let (share, rest) = text.split_once('%')?;
    let (whole, hundredths) = share.split_once('.')?;
    let is_number = |digits: &str| digits.bytes().all(|byte| byte.is_ascii_digit());
    if hundredths.len() != 2 || whole.len() > 3 || !is_number(whole) || !is_number(hundredths) {
        return None;
    }
    let function = rest
        .split_once(" [k] ")?
        .1
        .split_ascii_whitespace()
        .next()?;
    let share = whole.parse::<u32>().ok()? * 100 + hundredths.parse::<u32>().ok()?;
    Some((share, function))
}

impl Perf {
    /// Reads a row.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        let Some((share, function)) = row(text) else {
            return;
        };
        if OF_CGROUPS.iter().any(|name| function.starts_with(name)) {
            self.of_cgroups += share;
        }
        if self.of_cgroups >= MUCH && !self.is_told {
            self.is_told = true;
            let says = format!(
                "the kernel walks through memory cgroups for {} % of the time or more",
                self.of_cgroups / 100
            );
            let cause = Cause::MemoryCgroupLeak;
            seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        }
    }
}
