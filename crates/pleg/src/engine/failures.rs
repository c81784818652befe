//! The pods whose inspection failed, and the calls that failed it.
//!
//! ```text
//!   a status call fails --> failing --answered successfully--> its pod is inspected again
//!                              |                                   |
//!                              \-- the pod is observed, or another call of it is stuck: forgotten
//! ```
//!
//! An answer to the failed call does not show the whole pod. Until the pod is inspected, the
//! failure remains.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::call::Key;
use crate::model::id::{Id, PodUid};
use crate::out::coverage::Failing;

/// The last failure of each call.
#[derive(Debug, Default)]
pub(super) struct Failures {
    calls: BTreeMap<Key, Failed>,
}

#[derive(Debug)]
struct Failed {
    failing: Failing,
    /// When the call last failed.
    noted: Instant,
    /// Whether the call has been answered successfully since then.
    is_answered: bool,
}

impl Failed {
    fn is_of(&self, uid: &PodUid) -> bool {
        self.failing.pod.as_ref().is_some_and(|pod| pod.uid == *uid)
    }
}

impl Failures {
    /// Records that a call failed. It replaces earlier failures of its pod whose calls have been
    /// answered since.
    pub(super) fn note(&mut self, mut failing: Failing, now: Instant) {
        if let Some(pod) = &failing.pod {
            self.replace_by_other_call(|uid| *uid == pod.uid);
        }
        let key = (failing.call, Some(failing.id.clone()));
        if let Some(known) = self.calls.get(&key) {
            failing.since = known.failing.since.min(failing.since);
            // The id may be requested while it is not listed. The failure still concerns the pod.
            failing.pod = failing.pod.or_else(|| known.failing.pod.clone());
        }
        failing.unobserved_since = failing.unobserved_since.min(failing.since);
        let failed = Failed {
            failing,
            noted: now,
            is_answered: false,
        };
        self.calls.insert(key, failed);
    }

    /// Records that a call was answered successfully. Returns the pod to be inspected if the call
    /// had failed.
    pub(super) fn answered(&mut self, key: &Key) -> Option<PodUid> {
        let failed = self.calls.get_mut(key)?;
        failed.is_answered = true;
        let uid = failed.failing.pod.as_ref().map(|pod| pod.uid.clone());
        if uid.is_none() {
            // Its pod is unknown, so no inspection will end the failure.
            self.calls.remove(key);
        }
        uid
    }

    /// Forgets a failure, because the call is no longer withheld.
    pub(super) fn withdraw(&mut self, key: &Key) {
        self.calls.remove(key);
    }

    /// Forgets the failures whose calls have been answered since, of pods for which another call is now
    /// the reason why they are unobserved.
    pub(super) fn replace_by_other_call(&mut self, has_other: impl Fn(&PodUid) -> bool) {
        self.calls.retain(|_, failed| {
            let pod = failed.failing.pod.as_ref();
            !(failed.is_answered && pod.is_some_and(|pod| has_other(&pod.uid)))
        });
    }

    /// The pod was observed as of `observed`: forgets its earlier failures, and those whose calls
    /// have been answered since.
    pub(super) fn forget_until(&mut self, uid: &PodUid, observed: Instant) {
        self.calls.retain(|_, failed| {
            !failed.is_of(uid) || failed.noted > observed && !failed.is_answered
        });
    }

    /// The pod was removed.
    pub(super) fn forget(&mut self, uid: &PodUid) {
        self.calls.retain(|_, failed| !failed.is_of(uid));
    }

    /// The host's ids were read: forgets calls about ids that belong to no pod and are gone. They
    /// are not made again.
    pub(super) fn keep_ids(&mut self, is_known: impl Fn(&Id) -> bool) {
        self.calls
            .retain(|_, failed| failed.failing.pod.is_some() || is_known(&failed.failing.id));
    }

    /// Lists that were requested at `begun` were taken in: keeps only the failures of these pods,
    /// because all others were observed, and forgets earlier failures of ids that are no longer
    /// listed.
    pub(super) fn keep(
        &mut self,
        pods: &BTreeSet<PodUid>,
        begun: Instant,
        is_listed: impl Fn(&PodUid, &Id) -> bool,
    ) {
        self.calls.retain(|_, failed| {
            let Failed { failing, noted, .. } = failed;
            failing.pod.as_ref().is_some_and(|pod| {
                let is_there = *noted >= begun || is_listed(&pod.uid, &failing.id);
                pods.contains(&pod.uid) && is_there
            })
        });
    }

    /// Whether this call failed when it was last answered.
    pub(super) fn is_failing(&self, key: &Key) -> bool {
        self.calls
            .get(key)
            .is_some_and(|failed| !failed.is_answered)
    }

    /// All failures.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Failing> {
        self.calls.values().map(|failed| &failed.failing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::id::PodRef;
    use crate::out::failure::InspectError;
    use crate::runtime::{CallError, Rpc};

    fn pod() -> PodRef {
        PodRef {
            uid: "uid".into(),
            namespace: "default".into(),
            name: "web".into(),
        }
    }

    fn key(id: &str) -> Key {
        (Rpc::PodSandboxStatus, Some(id.into()))
    }

    fn failing(id: &str, pod: Option<PodRef>, now: Instant) -> Failing {
        Failing {
            id: id.into(),
            call: Rpc::PodSandboxStatus,
            container: None,
            pod,
            error: InspectError::Failed {
                call: Rpc::PodSandboxStatus,
                id: id.into(),
                error: CallError::Refused("broken".into()),
            },
            since: now,
            unobserved_since: now,
        }
    }

    #[test]
    fn a_call_that_fails_again_while_its_pod_is_unknown_keeps_its_pod() {
        let now = Instant::now();
        let mut failures = Failures::default();
        failures.note(failing("s", Some(pod()), now), now);
        failures.note(failing("s", None, now), now);
        failures.keep_ids(|_| false);
        assert_eq!(failures.answered(&key("s")), Some(pod().uid));
    }

    #[test]
    fn an_answered_call_is_not_reported_beside_another_one_that_fails() {
        let now = Instant::now();
        let mut failures = Failures::default();
        failures.note(failing("s", Some(pod()), now), now);
        failures.answered(&key("s"));
        failures.note(failing("t", Some(pod()), now), now);
        let ids: Vec<_> = failures.iter().map(|failing| failing.id.as_str()).collect();
        assert_eq!(ids, ["t"]);
    }

    #[test]
    fn a_call_of_an_unknown_pod_does_not_fail_once_it_is_answered() {
        let now = Instant::now();
        let mut failures = Failures::default();
        failures.note(failing("s", None, now), now);
        assert_eq!(failures.answered(&key("s")), None);
        assert_eq!(failures.iter().count(), 0);
    }
}
