//! `iostat`, `vmstat`, `sar` and `iotop`: what the disks do, and what the processors wait for.
//!
//! Columns are counted from the right: what stands in front of the numbers differs from row to row.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// The columns that the last header named, from the right.
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
    /// The share of each state.
    Processors,
    /// Disks.
    Devices,
    /// `vmstat`.
    System,
    /// The threads that do I/O.
    Threads,
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
        let from_right = |at: usize| words.len() - at;
        let at = |name: &str| words.iter().position(|word| *word == name).map(from_right);
        let table = |table, waiting| Self {
            table,
            waiting,
            stolen: None,
            swapped_in: None,
        };
        let is_last = |name: &str| words.last() == Some(&name);
        match words.first()? {
            &"r" if words.get(1) == Some(&"b") => Some(Self {
                stolen: at("st"),
                swapped_in: at("si"),
                ..table(Table::System, at("wa")?)
            }),
            first if (first.starts_with("Device") || at("DEV").is_some()) && is_last("%util") => {
                let waiting = at("await").or_else(|| at("w_await"))?;
                Some(table(Table::Devices, waiting))
            }
            first if *first == "avg-cpu:" || at("CPU").is_some() && is_last("%idle") => {
                Some(Self {
                    stolen: at("%steal"),
                    ..table(Table::Processors, at("%iowait")?)
                })
            }
            &"TID" if at("IO>").is_some() && is_last("COMMAND") => Some(table(Table::Threads, 0)),
            // A short table of devices ends another one.
            first if first.starts_with("Device") => Some(table(Table::None, 0)),
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
        if self.table == Table::Threads {
            return thread(text, line, seen);
        }
        let share = |at: usize| number(words.get(words.len().checked_sub(at)?)?);
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
                let name = words.iter().find(is_name).unwrap_or(&"a disk");
                let says =
                    format!("{name} is busy {busy} % of the time, and requests wait {waiting} ms");
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
            Table::None | Table::Processors | Table::System | Table::Threads => return,
        };
        seen.proof(Proof::new(cause, Confidence::Medium, line, says));
    }
}

/// `sda`, `dev8-0`; no time stands for one, nor does `AM`.
fn is_name(word: &&&str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    word.len() > 2 && !word.contains(':') && !word.bytes().next().is_some_and(is_digit)
}

/// Reads `611 be/3 root  0.00 B/s  12.11 K/s  0.00 % 99.99 % [jbd2/sda1-8]`: the journal of a file
/// system, which everybody waits for, or writing back.
fn thread(text: &str, line: u64, seen: &mut Seen) {
    let Some((numbers, command)) = text.rsplit_once(" % ") else {
        return;
    };
    let command = command.trim();
    let is_of_kernel = [
        "[jbd2/",
        "[xfsaild",
        "[xfs-",
        "[kworker/",
        "[txg_sync",
        "[flush-",
    ]
    .iter()
    .any(|name| command.starts_with(name));
    let waits = numbers.rsplit(' ').next().and_then(number);
    if let Some(waits) = waits.filter(|waits| is_of_kernel && *waits >= BUSY_PERCENT) {
        let says = format!("{command} waits for the disk {waits} % of the time");
        let cause = Cause::DiskSaturated;
        seen.proof(Proof::new(cause, Confidence::Medium, line, says));
    }
}

/// `88.02`, or `88,02` as half of Europe writes it.
fn number(word: &str) -> Option<f64> {
    word.replace(',', ".").parse().ok()
}
