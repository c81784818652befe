//! `/proc/cgroups`, and `cgroup.stat` of version 2.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// The kernel gives each memory cgroup one of 65535 ids; from here on they are nearly used up.
const NEARLY_ALL: u64 = 60_000;

/// Each pod and container has one of each kind; a removed one is freed once its pages are.
const MANY: u64 = 2000;
const OUTLIER: u64 = 10;

/// Removed ones that still have pages are freed when memory is short.
const MANY_DYING: u64 = 10_000;

/// Whether only these files have this line.
pub(super) fn begins(words: &[&str]) -> bool {
    words.starts_with(&["#subsys_name", "hierarchy", "num_cgroups"])
        || matches!(words, ["nr_descendants" | "nr_dying_descendants", _])
}

/// How many of another kind there are, as the rows above told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cgroups {
    usual: u64,
}

impl Cgroups {
    /// Reads `memory  4  64734  1`.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if let ["nr_dying_descendants", count] = words[..] {
            if let Ok(count @ MANY_DYING..) = count.parse::<u64>() {
                let says = format!("{count} removed cgroups are not freed");
                let cause = Cause::MemoryCgroupLeak;
                seen.proof(Proof::new(cause, Confidence::Low, line, says));
            }
            return;
        }
        let [kind, hierarchy, count, _] = words[..] else {
            return;
        };
        // Those of version 2 have no hierarchy here, and hold no id once they are removed.
        if hierarchy == "0" {
            return;
        }
        let Ok(count) = count.parse::<u64>() else {
            return;
        };
        if kind != "memory" {
            self.usual = self.usual.max(count);
            return;
        }
        let (confidence, says) = if count >= NEARLY_ALL {
            let says = format!("the kernel counts {count} memory cgroups, of at most 65535");
            (Confidence::High, says)
        } else if count >= MANY && self.usual > 0 && count >= self.usual * OUTLIER {
            let says = format!(
                "the kernel counts {count} memory cgroups, and {} of another kind: those that were \
                 removed are not freed",
                self.usual
            );
            (Confidence::Low, says)
        } else {
            return;
        };
        let cause = Cause::MemoryCgroupLeak;
        seen.proof(Proof::new(cause, confidence, line, says));
    }
}
