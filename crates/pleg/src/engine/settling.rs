//! Settling after a pause. Answers that arrived during a pause of this process, or during a long
//! step, wait in the socket. They are taken in before anything is judged.
//!
//! ```text
//!   a pause ends --> settling --a pass that began later completes, or a time limit--> judging again
//! ```

use super::limits::COMMANDS_HELD_FOR;
use std::time::Duration;

use tokio::time::Instant;

/// Whether answers may still be waiting.
#[derive(Debug, Default)]
pub(crate) struct Settling(Option<Since>);

#[derive(Debug)]
struct Since {
    /// When the last pause ended.
    pause_ended: Instant,
    /// The latest time until which commands are held.
    held_until: Instant,
    /// When settling ends at the latest.
    until: Instant,
}

impl Settling {
    /// Begins settling after a pause. Settling ends after `limit` at the latest, even if further pauses
    /// follow, because the engine must judge eventually.
    pub(crate) fn begin(&mut self, limit: Duration, now: Instant) {
        let since = self.0.get_or_insert(Since {
            pause_ended: now,
            held_until: now + COMMANDS_HELD_FOR,
            until: now + limit,
        });
        since.pause_ended = now;
    }

    /// Ends settling if it is time. Returns whether it is over. `last_pass` is when the last completed
    /// pass began.
    pub(crate) fn is_over(&mut self, last_pass: Option<Instant>, now: Instant) -> bool {
        self.0.take_if(|since| {
            last_pass.is_some_and(|last_pass| last_pass >= since.pause_ended) || now >= since.until
        });
        self.0.is_none()
    }

    /// The latest time until which commands are held; `None` if settling is over.
    pub(crate) fn held_until(&self) -> Option<Instant> {
        self.0.as_ref().map(|since| since.held_until)
    }

    /// When settling ends at the latest.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        self.0.as_ref().map(|since| since.until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settling_ends_although_pauses_follow_one_another() {
        let start = Instant::now();
        let seconds = Duration::from_secs;
        let at = |time| start + seconds(time);
        let mut settling = Settling::default();
        assert!(settling.is_over(None, at(0)));
        settling.begin(seconds(2), at(20));
        assert!(!settling.is_over(Some(at(19)), at(21)));
        settling.begin(seconds(2), at(21));
        assert!(!settling.is_over(Some(at(20)), at(21)));
        assert!(settling.is_over(None, at(22)));
        settling.begin(seconds(2), at(40));
        assert!(settling.is_over(Some(at(40)), at(41)));
    }
}
