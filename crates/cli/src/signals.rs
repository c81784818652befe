//! The signals that end a command that runs until it is interrupted: SIGTERM and Ctrl-C, and SIGHUP for
//! a screen.

use std::io;

use rustix::process::{Signal, getpid, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGTERM or SIGINT. Both are caught from this call on, even before the future is awaited.
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

/// Like [`interrupted`], for a daemon: SIGHUP is ignored, because the terminal from which the daemon
/// was started may close.
pub fn daemon_ended() -> io::Result<impl Future<Output = &'static str>> {
    let hang_up = signal(SignalKind::hangup())?;
    let interrupted = interrupted()?;
    Ok(async move {
        let _ignored = hang_up;
        interrupted.await
    })
}

/// Like [`interrupted`], for a screen: SIGHUP ends it too, because the screen's terminal is gone.
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
    /// Catches SIGTSTP from now on.
    pub fn new() -> io::Result<Self> {
        let kind = SignalKind::from_raw(Signal::TSTP.as_raw());
        signal(kind).map(Self)
    }

    /// Waits for the next SIGTSTP.
    pub async fn next(&mut self) {
        self.0.recv().await;
    }

    /// Stops this process until SIGCONT.
    pub fn stop() -> io::Result<()> {
        // Not SIGTSTP: it would run our own handler, and has no effect in an orphaned process group.
        kill_process(getpid(), Signal::STOP)?;
        Ok(())
    }

    /// Makes the session draw at once, by the signal for a change of the terminal's size (SIGWINCH).
    pub fn redraw() -> io::Result<()> {
        kill_process(getpid(), Signal::WINCH)?;
        Ok(())
    }
}
