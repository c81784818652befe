//! The times in which we did not run: stopped, frozen, starved, or on a node that swaps.
//!
//! The runtime goes on meanwhile, and its answers wait in the socket. So nobody is blamed for such
//! a time, and before anything is judged again, what has been answered is taken in:
//!
//! ```text
//!   a pause ends --> waking --a look begun since, or a list's time without one--> judging again
//! ```
//!
//! A long turn of our own is no pause: what is outstanding becomes older meanwhile, or a process that is
//! always slow would never find a call overdue. But answers wait there too, and are taken in first.

use std::collections::VecDeque;
use std::time::Duration;

use tokio::time::Instant;

/// How many pauses are remembered. What is judged by its age is judged after seconds.
const REMEMBERED: usize = 64;

/// For so long after a pause nobody who asks is answered: what has happened meanwhile waits in sockets,
/// and is taken in first.
const HELD: Duration = Duration::from_millis(500);

/// The pauses that have ended.
#[derive(Debug, Default)]
pub(crate) struct Pauses {
    ended: VecDeque<Pause>,
    waking: Option<Waking>,
}

#[derive(Debug)]
struct Pause {
    took: Duration,
    end: Instant,
}

#[derive(Debug)]
struct Waking {
    /// When the last pause ended.
    since: Instant,
    /// When it ends without a look.
    until: Instant,
}

impl Pauses {
    /// A pause has ended, which took so long. If no look comes, we judge again after `settles`.
    pub(crate) fn ended(&mut self, took: Duration, settles: Duration, now: Instant) {
        if self.ended.len() == REMEMBERED {
            self.ended.pop_front();
        }
        self.ended.push_back(Pause { took, end: now });
        self.take_in(took, settles, now);
    }

    /// Answers may wait which were sent until now, and are taken in before we judge again. If no look
    /// comes, that is after `settles`, and what passed in `paused` does not count.
    pub(crate) fn take_in(&mut self, paused: Duration, settles: Duration, now: Instant) {
        // One pause after another must not keep us from ever judging.
        let until = match &self.waking {
            Some(waking) => waking.until + paused,
            None => now + settles,
        };
        self.waking = Some(Waking { since: now, until });
    }

    /// Whether what was answered in a pause may still have to be taken in, where the last look was
    /// begun at `looked`.
    pub(crate) fn are_slept_off(&mut self, looked: Option<Instant>, now: Instant) -> bool {
        self.waking.take_if(|waking| {
            looked.is_some_and(|looked| looked >= waking.since) || now >= waking.until
        });
        self.waking.is_none()
    }

    /// Until when nobody is answered, if what was answered in a pause may still have to be taken in.
    pub(crate) fn holds_until(&self) -> Option<Instant> {
        self.waking.as_ref().map(|waking| waking.since + HELD)
    }

    /// When we judge again at the latest, if not yet.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        self.waking.as_ref().map(|waking| waking.until)
    }

    /// The time since which we have run for so long.
    pub(crate) fn ago(&self, ran: Duration, now: Instant) -> Option<Instant> {
        let mut since = now.checked_sub(ran)?;
        for pause in self.ended.iter().rev() {
            if pause.end <= since {
                break;
            }
            since = since.checked_sub(pause.took)?;
        }
        Some(since)
    }

    /// For how much of the time since then we did not run.
    pub(crate) fn within(&self, since: Instant) -> Duration {
        let ended = self.ended.iter().rev();
        let ended = ended.take_while(|pause| pause.end > since);
        ended.map(|pause| pause.took.min(pause.end - since)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_time_that_we_ran_is_counted_without_the_pauses() {
        let start = Instant::now();
        let at = |time| start + seconds(time);
        let mut pauses = Pauses::default();
        pauses.ended(seconds(10), seconds(2), at(20));
        pauses.ended(seconds(5), seconds(2), at(30));
        let now = at(32);
        assert_eq!(pauses.ago(seconds(2), now), Some(at(30)));
        assert_eq!(pauses.ago(seconds(4), now), Some(at(23)));
        assert_eq!(pauses.ago(seconds(10), now), Some(at(7)));
        for (since, paused) in [(31, 0), (24, 5), (22, 5), (15, 10), (5, 15)] {
            assert_eq!(pauses.within(at(since)), seconds(paused), "{since}");
        }
    }

    #[test]
    fn one_pause_after_another_does_not_keep_it_from_judging() {
        let start = Instant::now();
        let at = |time| start + seconds(time);
        let mut pauses = Pauses::default();
        assert!(pauses.are_slept_off(None, at(0)));
        pauses.ended(seconds(10), seconds(2), at(20));
        assert!(!pauses.are_slept_off(Some(at(19)), at(21)));
        pauses.ended(seconds(5), seconds(2), at(26));
        assert!(!pauses.are_slept_off(Some(at(25)), at(26)));
        assert!(pauses.are_slept_off(None, at(27)));
        pauses.ended(seconds(5), seconds(2), at(40));
        assert!(pauses.are_slept_off(Some(at(40)), at(41)));
    }
}
