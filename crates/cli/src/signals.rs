//! SIGTERM and Ctrl-C, and for a screen SIGHUP: the good end of a command that goes on for as long
//! as it may.

use std::io;

use rustix::process::{Signal, getpid, kill_process};
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

/// The same for a daemon, which SIGHUP does not end: its configuration is read once, and the terminal
/// that it was started from may close.
pub fn daemon_ended() -> io::Result<impl Future<Output = &'static str>> {
    let hang_up = signal(SignalKind::hangup())?;
    let interrupted = interrupted()?;
    Ok(async move {
        let _ignored = hang_up;
        interrupted.await
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

/// SIGTSTP, with which a shell's job control and `kill -TSTP` stop a process. A screen leaves the
/// terminal before it stops.
pub struct Stops(tokio::signal::unix::Signal);

impl Stops {
    /// Such signals from now on.
    pub fn new() -> io::Result<Self> {
        let kind = SignalKind::from_raw(Signal::TSTP.as_raw());
        signal(kind).map(Self)
    }

    /// Waits for the next one.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }

    /// Stops this process until SIGCONT.
    pub fn stop() -> io::Result<()> {
        // SIGTSTP is ignored where nobody could continue us, and has our own handler.
        kill_process(getpid(), Signal::STOP)?;
        Ok(())
    }

    /// Lets the session draw at once: it takes this for a change of the terminal's size.
    pub fn redraw() -> io::Result<()> {
        kill_process(getpid(), Signal::WINCH)?;
        Ok(())
    }
}
