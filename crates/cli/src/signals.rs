//! SIGTERM and Ctrl-C: the good end of a command that goes on for as long as it may.

use std::io;

use tokio::signal::unix::{SignalKind, signal};

/// Waits for either. Both are taken care of from this call on, not from the first poll.
pub fn interrupted() -> io::Result<impl Future<Output = &'static str>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => "SIGTERM",
            _ = interrupt.recv() => "SIGINT",
        }
    })
}
