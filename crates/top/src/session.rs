//! The loop: keys and updates change the state, and each change is drawn.
//!
//! ```text
//!   key        --> act, and draw at once
//!   update     --> apply, and draw within MIN_FRAME_INTERVAL: many updates make one frame
//!   a second   --> ages have changed: draw
//! ```

use std::fmt;
use std::future::pending;
use std::io;
use std::pin::Pin;
use std::time::Duration;

use crossterm::event::Event;
use futures_util::{Stream, StreamExt};
use pleg::model::wall_time::WallClock;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::diagnosis::Diagnosis;
use crate::input::action;
use crate::recording::Replay;
use crate::state::{Extent, Request, State};
use crate::update::Update;

/// The minimum time between two frames, unless a key is pressed.
const MIN_FRAME_INTERVAL: Duration = Duration::from_millis(100);

/// The time after which the screen is drawn without an update, because ages are shown in seconds.
const REDRAW_INTERVAL: Duration = Duration::from_secs(1);

/// The maximum number of updates that are applied before keys and time are checked again.
const MAX_UPDATES_PER_PASS: usize = 256;

/// A running doctor.
pub type Examination = Pin<Box<dyn Future<Output = Result<Diagnosis, String>>>>;

/// The source of updates.
#[derive(Debug)]
pub enum Feed {
    /// A live node.
    Live(Live),
    /// A recording, in which the reader steps.
    Recorded(Replay),
}

/// A live node.
pub struct Live {
    /// The updates of the node. A sender waits while this is full.
    pub updates: mpsc::Receiver<Update>,
    /// Runs the doctor.
    pub examine: Box<dyn Fn() -> Examination>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// Shows a feed until the reader quits. `keys` are the events of the terminal, and `draw` draws a
/// state on it.
pub async fn run(
    mut state: State,
    mut feed: Feed,
    mut keys: impl Stream<Item = io::Result<Event>> + Unpin,
    clock: &WallClock,
    mut draw: impl FnMut(&State) -> io::Result<Extent>,
) -> io::Result<()> {
    if let Feed::Recorded(replay) = &feed {
        state.replay(replay.position(), replay.updates());
    }
    let mut examination: Option<Examination> = None;
    let mut batch = Vec::new();
    let mut due = Instant::now();
    let mut drawn = due;
    loop {
        tokio::select! {
            biased;
            event = keys.next() => match event {
                // The stream of keys has ended.
                None => return Ok(()),
                Some(event) => {
                    state.tick(clock());
                    match press(&mut state, &event?) {
                        Some(Request::Quit) => return Ok(()),
                        Some(request) => serve(request, &mut state, &mut feed, &mut examination),
                        None => {}
                    }
                    due = Instant::now();
                }
            },
            () = sleep_until(due) => {
                state.tick(clock());
                let extent = draw(&state)?;
                state.drawn(extent);
                drawn = Instant::now();
                due = drawn + REDRAW_INTERVAL;
            }
            result = examined(&mut examination) => {
                examination = None;
                let now = clock();
                state.apply(Update::Findings { taken: now, result }, now);
                due = due.min(drawn + MIN_FRAME_INTERVAL);
            }
            () = received(&mut feed, &mut batch) => {
                let now = clock();
                for update in batch.drain(..) {
                    state.apply(update, now);
                }
                due = due.min(drawn + MIN_FRAME_INTERVAL);
            }
        }
    }
}

/// Applies an event of the terminal. An event other than a key, such as a change of size, only causes
/// a draw.
fn press(state: &mut State, event: &Event) -> Option<Request> {
    let Event::Key(key) = event else {
        return None;
    };
    state.act(action(*key, state.mode())?)
}

fn serve(
    request: Request,
    state: &mut State,
    feed: &mut Feed,
    examination: &mut Option<Examination>,
) {
    match (request, feed) {
        (Request::Examine, Feed::Live(live)) => *examination = Some((live.examine)()),
        (request, Feed::Recorded(replay)) => {
            match request {
                Request::Forward => replay.forward(),
                Request::Backward => replay.backward(),
                Request::GoTo(time) => replay.go_to(time),
                Request::Quit | Request::Examine => {}
            }
            state.replay(replay.position(), replay.updates());
        }
        (_, Feed::Live(_)) => {}
    }
}

async fn examined(examination: &mut Option<Examination>) -> Result<Diagnosis, String> {
    match examination {
        Some(examination) => examination.await,
        None => pending().await,
    }
}

/// Waits for updates of a live node, and takes all that are queued.
async fn received(feed: &mut Feed, batch: &mut Vec<Update>) {
    let Feed::Live(live) = feed else {
        return pending().await;
    };
    if live.updates.recv_many(batch, MAX_UPDATES_PER_PASS).await == 0 {
        // No update will follow. A live source reports the reason before it ends.
        pending().await
    }
}
