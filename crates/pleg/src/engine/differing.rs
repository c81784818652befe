//! The pods that differ from the cache, and since when. They are indexed by pod and by time,
//! because each step of the engine queries the oldest ones, and there may be thousands.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::model::id::PodUid;
use crate::records::just_after;

#[derive(Debug, Default)]
pub(crate) struct Differing {
    since: BTreeMap<PodUid, Since>,
    by_time: BTreeSet<(Instant, PodUid)>,
}

#[derive(Clone, Copy, Debug)]
struct Since {
    /// When the pod became unobserved.
    unobserved: Instant,
    /// When this process learned that the pod is unobserved. A list may arrive long after its
    /// request.
    noted: Instant,
}

impl Differing {
    /// Records that a pod has been unobserved since `unobserved`. An earlier record remains.
    pub(crate) fn note(&mut self, uid: &PodUid, unobserved: Instant, noted: Instant) {
        if !self.since.contains_key(uid) {
            self.since.insert(uid.clone(), Since { unobserved, noted });
            self.by_time.insert((unobserved, uid.clone()));
        }
    }

    /// If the pod is unobserved, records that it has been so since this earlier time.
    pub(crate) fn note_earlier(&mut self, uid: &PodUid, earlier: Instant) {
        let known = self.since.get(uid).copied();
        if let Some(known) = known.filter(|known| earlier < known.unobserved) {
            self.remove(uid);
            self.note(uid, earlier, known.noted);
        }
    }

    /// Forgets a pod that was observed or removed. Returns when it became unobserved.
    pub(crate) fn remove(&mut self, uid: &PodUid) -> Option<Instant> {
        let since = self.since.remove(uid)?.unobserved;
        self.by_time.remove(&(since, uid.clone()));
        Some(since)
    }

    /// Forgets the pods that became unobserved by `observed`, except these: all others were
    /// observed.
    pub(crate) fn keep(&mut self, pods: &BTreeSet<PodUid>, observed: Instant) {
        let stays = |uid: &PodUid, since: Instant| since > observed || pods.contains(uid);
        self.since.retain(|uid, since| stays(uid, since.unobserved));
        self.by_time.retain(|(since, uid)| stays(uid, *since));
    }

    /// When a pod became unobserved.
    pub(crate) fn since(&self, uid: &PodUid) -> Option<Instant> {
        self.since.get(uid).map(|since| since.unobserved)
    }

    /// When this process learned that a pod is unobserved.
    pub(crate) fn noted(&self, uid: &PodUid) -> Option<Instant> {
        self.since.get(uid).map(|since| since.noted)
    }

    /// The pods that have been unobserved since `time` or longer, the oldest first. If `time` is
    /// `None`, there are none.
    pub(crate) fn unobserved_since(
        &self,
        time: Option<Instant>,
    ) -> impl Iterator<Item = (&PodUid, Instant)> {
        let oldest = self.by_time.iter();
        let oldest = oldest.take_while(move |(at, _)| Some(*at) <= time);
        oldest.map(|(since, uid)| (uid, *since))
    }

    /// When the next pod will have been unobserved for `duration`.
    pub(crate) fn next_at(&self, duration: Duration, now: Instant) -> Option<Instant> {
        let next = match now.checked_sub(duration) {
            Some(before) => {
                let first = (just_after(before), PodUid::from(""));
                self.by_time.range(first..).next()
            }
            None => self.by_time.first(),
        };
        next.map(|(since, _)| *since + duration)
    }
}
