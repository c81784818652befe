//! Logs to standard error that never block: lines go through a bounded queue to a separate thread. If
//! nothing reads them, or standard error is broken, they are lost.
//!
//! A log line may contain text of a runtime. In text format each field is escaped before it becomes
//! part of a line, which may have colours; in JSON the whole line is escaped.

use std::fmt;
use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tracing::field::Field;
use tracing::{Level, Metadata};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::field::MakeExt;
use tracing_subscriber::fmt::format::{Writer, debug_fn};
use tracing_subscriber::fmt::{FormatFields, MakeWriter};

use crate::args::Format;

/// How many lines may wait to be written.
const MAX_WAITING_LINES: usize = 1000;

/// The journal's priority for informational lines (syslog(3)).
const INFO: u8 = 6;

/// Starts the log. `RUST_LOG` takes precedence over `verbose`.
pub fn to_stderr(verbose: u8, format: Format) {
    let level = match verbose {
        // We report kube's errors ourselves, and once, not at each attempt. `watch`
        // prints changes of health.
        0 => "warn,kube_client=off,pleg::health=off",
        1 => "info,kube_client=off",
        // The HTTP libraries would log each frame.
        2 => "debug,h2=info,hyper=info,hyper_util=info,tower=info",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let queue = QUEUE.get_or_init(Queue::new).clone();
    let form = match format {
        Format::Text if is_journal() => Form::Journal(INFO),
        Format::Text => Form::Text,
        Format::Json => Form::Json,
    };
    let lines = Lines { queue, form };
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(lines);
    match form {
        Form::Journal(_) => log
            .with_ansi(false)
            .without_time()
            .with_level(false)
            .fmt_fields(escaped_fields())
            .init(),
        Form::Text => log
            .with_ansi(ansi)
            .with_target(verbose > 0)
            .fmt_fields(escaped_fields())
            .init(),
        Form::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .init(),
    }
}

/// Whether standard error is systemd's journal, which has time and priority of its own
/// (systemd.exec(5), `JOURNAL_STREAM`).
fn is_journal() -> bool {
    let named = std::env::var("JOURNAL_STREAM");
    let ours = rustix::fs::fstat(io::stderr());
    ours.is_ok_and(|ours| named == Ok(format!("{}:{}", ours.st_dev, ours.st_ino)))
}

/// The message and then `name=value`, each value escaped.
fn escaped_fields() -> impl for<'writer> FormatFields<'writer> + Send + Sync + 'static {
    let field = |writer: &mut Writer<'_>, field: &Field, value: &dyn fmt::Debug| {
        let value = format!("{value:?}");
        let value = pleg_text::escape::sentence(&value);
        match field.name() {
            "message" => write!(writer, "{value}"),
            name => write!(writer, "{name}={value}"),
        }
    };
    debug_fn(field).delimited(" ")
}

/// Writes the error with which the process ends.
pub fn final_error(sentence: &str, format: Format) {
    match format {
        Format::Text => {
            let sentence = pleg_text::escape::page(sentence);
            // If standard error is closed, there is no other place to report it.
            let _ = writeln!(anstream::stderr(), "pleg: {sentence}");
        }
        Format::Json => {
            tracing::error!("{sentence}");
            flush();
        }
    }
}

/// Waits up to 200 ms until the queued lines are written, before the process ends.
pub fn flush() {
    let (written, all_written) = sync_channel(1);
    if let Some(queue) = QUEUE.get()
        && queue.0.try_send(Entry::Flush(written)).is_ok()
    {
        // On a timeout, standard error has no reader.
        let _ = all_written.recv_timeout(Duration::from_millis(200));
    }
}

/// From now on drops lines if standard error is a terminal, because a screen is shown on it.
pub fn suspend_on_terminal() {
    flush();
    SUSPENDED.store(io::stderr().is_terminal(), Ordering::Relaxed);
}

/// Writes lines again, because the screen has ended.
pub fn resume() {
    SUSPENDED.store(false, Ordering::Relaxed);
}

/// Whether lines are dropped.
static SUSPENDED: AtomicBool = AtomicBool::new(false);

static QUEUE: OnceLock<Queue> = OnceLock::new();

enum Entry {
    Line(Vec<u8>),
    /// Requests a message once all earlier lines are written.
    Flush(SyncSender<()>),
}

#[derive(Clone)]
struct Queue(SyncSender<Entry>);

impl Queue {
    fn new() -> Self {
        let (sender, entries) = sync_channel(MAX_WAITING_LINES);
        std::thread::spawn(move || {
            for entry in entries {
                match entry {
                    Entry::Line(_) if SUSPENDED.load(Ordering::Relaxed) => {}
                    // If standard error is closed, there is no other place to report it.
                    Entry::Line(line) => drop(io::stderr().write_all(&line)),
                    Entry::Flush(written) => drop(written.try_send(())),
                }
            }
        });
        Self(sender)
    }
}

/// Writes each line in one form to the queue.
#[derive(Clone)]
struct Lines {
    queue: Queue,
    form: Form,
}

#[derive(Clone, Copy)]
enum Form {
    Text,
    /// Every unprintable character is escaped.
    Json,
    /// For the journal: each line begins with this priority (sd-daemon(3)).
    Journal(u8),
}

impl Write for Lines {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let written = match self.form {
            Form::Text => line.to_vec(),
            Form::Json => {
                pleg_text::escape::json(String::from_utf8_lossy(line).into_owned()).into_bytes()
            }
            Form::Journal(priority) => [format!("<{priority}>").as_bytes(), line].concat(),
        };
        // If the queue is full, the line is dropped, so that the caller is never blocked.
        let _ = self.queue.0.try_send(Entry::Line(written));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }

    fn make_writer_for(&'a self, about: &Metadata<'_>) -> Self {
        let form = match self.form {
            Form::Journal(_) => Form::Journal(match *about.level() {
                Level::ERROR => 3,
                Level::WARN => 4,
                Level::INFO => INFO,
                Level::DEBUG | Level::TRACE => 7,
            }),
            form => form,
        };
        Self {
            queue: self.queue.clone(),
            form,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use tracing::subscriber::with_default;

    use super::*;

    #[derive(Clone, Default)]
    struct Written(Arc<Mutex<Vec<u8>>>);

    impl Write for Written {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(line);
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_field_can_forge_a_line_or_drive_a_terminal() {
        let lines = Written::default();
        let writer = lines.clone();
        let log = tracing_subscriber::fmt()
            .with_ansi(false)
            .fmt_fields(escaped_fields())
            .with_writer(move || writer.clone())
            .finish();
        let unprintable = ('\0'..=char::MAX).filter(|c| !pleg_text::escape::is_printable(*c));
        let mut expected = Vec::new();
        with_default(log, || {
            for character in unprintable {
                let evil = format!("a{character}b");
                tracing::warn!(error = %evil, "pod {evil}");
                let escaped = format!("a{}b", character.escape_default());
                expected.push(format!("pod {escaped} error={escaped}"));
            }
        });
        let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
        let written: Vec<&str> = text.split_terminator('\n').collect();
        assert_eq!(written.len(), expected.len());
        for (line, expected) in written.into_iter().zip(expected) {
            assert!(line.ends_with(&expected), "{line:?}");
            assert!(
                line.chars().all(pleg_text::escape::is_printable),
                "{line:?}"
            );
        }
    }
}
