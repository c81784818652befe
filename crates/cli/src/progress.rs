//! How far something long has come, a look at a large node for example, on standard error: in place on a terminal, and
//! elsewhere in a line now and then, so that a log of it stays short.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use pleg::out::status_report::Progress;
use tokio::time::Instant;

/// Who is done by then needs no telling.
const SOON: Duration = Duration::from_secs(1);

/// Between two lines, and before the first of them.
const BETWEEN_LINES: Duration = Duration::from_secs(3);

/// Tells how far a look has come, and knows when it last came any further.
pub struct Teller {
    /// What is done, and to what.
    words: (&'static str, &'static str),
    bar: ProgressBar,
    begun: Instant,
    last: Option<Progress>,
    moved: Instant,
    told: Instant,
}

impl Teller {
    /// Tells "`done` 5 of 9 `things`".
    pub fn new(done: &'static str, things: &'static str) -> Self {
        let now = Instant::now();
        Self {
            words: (done, things),
            bar: ProgressBar::hidden(),
            begun: now,
            last: None,
            moved: now,
            told: now,
        }
    }

    /// Takes in how far it has come, and tells it if it is time.
    pub fn advance(&mut self, progress: Option<Progress>) {
        let now = Instant::now();
        if progress != self.last {
            self.last = progress;
            self.moved = now;
        }
        let Some(Progress { seen, of }) = progress else {
            return;
        };
        if self.bar.is_hidden() && now >= self.begun + SOON {
            self.bar = ProgressBar::no_length();
            let style = ProgressStyle::with_template("{msg}");
            self.bar.set_style(style.expect("it is ours"));
        }
        let (done, things) = self.words;
        let said = format!("{done} {} of {} {things}", grouped(seen), grouped(of));
        if self.bar.is_hidden() && now >= self.told + BETWEEN_LINES {
            self.told = now;
            // Who does not read it misses nothing of the answer.
            let _ = writeln!(anstream::stderr(), "{said}");
        } else {
            self.bar.set_message(said);
        }
    }

    /// Since when it has come no further.
    pub fn moved(&self) -> Instant {
        self.moved
    }
}

impl Drop for Teller {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// 1234567 as 1,234,567.
fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev();
    let groups: Vec<_> = groups.map(String::from_utf8_lossy).collect();
    groups.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_are_read_in_groups() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
