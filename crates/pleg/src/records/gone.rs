//! The removed pods, so that no older answer adds them again.

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::model::id::PodUid;

/// How many removed pods are remembered by UID. Lists may be too large or stuck for days while pods are
/// created and removed.
const MAX_GONE_PODS: usize = 1024;

/// The pods that were removed since the last lists.
#[derive(Debug, Default)]
pub(super) struct Gone {
    /// When the call that showed the removal was sent.
    pods: BTreeMap<PodUid, Instant>,
    /// The newest time that was dropped from `pods`: an unknown pod in an answer that was requested earlier
    /// may have been removed since.
    forgotten: Option<Instant>,
}

impl Gone {
    /// Notes that a call sent at `begun` showed that the pod is removed.
    pub(super) fn insert(&mut self, uid: PodUid, begun: Instant) {
        self.pods.insert(uid, begun);
        if self.pods.len() > MAX_GONE_PODS {
            let oldest = self.pods.iter().min_by_key(|(_, begun)| **begun);
            let oldest = oldest.map(|(uid, _)| uid.clone());
            let begun = oldest.and_then(|uid| self.pods.remove(&uid));
            self.forgotten = self.forgotten.max(begun);
        }
    }

    /// Forgets the removals that lists of all pods requested at `begun` take into account: older lists
    /// are not applied any more.
    pub(super) fn listed(&mut self, begun: Instant) {
        self.pods.retain(|_, gone| *gone > begun);
        self.forgotten.take_if(|gone| *gone <= begun);
    }

    /// Whether a call sent after `observed` showed that the pod is removed.
    pub(super) fn has(&self, uid: &PodUid, observed: Instant) -> bool {
        self.pods.get(uid).is_some_and(|begun| *begun > observed)
    }

    /// Whether a call sent after `observed` showed that the pod is removed, or may have: some removals are
    /// forgotten. Use this for a pod that is not known.
    pub(super) fn may_have(&self, uid: &PodUid, observed: Instant) -> bool {
        self.has(uid, observed) || self.forgotten > Some(observed)
    }
}

#[cfg(test)]
impl Gone {
    pub(super) fn len(&self) -> usize {
        self.pods.len()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn uid(number: u64) -> PodUid {
        format!("u{number}").into()
    }

    #[test]
    fn gone_pods_are_bounded_and_none_of_them_is_brought_back() {
        let start = Instant::now();
        let at = |second| start + Duration::from_secs(second);
        let mut gone = Gone::default();
        for number in 1..=10_000 {
            gone.insert(uid(number), at(number));
        }
        assert_eq!(gone.len(), MAX_GONE_PODS);
        for number in 1..=10_000 {
            assert!(gone.may_have(&uid(number), at(number - 1)), "{number}");
            let was_newer = number < 10_000 - MAX_GONE_PODS as u64;
            assert_eq!(gone.may_have(&uid(number), at(number)), was_newer);
        }
        let new = uid(20_000);
        assert!(gone.may_have(&new, at(1)));
        assert!(!gone.may_have(&new, at(9_000)));
        gone.listed(at(9_000));
        assert!(!gone.may_have(&new, at(1)));
    }
}
