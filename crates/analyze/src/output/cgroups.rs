//! `/proc/cgroups`, and `cgroup.stat` of version 2.

use super::Seen;
use crate::table::TableRow;

pub(super) fn begins(words: &[&str]) -> bool {
    words.starts_with(&["#subsys_name", "hierarchy", "num_cgroups"])
        || matches!(words, ["nr_descendants" | "nr_dying_descendants", _])
}

/// The usual number of control groups, from the rows of other kinds: each pod and container has one group
/// of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cgroups {
    usual: u64,
}

impl Cgroups {
    /// Reads `memory  4  64734  1`.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if let ["nr_dying_descendants", count] = words[..] {
            seen.figure("dying-cgroups", count, line);
        }
        let [kind, hierarchy, count, _] = words[..] else {
            return;
        };
        // Control groups of version 2 have no hierarchy here, and no id after they are removed.
        let count = count.parse::<u64>().ok().filter(|_| hierarchy != "0");
        match count {
            Some(count) if kind == "memory" => {
                let row = TableRow::new("memory-cgroups", line).number("count", count as f64);
                let usual = (self.usual > 0).then_some(self.usual as f64);
                let times = usual.map(|usual| count as f64 / usual);
                seen.row(row.number("usual", usual).number("times", times));
            }
            Some(count) => self.usual = self.usual.max(count),
            None => {}
        }
    }
}
