//! An observer that keeps what the engine measures.

use std::pin::pin;
use std::sync::Mutex;
use std::task::{Context, Waker};
use std::time::Duration;

use pleg::model::snapshot::Counts;
use pleg::model::wall_time::WallTime;
use pleg::out::coverage::PassKind;
use pleg::{Measurement, Observer};
use tokio::time::advance;

/// Keeps what an observer receives.
#[derive(Default)]
pub struct Counter {
    /// The last counts.
    pub counts: Mutex<Counts>,
    /// When each pass began.
    pub seen: Mutex<Vec<WallTime>>,
    /// How many relists ended.
    pub relists: Mutex<usize>,
    /// How long each step takes in which a call ends.
    turn: Mutex<Duration>,
}

impl Counter {
    /// From now on each step in which a call ends takes this long, as on a throttled node.
    pub fn make_turns_take(&self, time: Duration) {
        *self.turn.lock().unwrap() = time;
    }

    fn take_a_turn(&self) {
        let turn = *self.turn.lock().unwrap();
        if turn > Duration::ZERO {
            // The first `poll()` advances the clock.
            let advance = pin!(advance(turn));
            let mut context = Context::from_waker(Waker::noop());
            let _ = advance.poll(&mut context);
        }
    }
}

impl Observer for Counter {
    fn observe(&self, measurement: &Measurement) {
        match measurement {
            Measurement::CallEnded { .. } => self.take_a_turn(),
            Measurement::Seen(pass, counts) => {
                *self.counts.lock().unwrap() = *counts;
                self.seen.lock().unwrap().push(pass.begun.wall);
                *self.relists.lock().unwrap() += usize::from(pass.kind == PassKind::List);
            }
            Measurement::RelistFailed(_) => *self.relists.lock().unwrap() += 1,
            _ => {}
        }
    }
}
