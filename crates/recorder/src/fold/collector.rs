//! The episodes of a recording. Unlike those of logs they are not merged: a log repeats a message
//! many times, a recording contains each episode once.

use episodes::Episode;

/// The maximum number of episodes; the others are counted.
const MAX_EPISODES: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Collector {
    episodes: Vec<Episode>,
    dropped: u64,
}

impl Collector {
    pub(super) fn add(&mut self, episode: Episode) {
        match self.episodes.len() < MAX_EPISODES {
            true => self.episodes.push(episode),
            false => self.dropped += 1,
        }
    }

    /// All episodes in order of time, and the number of those that did not fit.
    pub(super) fn sorted(mut self) -> (Vec<Episode>, u64) {
        self.episodes.sort_by_key(|episode| episode.from);
        (self.episodes, self.dropped)
    }
}
