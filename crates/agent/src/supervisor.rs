//! What systemd is notified of: that this process is ready, makes progress, and stops.
//!
//! Without a supervisor that requests notifications (`NOTIFY_SOCKET`, `WATCHDOG_USEC`:
//! sd_notify(3)), none are sent.

use std::convert::Infallible;
use std::sync::LazyLock;
use std::time::Duration;

use pleg::Pleg;
use pleg::kernel::Blocking;
use sd_notify::NotifyState;
use tokio::time::{sleep, timeout};

/// How long a notification may take. A working supervisor accepts one at once.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// The pause before each attempt in [`keep_trying`].
const RETRY_PAUSE: Duration = Duration::from_secs(2);

/// How long to wait for the event loop, which normally runs many times within this time.
const TURN_TIMEOUT: Duration = Duration::from_secs(2);

/// Notifies systemd that this process listens. The runtime need not exist yet.
pub(crate) async fn ready() {
    notify(NotifyState::Ready).await;
}

/// Notifies systemd that this process is ready and what it waits for (`what`), and makes an
/// `attempt` every two seconds until one succeeds: a service that starts before its runtime has not
/// failed.
pub async fn keep_trying<T, E>(what: &'static str, attempt: impl AsyncFn() -> Result<T, E>) -> T {
    notify(NotifyState::Status(what)).await;
    ready().await;
    let pings = async {
        let Some(interval) = sd_notify::watchdog_enabled() else {
            return std::future::pending::<Infallible>().await;
        };
        loop {
            sleep(interval / 2).await;
            notify(NotifyState::Watchdog).await;
        }
    };
    let attempts = async {
        loop {
            sleep(RETRY_PAUSE).await;
            if let Ok(done) = attempt().await {
                return done;
            }
        }
    };
    let done = tokio::select! {
        done = attempts => done,
        never = pings => match never {},
    };
    notify(NotifyState::Status("")).await;
    done
}

/// Notifies systemd that this process stops.
pub(crate) async fn stopping() {
    notify(NotifyState::Stopping).await;
}

/// Notifies systemd twice in each watchdog interval, as long as the event loop runs.
pub(crate) async fn watchdog(pleg: &Pleg) -> Infallible {
    let Some(interval) = sd_notify::watchdog_enabled() else {
        return std::future::pending().await;
    };
    loop {
        sleep(interval / 2).await;
        match timeout(TURN_TIMEOUT, pleg.status()).await {
            Ok(_) => notify(NotifyState::Watchdog).await,
            Err(_) => tracing::error!("the event loop is not running"),
        }
    }
}

async fn notify(state: NotifyState<'static>) {
    static BLOCKING: LazyLock<Blocking> = LazyLock::new(Blocking::default);
    let notified = BLOCKING.run(NOTIFY_TIMEOUT, move || sd_notify::notify(&[state]));
    if let Some(Err(error)) = notified.await {
        tracing::debug!("systemd cannot be notified: {error}");
    }
}
