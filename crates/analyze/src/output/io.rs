//! `iostat`, `vmstat`, `sar` and `iotop`: what the disks do, and what the processors wait for.
//!
//! Columns are counted from the right: the number of words before the numbers differs from row to row.

use super::Seen;
use crate::table::TableRow;

/// The columns that the last header named, from the right.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Io {
    table: Table,
    waiting: usize,
    stolen: Option<usize>,
    swapped_in: Option<usize>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Table {
    #[default]
    None,
    /// The share of time that the processors spend in each state.
    Processors,
    /// The disks.
    Devices,
    /// `vmstat`.
    System,
    /// The threads that do I/O.
    Threads,
}

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
            // A table of devices without these columns ends the previous table.
            first if first.starts_with("Device") => Some(table(Table::None, 0)),
            _ => None,
        }
    }

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
        let row = match self.table {
            Table::Devices => {
                let name = words.iter().find(is_name).unwrap_or(&"a disk");
                let row = TableRow::new("devices", line).text("device", *name);
                row.number("busy", words.last().and_then(|word| number(word)))
                    .number("wait", waiting)
            }
            Table::Processors | Table::System => {
                let row = TableRow::new("processors", line).number("waiting", waiting);
                row.number("stolen", self.stolen.and_then(share))
                    .number("swapped-in", self.swapped_in.and_then(share))
            }
            Table::None | Table::Threads => return,
        };
        seen.row(row);
    }
}

/// Whether a word is the name of a disk, `sda` or `dev8-0`, and not a time or `AM`.
fn is_name(word: &&&str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit();
    word.len() > 2 && !word.contains(':') && !word.bytes().next().is_some_and(is_digit)
}

/// Reads `611 be/3 root  0.00 B/s  12.11 K/s  0.00 % 99.99 % [jbd2/sda1-8]`.
fn thread(text: &str, line: u64, seen: &mut Seen) {
    let Some((numbers, command)) = text.rsplit_once(" % ") else {
        return;
    };
    let waiting = numbers.rsplit(' ').next().and_then(number);
    let row = TableRow::new("io-threads", line).text("command", command.trim());
    seen.row(row.number("waiting", waiting));
}

/// `88.02`, or `88,02` in locales with a decimal comma.
fn number(word: &str) -> Option<f64> {
    word.replace(',', ".").parse().ok()
}
