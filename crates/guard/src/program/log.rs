//! Logs to standard error without blocking: lines go through a bounded queue to a separate thread. A line
//! is dropped if the queue is full.
//!
//! A line may contain text from the runtime, so each line is escaped.

use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use rustix::fs::fstat;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// How many lines may wait to be written.
const MAX_QUEUED_LINES: usize = 1000;

/// How long the process waits for the last lines before it exits.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

enum Entry {
    Line(String),
    /// Answered once all lines before it are written.
    Flush(SyncSender<()>),
}

/// The log of this process.
pub struct Log(SyncSender<Entry>);

impl Log {
    /// Starts the log. If `RUST_LOG` is the name of a level, it takes precedence over `verbose`.
    pub fn start(verbose: u8) -> Self {
        let name = std::env::var("RUST_LOG").ok();
        let level = name.and_then(|name| name.parse().ok());
        let level = level.unwrap_or(match verbose {
            0 => Level::INFO,
            1 => Level::DEBUG,
            _ => Level::TRACE,
        });
        let (sender, entries) = sync_channel(MAX_QUEUED_LINES);
        std::thread::spawn(move || {
            for entry in entries {
                match entry {
                    // There is no other place to report that this failed.
                    Entry::Line(line) => drop(io::stderr().write_all(line.as_bytes())),
                    Entry::Flush(written) => drop(written.try_send(())),
                }
            }
        });
        let lines = Lines {
            level,
            is_journal: is_journal(),
            queue: sender.clone(),
        };
        // Nothing else in this process sets a subscriber.
        let _ = tracing::subscriber::set_global_default(lines);
        Self(sender)
    }

    /// Waits until all lines are written, but not longer than `FLUSH_TIMEOUT`.
    pub fn flush(&self) {
        let (written, all_written) = sync_channel(1);
        if self.0.try_send(Entry::Flush(written)).is_ok() {
            let _ = all_written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Whether standard error is systemd's journal, which adds the time and reads a priority from each line
/// (systemd.exec(5), `JOURNAL_STREAM`).
fn is_journal() -> bool {
    let Some(journal) = std::env::var_os("JOURNAL_STREAM") else {
        return false;
    };
    let stderr = fstat(io::stderr());
    stderr.is_ok_and(|stderr| *format!("{}:{}", stderr.st_dev, stderr.st_ino) == *journal)
}

/// Writes a line for each event. There are no spans.
struct Lines {
    level: Level,
    is_journal: bool,
    queue: SyncSender<Entry>,
}

impl Subscriber for Lines {
    fn enabled(&self, about: &Metadata<'_>) -> bool {
        let is_ours = ["guard", "pleg_guard", "base", "cri"]
            .iter()
            .any(|module| about.target().split("::").next() == Some(*module));
        // At levels below INFO the libraries log each frame.
        let max_level = match is_ours || self.level == Level::TRACE {
            true => self.level,
            false => self.level.min(Level::INFO),
        };
        *about.level() <= max_level
    }

    fn event(&self, event: &Event<'_>) {
        let mut text = Text::default();
        event.record(&mut text);
        let text = pleg_text::escape::sentence(&text.0);
        let level = *event.metadata().level();
        let line = match self.is_journal {
            true => format!("<{}>{text}\n", priority(level)),
            false => format!("{} {level:>5} {text}\n", pleg_text::WallTime::now()),
        };
        // If the queue is full, drop the line: the calls must not wait.
        let _ = self.queue.try_send(Entry::Line(line));
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        Level::DEBUG | Level::TRACE => 7,
    }
}

/// The message, followed by `name=value` for each field.
#[derive(Default)]
struct Text(String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        // Writing to a string cannot fail.
        let _ = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_can_forge_a_line() {
        let (queue, entries) = sync_channel(10);
        let lines = Lines {
            level: Level::INFO,
            is_journal: true,
            queue,
        };
        tracing::subscriber::with_default(lines, || {
            tracing::warn!(target: "guard::proxy", "lost: {}", "a\n<3>b\u{1b}[2J");
            tracing::debug!(target: "guard::proxy", "not at this level");
            tracing::error!(target: "h2", "of a library");
        });
        let lines: Vec<String> = entries
            .try_iter()
            .filter_map(|entry| match entry {
                Entry::Line(line) => Some(line),
                Entry::Flush(_) => None,
            })
            .collect();
        let expected = ["<4>lost: a\\n<3>b\\u{1b}[2J\n", "<3>of a library\n"];
        assert_eq!(lines, expected);
    }
}
