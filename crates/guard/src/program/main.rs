//! `pleg-guard`: the guard as a program, without the rest of pleg.
//!
//! ```text
//!   args --> listen_on: the socket, bound or passed by systemd --> the guard, in its own thread
//!                                                                      |
//!   systemd <-- ready, and a heartbeat twice in each watchdog interval --/
//! ```

use std::future::pending;
use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use args::{Command, Options};
use base::host::{Blocking, runtime_ids, state_file};
use guard::core::Settings;
use guard::{Handle, ListenError, Proxy, listen_on};
use log::Log;
use sd_notify::NotifyState;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::sleep;

mod args;
mod log;

/// How long it may take to notify systemd, which normally reads a notification at once.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// How long the guard may take to stop: a kubelet waits until the next guard has started.
const STOP_TIMEOUT: Duration = Duration::from_millis(200);

/// Why the guard ended unexpectedly.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("the guard has stopped")]
    Stopped,
}

fn main() -> ExitCode {
    let from_env = std::env::var("CONTAINER_RUNTIME_ENDPOINT").ok();
    let options = match args::read(std::env::args_os().skip(1), from_env, Path::exists) {
        Ok(Command::Run(options)) => options,
        Ok(Command::Print(text)) => {
            // The reader may be gone.
            let _ = io::stdout().write_all(text.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(error) => return failed(&error),
    };
    let log = Log::start(options.verbose);
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let ended = match runtime.enable_all().build() {
        Ok(runtime) => {
            let ended = runtime.block_on(run(options));
            // Do not wait for threads that hang.
            runtime.shutdown_background();
            ended
        }
        Err(error) => Err(error.into()),
    };
    log.flush();
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&error),
    }
}

fn failed(error: &dyn std::error::Error) -> ExitCode {
    let mut sentence = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        sentence += &format!(": {error}");
        source = error.source();
    }
    // There is no other place to report that this failed.
    let _ = writeln!(
        io::stderr(),
        "pleg-guard: {}",
        pleg_text::escape::sentence(&sentence)
    );
    ExitCode::from(2)
}

async fn run(options: Options) -> Result<(), Failure> {
    let mut terminated = signal(SignalKind::terminate())?;
    let mut interrupted = signal(SignalKind::interrupt())?;
    // Ignore SIGHUP: the terminal may close.
    let _hang_up = signal(SignalKind::hangup())?;
    let Options {
        runtime,
        listen,
        mode,
        limit,
        ..
    } = options;
    // Listen first: a kubelet that starts now waits, and its connection is not refused.
    let listener = listen_on(listen.path(), runtime.path()).await?;
    let proxy = Proxy {
        runtime: runtime.path().to_owned(),
        socket: listen.path().to_owned(),
        settings: Settings {
            limit,
            ..Settings::default()
        },
        state: Some(state_file(runtime.path(), "rows")),
        ids: runtime_ids(runtime.path()),
        unix_nanos: unix_nanos(),
    };
    let guard = proxy.start(listener, mode)?;
    tracing::info!("guarding {runtime} on {listen} (mode {mode:?})");
    notify(NotifyState::Ready).await;
    let ended = tokio::select! {
        () = guard.ended() => Err(Failure::Stopped),
        () = watchdog(&guard) => Ok(()),
        _ = terminated.recv() => Ok(()),
        _ = interrupted.recv() => Ok(()),
    };
    guard.stop(STOP_TIMEOUT).await;
    notify(NotifyState::Stopping).await;
    ended
}

fn unix_nanos() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX))
}

/// Notifies systemd twice in each watchdog interval, while the guard's event loop runs. Never returns.
async fn watchdog(guard: &Handle) {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return pending().await;
    };
    let mut beats = guard.beats();
    loop {
        sleep(interval / 2).await;
        let now = guard.beats();
        match std::mem::replace(&mut beats, now) == now {
            false => notify(NotifyState::Watchdog).await,
            true => tracing::error!("the guard's event loop is not running"),
        }
    }
}

async fn notify(state: NotifyState<'static>) {
    let blocking = Blocking::default();
    let notified = blocking.run(NOTIFY_TIMEOUT, move || sd_notify::notify(&[state]));
    if let Some(Err(error)) = notified.await {
        tracing::debug!("systemd cannot be notified: {error}");
    }
}
