//! The two lines of `top` about memory.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// Less than both leaves no room for the programs' own pages, on a machine of any size.
const SHORT_SHARE: f64 = 0.03;
const SHORT_MIB: f64 = 1024.0;

/// What the first line told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct TopMemory {
    total: f64,
}

impl TopMemory {
    /// Reads `KiB Mem :  1015368 total, …` and `KiB Swap:  …  24816 avail Mem`.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        let Some((unit, rest)) = text.split_once(' ') else {
            return;
        };
        let mib = match unit {
            "KiB" => 1.0 / 1024.0,
            "MiB" => 1.0,
            "GiB" => 1024.0,
            _ => return,
        };
        let before = |name: &str| {
            let words = rest[..rest.find(name)?].split_ascii_whitespace();
            words.last()?.parse::<f64>().ok()
        };
        if rest.starts_with("Mem") {
            self.total = before(" total").unwrap_or(0.0) * mib;
        }
        let Some(available) = before(" avail Mem").map(|available| available * mib) else {
            return;
        };
        if available < self.total * SHORT_SHARE && available < SHORT_MIB {
            let share = available / self.total * 100.0;
            let says = format!("{available:.0} MiB of memory are available, {share:.1} % of all");
            seen.proof(Proof::new(
                Cause::MemoryThrash,
                Confidence::High,
                line,
                says,
            ));
        }
    }
}
