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

use super::seen::Seen;
use super::{Guard, PAUSE_AFTER_ANSWER, REACH_TIMEOUT};

/// A guard that was killed is started again within this time; one that is paused goes on.
const RESTART_TIMEOUT: Duration = Duration::from_secs(2);

/// How calls reach the runtime.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Through the guard that started at this time, in nanoseconds since 1970.
    Guard(u64),
    /// On the runtime's own socket.
    Runtime,
}

impl Guard {
    /// How calls reach the runtime, as far as this is known.
    pub(super) fn way(&self) -> Way {
        self.seen.borrow().way()
    }

    /// Whether calls reach the runtime on another way now: the guard was replaced, does not respond, or
    /// responds again.
    pub(super) async fn has_changed_since(&self, way: Way) -> bool {
        self.current().await.way() != way
    }

    /// Connections to the runtime: through the guard, which shares calls with a kubelet's; without one,
    /// and while it does not respond, to the runtime itself.
    pub(crate) fn connect(&self) -> Connect {
        let guard = self.clone();
        Arc::new(move || {
            let guard = guard.clone();
            Box::pin(async move {
                let way = guard.reach().await?;
                let socket: &Path = match way {
                    Way::Guard(_) => guard.client.socket(),
                    Way::Runtime => &guard.runtime,
                };
                let connection = Connection::open(socket.to_owned()).await?;
                Ok(connection.until(guard.changes_from(way)))
            })
        })
    }

    /// Which way leads to the runtime now; an error if the guard cannot reach it.
    async fn reach(&self) -> io::Result<Way> {
        let request = StatusRequest {
            seen: 0,
            reach: true,
        };
        let began = Instant::now();
        loop {
            let answer = self.request(request.clone(), REACH_TIMEOUT).await;
            let seen = self.seen.borrow().clone();
            match (answer, seen) {
                (Ok(status), Seen::Answers(_)) => {
                    return match status.unreachable {
                        None => Ok(Way::Guard(status.started)),
                        Some(why) if why.errno != 0 => Err(io::Error::from_raw_os_error(why.errno)),
                        Some(why) => Err(io::Error::other(why.message)),
                    };
                }
                (Err(Error::Unreachable { .. }), Seen::Unresponsive(..))
                    if began.elapsed() < RESTART_TIMEOUT =>
                {
                    sleep(PAUSE_AFTER_ANSWER).await;
                }
                _ => return Ok(Way::Runtime),
            }
        }
    }

    /// Ends with the reason for which another way is right now.
    fn changes_from(&self, way: Way) -> impl Future<Output = io::Error> + Send + use<> {
        let mut seen = self.seen.subscribe();
        let is_other = move |seen: &Seen| match way {
            Way::Guard(_) => matches!(seen, Seen::Unresponsive(..)),
            Way::Runtime => matches!(seen, Seen::Answers(_)),
        };
        async move {
            let why = loop {
                if seen.wait_for(is_other).await.is_err() {
                    return io::Error::other("this process ends");
                }
                if way == Way::Runtime {
                    break "there is a guard now";
                }
                sleep(RESTART_TIMEOUT).await;
                if is_other(&seen.borrow_and_update()) {
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

    use super::super::seen::tests::{RUNTIME, in_phase};
    use super::super::view::Phase;
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_changes_its_way_with_the_guard() {
        let guard = Guard::new("/run/guard.sock", &Endpoint::new(RUNTIME));
        let within = Duration::from_secs(5);
        let changes = async |way, seen: Seen| {
            guard.seen.send_replace(seen);
            let changed = tokio::time::timeout(within, guard.changes_from(way));
            changed.await.is_ok()
        };
        let unresponsive = || Seen::Unresponsive(Instant::now(), None);
        assert!(changes(Way::Guard(1), unresponsive()).await);
        assert!(!changes(Way::Guard(1), in_phase(Phase::Passing)).await);
        assert!(changes(Way::Runtime, in_phase(Phase::Passing)).await);
        assert!(!changes(Way::Runtime, Seen::Absent).await);
        assert!(!changes(Way::Runtime, unresponsive()).await);
    }
}
