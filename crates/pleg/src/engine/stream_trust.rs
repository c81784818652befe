//! Whether the event stream announces every change, so that lists may be rarer.
//!
//! ```text
//!   announced(id) --\
//!                    both within 2 s: confirmed    after ten, the period doubles
//!   changed(id) ----/                             with each good relist
//!   changed alone: missed ------> trust is lost, and the period is the shortest
//! ```
//!
//! A stream has no heartbeat: a broken stream looks like a node without changes. So it is trusted
//! for what it has announced, and only while it announces every change.
//!
//! If the kernel reports each birth and each exit, it shows at once whether the stream announces
//! them. Such a stream is trusted from the start, until it misses a change.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::limits::{MAX_REMEMBERED_HINTS, SETTLED_AFTER, TRUSTED_AFTER_CHANGES};
use crate::model::id::Id;

/// What the stream on this connection has announced so far.
#[derive(Debug)]
pub(super) struct StreamTrust {
    /// When the stream was opened. Earlier changes could not be announced.
    opened: Instant,
    /// The ids that were announced, and when.
    hints: BTreeMap<Id, Instant>,
    /// The ids that changed and were not announced yet, and when.
    awaited: BTreeMap<Id, Instant>,
    /// How many changes were announced since the last missed one.
    announced: usize,
    /// Whether the stream has missed a change, and has not announced enough changes since.
    has_missed: bool,
    /// How many times the period was doubled.
    doubled: u32,
}

impl StreamTrust {
    pub(super) fn new(opened: Instant) -> Self {
        Self {
            opened,
            hints: BTreeMap::new(),
            awaited: BTreeMap::new(),
            announced: 0,
            has_missed: false,
            doubled: 0,
        }
    }

    /// How long ago the stream was opened.
    pub(super) fn age(&self, now: Instant) -> Duration {
        now.duration_since(self.opened)
    }

    /// The stream announced something about this id.
    pub(super) fn on_announced(&mut self, id: &Id, now: Instant) {
        if self.awaited.remove(id).is_some() {
            self.announced += 1;
        }
        // If a hint is forgotten, its change may count as missed. That only makes lists more frequent.
        if self.hints.len() >= MAX_REMEMBERED_HINTS {
            self.hints.clear();
        }
        self.hints.insert(id.clone(), now);
    }

    /// Takes in that this id changed. `observed` is when a call last showed an earlier state: an older
    /// hint announced another change. `listed` is when a list last did not show the change. If that was
    /// before the stream was opened, the stream may have been unable to announce it.
    pub(super) fn on_change(
        &mut self,
        id: &Id,
        observed: Option<Instant>,
        listed: Instant,
        now: Instant,
    ) {
        let announced = |at: &Instant| observed.is_none_or(|observed| *at >= observed);
        if self.hints.get(id).is_some_and(announced) {
            self.announced += 1;
        } else if listed >= self.opened {
            self.awaited.entry(id.clone()).or_insert(now);
        }
    }

    /// Advances to `now`, and returns how many changes have been missed.
    pub(super) fn advance(&mut self, now: Instant) -> usize {
        let before = self.awaited.len();
        self.awaited
            .retain(|_, changed| *changed + SETTLED_AFTER > now);
        let missed = before - self.awaited.len();
        if missed > 0 {
            self.has_missed = true;
            self.announced = 0;
            self.doubled = 0;
        }
        missed
    }

    /// When the next awaited change will count as missed.
    pub(super) fn due(&self) -> Option<Instant> {
        self.awaited
            .values()
            .min()
            .map(|changed| *changed + SETTLED_AFTER)
    }

    /// Doubles the period after a good relist, if enough changes have been announced.
    pub(super) fn on_relist(&mut self) {
        if self.announced >= TRUSTED_AFTER_CHANGES {
            self.has_missed = false;
            self.doubled = (self.doubled + 1).min(16);
        }
    }

