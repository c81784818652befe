//! The pods that differ from what the cache holds, and since when: by pod, and the oldest first,
//! for each turn asks who has not been seen for long, of whom there may be thousands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::id::PodUid;

/// The next moment after one.
const CLOCK_CHECK_PERIOD: Duration = Duration::from_nanos(1);

#[derive(Debug, Default)]
pub(crate) struct Differing {
    since: BTreeMap<PodUid, Since>,
    by_time: BTreeSet<(Instant, PodUid)>,
}

#[derive(Clone, Copy, Debug)]
struct Since {
    /// As of when it is not seen.
    unseen: Instant,
    /// When we heard that: a list may come long after it was asked for.
    noted: Instant,
}

impl Differing {
    /// A pod is not seen since then, as is known now, unless that is known already.
    pub(crate) fn note(&mut self, uid: &PodUid, unseen: Instant, noted: Instant) {
        if !self.since.contains_key(uid) {
            self.since.insert(uid.clone(), Since { unseen, noted });
            self.by_time.insert((unseen, uid.clone()));
        }
    }

    /// If it is not seen, it was not at that earlier time either.
    pub(crate) fn note_earlier(&mut self, uid: &PodUid, earlier: Instant) {
        let known = self.since.get(uid).copied();
        if let Some(known) = known.filter(|known| earlier < known.unseen) {
            self.remove(uid);
            self.note(uid, earlier, known.noted);
        }
    }

    /// A pod was seen, or is gone.
    pub(crate) fn remove(&mut self, uid: &PodUid) {
        if let Some(since) = self.since.remove(uid) {
            self.by_time.remove(&(since.unseen, uid.clone()));
        }
    }

    /// Of all other pods everything was seen as of this time.
    pub(crate) fn keep(&mut self, pods: &BTreeSet<PodUid>, seen: Instant) {
        let stays = |uid: &PodUid, since: Instant| since > seen || pods.contains(uid);
        self.since.retain(|uid, since| stays(uid, since.unseen));
        self.by_time.retain(|(since, uid)| stays(uid, *since));
    }

    /// Since when a pod is not seen.
    pub(crate) fn since(&self, uid: &PodUid) -> Option<Instant> {
        self.since.get(uid).map(|since| since.unseen)
    }

    /// Since when that is known.
    pub(crate) fn noted(&self, uid: &PodUid) -> Option<Instant> {
        self.since.get(uid).map(|since| since.noted)
    }

    /// Those that are not seen since then or longer, with the oldest first.
    pub(crate) fn up_to(&self, time: Instant) -> impl Iterator<Item = (&PodUid, Instant)> {
        let oldest = self.by_time.iter().take_while(move |(at, _)| *at <= time);
        oldest.map(|(since, uid)| (uid, *since))
    }

    /// When the next one has not been seen for so long.
    pub(crate) fn next_at(&self, long: Duration, now: Instant) -> Option<Instant> {
        let next = match now.checked_sub(long) {
            Some(before) => {
                let first = (before + CLOCK_CHECK_PERIOD, PodUid::from(""));
                self.by_time.range(first..).next()
            }
            None => self.by_time.first(),
        };
        next.map(|(since, _)| *since + long)
    }
}
