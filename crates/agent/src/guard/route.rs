//! How the calls of an agent reach the runtime: through the guard, or on the runtime's own socket while no
//! guard responds.

use std::future::Future;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cri::{Connect, Connection};
use guard_api::{Error, StatusRequest};
use tokio::time::{Instant, sleep};

use super::liveness::Liveness;
use super::{Guard, PAUSE_AFTER_ANSWER, REACH_TIMEOUT};

/// How long to wait for a guard that does not respond: one that was killed is restarted within this time,
/// and one that was paused continues.
const RESTART_TIMEOUT: Duration = Duration::from_secs(2);

/// How calls reach the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// Through the guard that started at this time, in nanoseconds since 1970.
    Guard(u64),
    /// On the runtime's own socket.
    Runtime,
}

impl Guard {
    /// How calls reach the runtime, by the last answer of the guard.
    pub(super) fn route(&self) -> Route {
        self.liveness.borrow().route()
    }

    /// Whether calls now reach the runtime by another route, because the guard was replaced, does not
    /// respond, or responds again.
    pub(super) async fn has_changed_since(&self, route: Route) -> bool {
        self.current().await.route() != route
    }

    /// Connections to the runtime: through the guard, which combines our calls with those of a kubelet, or
    /// to the runtime itself if there is no guard or it does not respond.
    pub(crate) fn connect(&self) -> Connect {
        let guard = self.clone();
        Arc::new(move || {
            let guard = guard.clone();
            Box::pin(async move {
                let route = guard.reach().await?;
                let socket: &Path = match route {
                    Route::Guard(_) => guard.client.socket(),
                    Route::Runtime => &guard.runtime,
                };
                let connection = Connection::open(socket.to_owned()).await?;
                Ok(connection.until(guard.changes_from(route)))
            })
        })
    }

    /// Which route leads to the runtime now; an error if the guard cannot reach it.
    async fn reach(&self) -> io::Result<Route> {
        let request = StatusRequest {
            seen: 0,
            reach: true,
        };
        let began = Instant::now();
        loop {
            let answer = self.request(request.clone(), REACH_TIMEOUT).await;
            let liveness = self.liveness.borrow().clone();
            match (answer, liveness) {
                (Ok(status), Liveness::Answers(_)) => {
                    return match status.unreachable {
                        None => Ok(Route::Guard(status.started)),
                        Some(why) if why.errno != 0 => Err(io::Error::from_raw_os_error(why.errno)),
                        Some(why) => Err(io::Error::other(why.message)),
                    };
                }
                (Err(Error::Unreachable { .. }), Liveness::Unresponsive(..))
                    if began.elapsed() < RESTART_TIMEOUT =>
                {
                    sleep(PAUSE_AFTER_ANSWER).await;
                }
                _ => return Ok(Route::Runtime),
            }
        }
    }

    /// Waits until another route should be used. Returns the reason, as an error.
    fn changes_from(&self, route: Route) -> impl Future<Output = io::Error> + Send + use<> {
        let mut liveness = self.liveness.subscribe();
        let is_other = move |liveness: &Liveness| match route {
            Route::Guard(_) => matches!(liveness, Liveness::Unresponsive(..)),
            Route::Runtime => matches!(liveness, Liveness::Answers(_)),
        };
        async move {
            let why = loop {
                if liveness.wait_for(is_other).await.is_err() {
                    return io::Error::other("this process ends");
                }
                if route == Route::Runtime {
                    break "there is a guard now";
                }
                sleep(RESTART_TIMEOUT).await;
                if is_other(&liveness.borrow_and_update()) {
                    break "the guard does not respond";
                }
            };
            io::Error::new(io::ErrorKind::ConnectionReset, why)
        }
    }
}

#[cfg(test)]
mod tests {
    use cri::Endpoint;

    use super::super::liveness::tests::{RUNTIME, in_phase};
    use super::super::view::Phase;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_changes_its_route_with_the_guard() {
        let guard = Guard::new("/run/guard.sock", &Endpoint::new(RUNTIME));
        let within = Duration::from_secs(5);
        let changes = async |route, liveness: Liveness| {
            guard.liveness.send_replace(liveness);
            let changed = tokio::time::timeout(within, guard.changes_from(route));
            changed.await.is_ok()
        };
        let unresponsive = || Liveness::Unresponsive(Instant::now(), None);
        assert!(changes(Route::Guard(1), unresponsive()).await);
        assert!(!changes(Route::Guard(1), in_phase(Phase::Passing)).await);
        assert!(changes(Route::Runtime, in_phase(Phase::Passing)).await);
        assert!(!changes(Route::Runtime, Liveness::Absent).await);
        assert!(!changes(Route::Runtime, unresponsive()).await);
    }
}
