//! The progress of slow work, on standard error: in place on a terminal, and otherwise as a line every
//! few seconds, so that a log of it stays short.

use std::io::Write;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pleg::out::status_report::Progress;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A command that ends within this time shows no progress.
const SHOWN_AFTER: Duration = Duration::from_secs(1);

/// The time before the first line and between two lines, if standard error is not a terminal.
const LINE_INTERVAL: Duration = Duration::from_secs(3);

/// The time between two changes of the spinner.
const SPINNER_INTERVAL: Duration = Duration::from_millis(120);

/// On a terminal, shows what the command waits for and how long it has waited, until this value is
/// dropped. Elsewhere it shows nothing.
pub struct Waiting {
    bar: ProgressBar,
    show: JoinHandle<()>,
}

impl Waiting {
    /// Shows "waiting for `what`", once the command has waited for a second.
    pub fn begin(what: String) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{spinner} waiting for {msg} ({elapsed})");
        bar.set_style(style.expect("the template is valid"));
        bar.set_message(what);
        let shown = bar.clone();
        let show = tokio::spawn(async move {
            sleep(SHOWN_AFTER).await;
            shown.set_draw_target(ProgressDrawTarget::stderr());
            shown.enable_steady_tick(SPINNER_INTERVAL);
        });
        Self { bar, show }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.show.abort();
        self.bar.finish_and_clear();
    }
}

/// Shows how many of all things are done, and records when that number last changed.
pub struct ProgressLine {
    /// The participle and the noun: "`inspected` 5 of 9 `pods`".
    words: (&'static str, &'static str),
    bar: ProgressBar,
    begun: Instant,
    last: Option<Progress>,
    moved: Instant,
    written: Instant,
}

impl ProgressLine {
    /// Shows "`done` 5 of 9 `things`".
    pub fn new(done: &'static str, things: &'static str) -> Self {
        let now = Instant::now();
        Self {
            words: (done, things),
            bar: ProgressBar::hidden(),
            begun: now,
            last: None,
            moved: now,
            written: now,
        }
    }

    /// Takes the current progress, and shows it: on a terminal from `SHOWN_AFTER` on, elsewhere as a
    /// line every `LINE_INTERVAL`.
    pub fn advance(&mut self, progress: Option<Progress>) {
        let now = Instant::now();
        if progress != self.last {
            self.last = progress;
            self.moved = now;
        }
        let Some(Progress { seen, of }) = progress else {
            return;
        };
        if self.bar.is_hidden() && now >= self.begun + SHOWN_AFTER {
            self.bar = ProgressBar::no_length();
            let style = ProgressStyle::with_template("{msg}");
            self.bar.set_style(style.expect("the template is valid"));
        }
        let (done, things) = self.words;
        let line = format!("{done} {} of {} {things}", grouped(seen), grouped(of));
        if self.bar.is_hidden() && now >= self.written + LINE_INTERVAL {
            self.written = now;
            // Standard error may be closed; the result does not depend on it.
            let _ = writeln!(anstream::stderr(), "{line}");
        } else {
            self.bar.set_message(line);
        }
    }

    /// When the progress last changed.
    pub fn moved(&self) -> Instant {
        self.moved
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// The number with grouped digits: 1234567 as 1,234,567.
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
    fn the_digits_of_large_numbers_are_grouped() {
        let shown = [0, 999, 1_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "1,234,567"]);
    }
}
