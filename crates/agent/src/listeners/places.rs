//! The places of a server limit how many connections there are at once. An idle connection cannot
//! keep its place.
//!
//! ```text
//!   asking (50 ms) --request--> answering (200 ms) --answer--> the place is free
//!                                     |  it is Endless
//!                                     v
//!                                 for as long as it is read
//! ```
//!
//! While places are free, no connection has to leave. If all are taken and a new connection arrives,
//! a connection whose time is up has to leave: the oldest that has not sent its request, or else the
//! oldest that is being answered. So a new connection waits 200 ms at most, whatever the others do,
//! and has 50 ms for a request that usually arrives with it. Endless answers keep their places; the
//! handler that gives them limits their number.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

/// How long a connection may take to send its request while others wait.
const REQUEST_TIME: Duration = Duration::from_millis(50);

/// How long a client may take to read its answer while others wait.
const ANSWER_TIME: Duration = Duration::from_millis(200);

/// What a connection does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Sends its request.
    Asking,
    /// Is answered.
    Answering,
    /// Is answered for as long as it reads.
    Endless,
}

/// The places of a server.
pub struct Places {
    limit: usize,
    taken: Mutex<Taken>,
    freed: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct Taken {
    /// The places that are taken, the oldest first.
    places: BTreeMap<u64, State>,
    next: u64,
}

struct State {
    stage: Stage,
    since: Instant,
    leave: CancellationToken,
}

/// A place that a connection has taken. It is free again when this is dropped.
pub struct Place {
    number: u64,
    places: Arc<Places>,
    leave: CancellationToken,
}

impl Places {
    /// `limit` free places. All connections have to leave when `closed` is cancelled.
    pub fn new(limit: usize, closed: CancellationToken) -> Arc<Self> {
        Arc::new(Self {
            limit,
            taken: Mutex::default(),
            freed: Notify::new(),
            closed,
        })
    }

    /// Takes a place, as soon as one is free or can be made free.
    pub async fn take(self: &Arc<Self>) -> Place {
        loop {
            let next = match self.try_take() {
                Ok(place) => return place,
                Err(next) => next,
            };
            let time_is_up = async {
                match next {
                    Some(next) => sleep_until(next).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = self.freed.notified() => {}
                () = time_is_up => {}
            }
        }
    }

    /// Takes a place, or returns when one can be made free.
    fn try_take(self: &Arc<Self>) -> Result<Place, Option<Instant>> {
        let mut taken = self.taken();
        if taken.places.len() >= self.limit {
            taken.make_room(Instant::now())?;
        }
        let leave = self.closed.child_token();
        let state = State {
            stage: Stage::Asking,
            since: Instant::now(),
            leave: leave.clone(),
        };
        let number = taken.next;
        taken.next += 1;
        taken.places.insert(number, state);
        drop(taken);
        Ok(Place {
            number,
            places: self.clone(),
            leave,
        })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().expect("no panic while it is held")
    }
}

impl Taken {
    /// Makes a connection whose time is up leave. If there is none, returns when the next one's time
    /// will be up.
    fn make_room(&mut self, now: Instant) -> Result<(), Option<Instant>> {
        let ends = |state: &State| state.time_is_up_at();
        let late = self.places.iter().filter(|(_, state)| {
            let end = ends(state);
            end.is_some_and(|end| end <= now)
        });
        // Of several in the same stage, this selects the first, which is the oldest.
        let late = late.min_by_key(|(_, state)| state.stage);
        let Some((&number, _)) = late else {
            return Err(self.places.values().filter_map(ends).min());
        };
        if let Some(state) = self.places.remove(&number) {
            state.leave.cancel();
        }
        Ok(())
    }
}

impl State {
    /// When the connection has to leave if another one waits; `None` for never.
    fn time_is_up_at(&self) -> Option<Instant> {
        match self.stage {
            Stage::Asking => Some(self.since + REQUEST_TIME),
            Stage::Answering => Some(self.since + ANSWER_TIME),
            Stage::Endless => None,
        }
    }
}

impl Place {
    /// Records that the connection is at this stage from now on.
    pub fn enter(&self, stage: Stage) {
        if let Some(state) = self.places.taken().places.get_mut(&self.number) {
            state.stage = stage;
            state.since = Instant::now();
        }
    }

    /// Waits until the connection has to end.
    pub async fn has_to_leave(&self) {
        self.leave.cancelled().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let left = self.places.taken().places.remove(&self.number);
        // The place of a connection that had to leave was already given to another.
        if left.is_some() {
            self.places.freed.notify_one();
        }
    }
}
