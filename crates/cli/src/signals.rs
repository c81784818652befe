//! SIGTERM and Ctrl-C, and for a screen SIGHUP: the good end of a command that goes on for as long
//! as it may.

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

/// The same, or waits until the terminal has gone: what is on a screen is of no use without it.
pub fn screen_ended() -> io::Result<impl Future<Output = &'static str>> {
    let mut hang_up = signal(SignalKind::hangup())?;
    let interrupted = interrupted()?;
    Ok(async move {
        tokio::select! {
            _ = hang_up.recv() => "SIGHUP",
            signal = interrupted => signal,
        }
    })
}
