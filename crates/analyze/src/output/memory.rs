//! `free`, and the two lines of `top` about memory.

use super::Seen;
use crate::table::TableRow;

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Memory {
    has_available: bool,
    total: f64,
    available_percent: Option<f64>,
}

impl Memory {
    /// Whether the words are a header: `total  used  free  shared  buff/cache  available`.
    pub(super) fn begins(words: &[&str]) -> bool {
        words.starts_with(&["total", "used", "free"])
    }

    /// Reads a line of `free`.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if Self::begins(&words) {
            self.has_available = words.last() == Some(&"available");
            return;
        }
        let number = |at: usize| words.get(at).and_then(|word| amount(word));
        let available = match words.first() {
            Some(&"Mem:") => {
                self.total = number(1).unwrap_or(0.0);
                number(6).filter(|_| self.has_available)
            }
            Some(&"-/+") => number(3),
            Some(&"Swap:") => {
                let (total, free) = (number(1), number(3));
                let free = total.zip(free).filter(|(total, _)| *total > 0.0);
                if let Some((total, free)) = free {
                    let row = TableRow::new("swap", line);
                    let row = row.number("free-percent", free / total * 100.0);
                    seen.row(row.number("available-percent", self.available_percent));
                }
                None
            }
            _ => None,
        };
        if let Some(available) = available.filter(|_| self.total > 0.0) {
            self.available(available, None, line, seen);
        }
    }

    /// Reads `KiB Mem :  1015368 total, …` and `KiB Swap:  …  24816 avail Mem`.
    pub(super) fn read_top(&mut self, text: &str, line: u64, seen: &mut Seen) {
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
            Some(words.last()?.parse::<f64>().ok()? * mib)
        };
        if rest.starts_with("Mem") {
            self.total = before(" total").unwrap_or(0.0);
        }
        if let Some(available) = before(" avail Mem").filter(|_| self.total > 0.0) {
            self.available(available, Some(available), line, seen);
        }
    }

    fn available(&mut self, available: f64, mib: Option<f64>, line: u64, seen: &mut Seen) {
        let percent = available / self.total * 100.0;
        self.available_percent = Some(percent);
        let row = TableRow::new("memory", line).number("available-percent", percent);
        seen.row(row.number("available-mib", mib));
    }
}

/// The amount in `32019`, `31Gi`, `1.1G` or `512M`, in the unit of numbers without a suffix.
fn amount(text: &str) -> Option<f64> {
    let unit = text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
    let number: f64 = text[..text.len() - unit.len()].parse().ok()?;
    let power = match unit.bytes().next() {
        None | Some(b'B') => 0,
        Some(b'K' | b'k') => 1,
        Some(b'M') => 2,
        Some(b'G') => 3,
        Some(b'T') => 4,
        Some(_) => return None,
    };
    Some(number * 1024f64.powi(power))
}
