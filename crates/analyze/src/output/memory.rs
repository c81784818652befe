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
    available: Option<f64>,
}

/// If less than this share is available, the kernel evicts pages of running programs.
const SHORT_SHARE: f64 = 0.02;

/// The same where no swap is left either.
const SHORT_SHARE_WITHOUT_SWAP: f64 = 0.12;
const USED_UP: f64 = 0.01;

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
        let mut prove = |available: f64, confidence, more: &str| {
            let share = available / self.total * 100.0;
            let says = format!("{share:.1} % of the memory is available{more}");
            seen.proof(Proof::new(Cause::MemoryThrash, confidence, line, says));
        };
        let is_below = |available: f64, share| self.total > 0.0 && available < self.total * share;
        if words.first() == Some(&"Swap:")
            && let Some(available) = self.available
            && is_below(available, SHORT_SHARE_WITHOUT_SWAP)
            && !is_below(available, SHORT_SHARE)
            && is_used_up(&words)
        {
            prove(available, Confidence::Low, ", and no swap is left");
        }
        let Some(available) = available.and_then(|available| amount(available)) else {
            return;
        };
        if is_below(available, SHORT_SHARE) {
            prove(available, Confidence::Medium, "");
        }
        self.available = Some(available);
    }
}

/// Whether there is swap, of `Swap:  511Mi  511Mi  0B`, and none is free.
fn is_used_up(words: &[&str]) -> bool {
    let number = |at: usize| words.get(at).and_then(|word| amount(word));
    let (Some(total), Some(free)) = (number(1), number(3)) else {
        return false;
    };
    total > 0.0 && free <= total * USED_UP
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
