//! The episodes that were found. Those of saved logs are joined if they repeat soon, because a log
//! tells the same again and again; a recording tells each of them once, so each stays apart.

use episodes::Episode;

/// So many are kept; the others are counted.
const MAX_EPISODES: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct Found {
    episodes: Vec<Episode>,
    dropped: u64,
}

impl Found {
    pub(super) fn add(&mut self, episode: Episode) {
        match self.episodes.len() < MAX_EPISODES {
            true => self.episodes.push(episode),
            false => self.dropped += 1,
        }
    }

    /// All in order of time, and how many there was no room for.
    pub(super) fn sorted(mut self) -> (Vec<Episode>, u64) {
        self.episodes.sort_by_key(|episode| episode.from);
        (self.episodes, self.dropped)
    }
}
