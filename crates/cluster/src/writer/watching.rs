//! The watch of the own Node.

use std::time::Duration;

use fastrand::Rng;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, sleep_until};

use crate::api::{Api, Failure};
use crate::backoff::Backoff;
use crate::node::NodeChange;

/// A watch that lasted for this long has not failed at once.
const STABLE_WATCH_AFTER: Duration = Duration::from_secs(10);

/// The state of the Node, or why it cannot be read.
pub(super) type NodeUpdate = Result<NodeChange, Failure>;

/// Watches the own Node while there is a receiver. Retries after a failure with growing intervals.
pub(super) async fn watch_node(
    mut apis: watch::Receiver<Option<Api>>,
    updates: mpsc::Sender<NodeUpdate>,
) {
    let mut rng = Rng::new();
    let mut backoff = Backoff::default();
    loop {
        let api = apis.wait_for(Option::is_some).await;
        let Ok(Some(api)) = api.map(|api| api.clone()) else {
            return;
        };
        let start = Instant::now();
        let watched = tokio::select! {
            watched = api.watch(&updates) => watched,
            // The credentials have changed, so requests with the old ones end.
            changed = apis.changed() => match changed {
                Ok(()) => continue,
                Err(_) => return,
            },
        };
        let at_least = match &watched {
            Err(Failure::Busy { retry_after, .. }) => *retry_after,
            _ => Duration::ZERO,
        };
        if let Err(failure) = watched
            && updates.send(Err(failure)).await.is_err()
        {
            return;
        }
        if start.elapsed() >= STABLE_WATCH_AFTER {
            backoff.succeeded();
        }
        backoff.failed(at_least, Instant::now(), &mut rng);
        let retry = backoff.until().unwrap_or(start);
        tokio::select! {
            () = sleep_until(retry) => {}
            _ = apis.changed() => {}
        }
    }
}
