//! The loop: keys and updates change the state, and the state is drawn when it has changed.
//!
//! ```text
//!   key        --> act, and draw at once
//!   update     --> apply, and draw within FRAME: many updates make one frame
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

/// The shortest time between two frames that no key asked for.
const FRAME: Duration = Duration::from_millis(100);

/// Ages are counted in seconds.
const TICK: Duration = Duration::from_secs(1);

/// How many updates are taken in before the next look at keys and time.
const BATCH: usize = 256;

/// The doctor at work.
pub type Examination = Pin<Box<dyn Future<Output = Result<Diagnosis, String>>>>;

/// Where updates come from.
#[derive(Debug)]
pub enum Feed {
    /// A node that is watched.
    Live(Live),
    /// A recording, in which the reader steps.
    Recorded(Replay),
}

/// A node that is watched.
pub struct Live {
    /// What is learned of it, as it is learned. A sender waits while this is full.
    pub updates: mpsc::Receiver<Update>,
    /// Runs the doctor.
    pub examine: Box<dyn Fn() -> Examination>,
}

impl fmt::Debug for Live {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Live").finish_non_exhaustive()
    }
}

/// Shows a feed until the reader quits. `keys` are what the terminal reports, and `draw` puts a
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
                // Whoever reads the keys has gone.
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
                due = drawn + TICK;
            }
            result = examined(&mut examination) => {
                examination = None;
                let now = clock();
                state.apply(Update::Findings { taken: now, result }, now);
                due = due.min(drawn + FRAME);
            }
            () = received(&mut feed, &mut batch) => {
                let now = clock();
                for update in batch.drain(..) {
                    state.apply(update, now);
                }
                due = due.min(drawn + FRAME);
            }
        }
    }
}

/// What an event of the terminal wants. One that is no key, a change of size for example, wants
/// to be drawn.
fn press(state: &mut State, event: &Event) -> Option<Request> {
    let Event::Key(key) = event else {
        return None;
    };
    let action = action(*key, state.mode())?;
    state.act(action)
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

/// Waits for updates of a live node, and takes those that are there.
async fn received(feed: &mut Feed, batch: &mut Vec<Update>) {
    let Feed::Live(live) = feed else {
        return pending().await;
    };
    if live.updates.recv_many(batch, BATCH).await == 0 {
        // Nobody will send any more. A live source says why before it ends.
        pending().await
    }
}