    /// The pause before the next relist. `is_all_watched` is whether the kernel reports each birth
    /// and exit.
    pub(super) fn period(
        &self,
        shortest: Duration,
        ceiling: Duration,
        is_all_watched: bool,
    ) -> Duration {
        let longest = ceiling.max(shortest);
        if is_all_watched && !self.has_missed {
            return longest;
        }
        shortest.saturating_mul(1 << self.doubled).min(longest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORTEST: Duration = Duration::from_secs(1);
    const CEILING: Duration = Duration::from_secs(30);

    struct Stream {
        trust: StreamTrust,
        now: Instant,
        is_all_watched: bool,
    }

    impl Stream {
        fn new() -> Self {
            let now = Instant::now();
            Self {
                trust: StreamTrust::new(now),
                now,
                is_all_watched: false,
            }
        }

        fn wait(&mut self, seconds: u64) -> usize {
            self.now += Duration::from_secs(seconds);
            self.trust.advance(self.now)
        }

        fn announce(&mut self, changes: usize) {
            for change in 0..changes {
                let id = Id::from(format!("{change}"));
                self.trust.on_announced(&id, self.now);
                self.trust.on_change(&id, None, self.now, self.now);
            }
        }

        fn periods(&mut self, relists: usize) -> Vec<u64> {
            let period = |_| {
                self.trust.on_relist();
                self.trust
                    .period(SHORTEST, CEILING, self.is_all_watched)
                    .as_secs()
            };
            (0..relists).map(period).collect()
        }
    }

    #[test]
    fn the_period_doubles_once_ten_changes_were_announced() {
        let mut stream = Stream::new();
        stream.announce(9);
        assert_eq!(stream.periods(3), [1, 1, 1]);
        stream.announce(1);
        assert_eq!(stream.periods(7), [2, 4, 8, 16, 30, 30, 30]);
    }

    #[test]
    fn one_missed_change_resets_the_period() {
        let mut stream = Stream::new();
        stream.announce(10);
        stream.periods(9);
        stream
            .trust
            .on_change(&"missed".into(), None, stream.now, stream.now);
        assert_eq!(stream.trust.due(), Some(stream.now + SETTLED_AFTER));
        assert_eq!((stream.wait(1), stream.wait(1)), (0, 1));
        assert_eq!(stream.periods(2), [1, 1]);
        assert_eq!(stream.wait(60), 0, "it is counted once");
        stream.announce(10);
        assert_eq!(stream.periods(2), [2, 4]);
    }

    #[test]
    fn after_a_flood_of_hints_the_next_ones_still_count() {
        let mut stream = Stream::new();
        stream.announce(MAX_REMEMBERED_HINTS + 1);
        assert!(stream.trust.hints.len() <= MAX_REMEMBERED_HINTS);
        assert_eq!(stream.trust.due(), None, "no change is awaited");
    }

    #[test]
    fn a_hint_may_arrive_a_little_later_than_the_change() {
        let mut stream = Stream::new();
        stream
            .trust
            .on_change(&"late".into(), None, stream.now, stream.now);
        stream.wait(1);
        stream.trust.on_announced(&"late".into(), stream.now);
        assert_eq!(stream.wait(60), 0);
        stream.announce(9);
        assert_eq!(stream.periods(1), [2], "it counts as announced");
    }

    #[test]
    fn a_change_before_the_stream_was_opened_proves_nothing() {
        let mut stream = Stream::new();
        let before = stream.now.checked_sub(Duration::from_secs(1)).unwrap();
        stream
            .trust
            .on_change(&"before".into(), None, before, stream.now);
        assert_eq!((stream.trust.due(), stream.wait(60)), (None, 0));
    }

    #[test]
    fn a_period_that_is_longer_than_the_ceiling_stays_as_it_is() {
        let stream = Stream::new();
        let long = Duration::from_secs(60);
        assert_eq!(stream.trust.period(long, CEILING, false), long);
        assert_eq!(stream.trust.period(long, CEILING, true), long);
    }

    #[test]
    fn while_the_kernel_reports_each_change_the_stream_is_trusted_until_it_misses_one() {
        let mut stream = Stream::new();
        stream.is_all_watched = true;
        assert_eq!(stream.periods(1), [30]);
        let change = |stream: &mut Stream, id: &str| {
            let now = stream.now;
            stream.trust.on_change(&id.into(), None, now, now);
        };
        change(&mut stream, "late");
        stream.trust.on_announced(&"late".into(), stream.now);
        assert_eq!(stream.wait(2), 0);
        assert_eq!(stream.periods(1), [30]);
        change(&mut stream, "missed");
        assert_eq!(stream.wait(2), 1);
        assert_eq!(stream.periods(3), [1, 1, 1]);
        stream.announce(10);
        assert_eq!(stream.periods(1), [30]);
    }
}
