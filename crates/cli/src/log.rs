//! Logs to standard error that never stop the work: lines go through a bounded queue to a
//! thread of their own. Where nobody reads them, or standard error is broken, they are lost.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::args::Format;

/// How many lines may wait for a reader.
const WAITING: usize = 1000;

/// `RUST_LOG` wins over `-v`; without either, warnings, and a daemon's own story.
pub fn to_stderr(verbose: u8, format: Format) {
    let level = match verbose {
        0 => "warn",
        1 => "info",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(level));
    let ansi = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let log = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(QUEUE.get_or_init(Queue::new).clone())
        .with_ansi(ansi);
    match format {
        Format::Text => log.init(),
        Format::Json => log
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .init(),
    }
}

/// Says a last sentence, if anybody can hear it.
pub fn last_words(sentence: &str, format: Format) {
    match format {
        Format::Text => drop(writeln!(anstream::stderr(), "pleg: {sentence}")),
        Format::Json => {
            tracing::error!("{sentence}");
            flush();
        }
    }
}

/// Waits a moment for what is still queued, before the process ends.
pub fn flush() {
    let (written, all_written) = sync_channel(1);
    if let Some(queue) = QUEUE.get()
        && queue.0.try_send(Entry::Flush(written)).is_ok()
    {
        // Nobody reads: then nobody misses it.
        let _ = all_written.recv_timeout(Duration::from_millis(200));
    }
}

static QUEUE: OnceLock<Queue> = OnceLock::new();

enum Entry {
    Line(Vec<u8>),
    /// Everything before this was written once this is answered.
    Flush(SyncSender<()>),
}

#[derive(Clone)]
struct Queue(SyncSender<Entry>);

impl Queue {
    fn new() -> Self {
        let (sender, entries) = sync_channel(WAITING);
        std::thread::spawn(move || {
            for entry in entries {
                match entry {
                    // There is no other place to say that this failed.
                    Entry::Line(line) => drop(io::stderr().write_all(&line)),
                    Entry::Flush(written) => drop(written.try_send(())),
                }
            }
        });
        Self(sender)
    }
}

impl Write for Queue {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        // A full queue loses the line rather than the time of whoever wrote it.
        let _ = self.0.try_send(Entry::Line(line.to_vec()));
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Queue {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}
