//! Collects episodes in limited memory: repetitions are one episode.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use crate::{Episode, What};

/// The maximum number of episodes that are kept, of about 1 kB each. Further ones are only counted.
const MAX_EPISODES: usize = 10_000;

/// Episodes of one subject with a shorter gap are one episode. A kubelet repeats most of its
/// messages every few seconds, and retries what failed permanently within five minutes.
const REPEATED_WITHIN: Duration = Duration::from_secs(60);

/// Episodes, in the order in which they were first added.
#[derive(Clone, Debug, Default)]
pub struct Collector {
    all: Vec<Episode>,
    /// The last episode of each subject, by the hash of its title and its object. Keys with the names
    /// themselves would take a third of the memory. Among this few subjects, two practically never
    /// have the same hash.
    last: HashMap<u64, usize>,
    hashes: RandomState,
    dropped: u64,
}

impl Collector {
    /// Adds an episode. It is merged with the last one of the same subject if it began soon after
    /// that one had ended. Episodes of the kind [`What::Event`] are not merged.
    pub fn add(&mut self, episode: Episode) {
        let is_event = matches!(episode.what, What::Event { .. });
        let subject = self
            .hashes
            .hash_one((episode.what.title(), &episode.subject));
        if !is_event && let Some(&index) = self.last.get(&subject) {
            let before = &mut self.all[index];
            if episode.from.since(before.until()) <= REPEATED_WITHIN
                && before.from.since(episode.until()) <= REPEATED_WITHIN
            {
                return before.absorb(episode);
            }
        }
        if self.all.len() == MAX_EPISODES {
            self.dropped += 1;
            return;
        }
        self.last.insert(subject, self.all.len());
        self.all.push(episode);
    }

    /// Adds the episodes of another source.
    pub fn absorb(&mut self, other: Self) {
        self.dropped += other.dropped;
        other.all.into_iter().for_each(|episode| self.add(episode));
    }

    /// Moves all episodes in time.
    pub fn shift(&mut self, nanoseconds: i64) {
        for episode in &mut self.all {
            episode.from = episode.from.shifted(nanoseconds);
            for end in [&mut episode.to, &mut episode.seen_until] {
                *end = end.map(|end| end.shifted(nanoseconds));
            }
        }
    }

    /// Returns all episodes in order of time, and the number of episodes that did not fit.
    pub fn sorted(mut self) -> (Vec<Episode>, u64) {
        self.all.sort_by_key(|episode| episode.from);
        (self.all, self.dropped)
    }
}

impl Episode {
    /// Merges a repetition.
    fn absorb(&mut self, other: Self) {
        let until = self.until().max(other.until());
        self.from = self.from.min(other.from);
        // A state that one source shows as lasting has ended if another source shows its end later.
        let ends = [self.to, other.to].into_iter().flatten();
        self.to = ends.max().filter(|end| *end == until);
        self.seen_until = Some(until).filter(|until| self.to.is_none() && *until > self.from);
        self.count += other.count;
        self.subject.learn(other.subject);
    }
}

#[cfg(test)]
mod tests {
    use causes::finding::Culprit;
    use pleg_text::WallTime;

    use super::*;

    fn second(second: i64) -> WallTime {
        WallTime::from_unix_nanos((1_700_000_000 + second) * 1_000_000_000).unwrap()
    }

    fn hangs(from: i64, to: i64, id: &str) -> Episode {
        let call = What::HungCall {
            call: "ContainerStatus".into(),
        };
        let subject = Culprit {
            id: Some(id.into()),
            ..Culprit::default()
        };
        Episode::new(second(from), Some(second(to)), call, "").about(subject)
    }

    fn spans(collector: Collector) -> Vec<(i64, i64, u64)> {
        let of = |time: WallTime| (time.as_unix_nanos() / 1_000_000_000) - 1_700_000_000;
        let (all, _) = collector.sorted();
        let span = |it: &Episode| (of(it.from), of(it.to.unwrap()), it.count);
        all.iter().map(span).collect()
    }

    #[test]
    fn repetitions_are_one_episode_until_a_pause() {
        let mut collector = Collector::default();
        for (from, to) in [(0, 120), (121, 241), (300, 310), (500, 510)] {
            collector.add(hangs(from, to, "a"));
        }
        assert_eq!(spans(collector), [(0, 310, 3), (500, 510, 1)]);
    }

    #[test]
    fn an_open_episode_ends_if_another_source_shows_its_end() {
        let open = |from, until| {
            let episode = Episode::new(second(from), None, What::NotReady, "");
            episode.seen_until(Some(second(until)))
        };
        let mut collector = Collector::default();
        collector.add(open(0, 50));
        collector.add(Episode::new(
            second(1),
            Some(second(90)),
            What::NotReady,
            "",
        ));
        assert_eq!(spans(collector.clone()), [(0, 90, 2)]);
        collector.add(open(80, 100));
        let (all, _) = collector.sorted();
        assert_eq!((all[0].to, all[0].seen_until), (None, Some(second(100))));
    }

    #[test]
    fn episodes_of_different_subjects_and_events_are_not_merged() {
        let mut collector = Collector::default();
        collector.add(hangs(0, 120, "a"));
        collector.add(hangs(0, 120, "b"));
        let died = || What::Event {
            event: "ContainerDied".into(),
            source: "kernel".into(),
            delay_seconds: None,
        };
        collector.add(Episode::at(second(1), died(), ""));
        collector.add(Episode::at(second(1), died(), ""));
        assert_eq!(spans(collector).len(), 4);
    }

    #[test]
    fn older_lines_of_another_file_are_a_separate_episode() {
        let mut collector = Collector::default();
        collector.add(hangs(1000, 1010, "a"));
        collector.add(hangs(0, 10, "a"));
        assert_eq!(spans(collector), [(0, 10, 1), (1000, 1010, 1)]);
    }

    #[test]
    fn episodes_beyond_the_limit_are_dropped_and_counted() {
        let mut collector = Collector::default();
        for number in 0..MAX_EPISODES + 3 {
            collector.add(hangs(0, 1, &number.to_string()));
        }
        let (all, dropped) = collector.sorted();
        assert_eq!((all.len(), dropped), (MAX_EPISODES, 3));
    }
}
