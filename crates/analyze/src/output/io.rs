//! `iostat` and `vmstat`: what the disks do, and what the processors wait for.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// The columns that the last header named.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Io {
    table: Table,
    waiting: usize,
    stolen: Option<usize>,
    /// What is read from swap.
    swapped_in: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Table {
    #[default]
    None,
    /// `iostat`'s share of each state; its row has no name in front.
    Processors,
    /// `iostat`'s devices.
    Devices,
    /// `vmstat`.
    System,
}

/// Percent of the time.
const BUSY_PERCENT: f64 = 95.0;
const HIGH_PERCENT: f64 = 30.0;
/// In KiB a second: memory that is needed again at once.
const SWAPPED_IN: f64 = 1000.0;
/// How long a request waits on a disk that is too slow for its load.
const SLOW_MILLISECONDS: f64 = 50.0;

/// Whether only such a table has this line.
pub(super) fn begins(words: &[&str]) -> bool {
    Io::of_header(words).is_some()
}

impl Io {
    fn of_header(words: &[&str]) -> Option<Self> {
        let at = |name: &str| words.iter().position(|word| *word == name);
        match words.first()? {
            &"avg-cpu:" => Some(Self {
                table: Table::Processors,
                // The row below has no name in front.
                waiting: at("%iowait")?.checked_sub(1)?,
                stolen: at("%steal").and_then(|at| at.checked_sub(1)),
                swapped_in: None,
            }),
            first if first.starts_with("Device") && words.last() == Some(&"%util") => Some(Self {
                table: Table::Devices,
                waiting: at("await").or_else(|| at("w_await"))?,
                stolen: None,
                swapped_in: None,
            }),
            &"r" if words.get(1) == Some(&"b") => Some(Self {
                table: Table::System,
                waiting: at("wa")?,
                stolen: at("st"),
                swapped_in: at("si"),
            }),
            _ => None,
        }
    }

    /// Reads a line.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if let Some(header) = Self::of_header(&words) {
            *self = header;
            return;
        }
        let share = |at: usize| words.get(at).and_then(|word| number(word));
        let Some(waiting) = share(self.waiting) else {
            return;
        };
        let stolen = self.stolen.and_then(share).unwrap_or(0.0);
        let swapped_in = self.swapped_in.and_then(share).unwrap_or(0.0);
        let (cause, says) = match self.table {
            Table::System if swapped_in > SWAPPED_IN && waiting > HIGH_PERCENT => {
                let says = format!(
                    "{swapped_in} KiB are read from swap each second, and the CPUs wait for I/O \
                     {waiting} % of the time"
                );
                (Cause::MemoryThrash, says)
            }
            Table::Devices => {
                let busy = words.last().and_then(|word| number(word)).unwrap_or(0.0);
                if busy < BUSY_PERCENT || waiting < SLOW_MILLISECONDS {
                    return;
                }
                let says = format!(
                    "{} is busy {busy} % of the time, and requests wait {waiting} ms",
                    words[0]
                );
                (Cause::DiskSaturated, says)
            }
            Table::Processors | Table::System if stolen > HIGH_PERCENT => {
                let says = format!("the host took {stolen} % of the CPU time (steal)");
                (Cause::CpuStarved, says)
            }
            Table::Processors | Table::System if waiting > HIGH_PERCENT => {
                let says = format!("the CPUs wait for I/O {waiting} % of the time");
                (Cause::DiskSaturated, says)
            }
            _ => return,
        };
        seen.proof(Proof::new(cause, Confidence::Medium, line, says));
    }
}

/// `88.02`, or `88,02` as half of Europe writes it.
fn number(word: &str) -> Option<f64> {
    word.replace(',', ".").parse().ok()
}
