//! `free`.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// What the header and the first row told.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Memory {
    has_available: bool,
    total: f64,
}

/// If less than this share is available, the kernel evicts pages of running programs.
const SHORT_SHARE: f64 = 0.02;

impl Memory {
    /// `total  used  free  shared  buff/cache  available`
    pub(super) fn begins(words: &[&str]) -> bool {
        words.starts_with(&["total", "used", "free"])
    }

    /// Reads a line.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        let words: Vec<&str> = text.split_ascii_whitespace().collect();
        if Self::begins(&words) {
            self.has_available = words.last() == Some(&"available");
            return;
        }
        let available = match words.first() {
            Some(&"Mem:") => {
                self.total = words.get(1).and_then(|total| amount(total)).unwrap_or(0.0);
                words.get(6).filter(|_| self.has_available)
            }
            Some(&"-/+") => words.get(3),
            _ => None,
        };
        let Some(available) = available.and_then(|available| amount(available)) else {
            return;
        };
        if self.total > 0.0 && available < self.total * SHORT_SHARE {
            let share = available / self.total * 100.0;
            let says = format!("{share:.1} % of the memory is available");
            seen.proof(Proof::new(
                Cause::MemoryThrash,
                Confidence::Medium,
                line,
                says,
            ));
        }
    }
}

/// `32019`, `31Gi`, `1.1G`, `512M`: in one unit, whichever it is.
fn amount(text: &str) -> Option<f64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let unit = match text[end..].bytes().next() {
        None => 1.0,
        Some(b'B') => 1.0,
        Some(b'K' | b'k') => 1024.0,
        Some(b'M') => 1024.0 * 1024.0,
        Some(b'G') => 1024.0 * 1024.0 * 1024.0,
        Some(b'T') => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        Some(_) => return None,
    };
    Some(number * unit)
}
