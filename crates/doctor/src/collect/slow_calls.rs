//! Status calls that were overdue for a while, and then answered. An engine does not report them any more,
//! and counts the slowest of them as a fault that has ended.

use std::collections::BTreeMap;

use pleg::model::id::Id;
use pleg::runtime::Rpc;

use super::observed::Observed;
use crate::limits::SLOW_CALL_SECONDS;

/// How long each of them was outstanding when it was last seen, in seconds.
#[derive(Debug, Default)]
pub(super) struct SlowCalls(BTreeMap<(Rpc, Id), f64>);

impl SlowCalls {
    /// Notes those that are outstanding now.
    pub fn note(&mut self, observed: &Observed) {
        for call in observed.outstanding() {
            let Some(id) = call.id.clone() else {
                continue;
            };
            if call.age_seconds >= SLOW_CALL_SECONDS {
                let longest = self.0.entry((call.call, id)).or_default();
                *longest = longest.max(call.age_seconds);
            }
        }
    }

    /// Those that are not outstanding any more.
    pub fn answered(mut self, observed: &Observed) -> impl Iterator<Item = (Rpc, Id, f64)> {
        for call in observed.outstanding() {
            if let Some(id) = call.id.clone() {
                self.0.remove(&(call.call, id));
            }
        }
        let answered = self.0.into_iter();
        answered.map(|((call, id), seconds)| (call, id, seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::super::observed::tests::healthy;
    use super::*;

    #[test]
    fn a_call_counts_as_slow_once_it_is_answered() {
        let call = Rpc::ContainerStatus;
        let waits = |seconds| healthy().waits(call, Some("c1"), seconds, true);
        let after = |seen: &[Observed], now: &Observed| -> Vec<f64> {
            let mut slow = SlowCalls::default();
            seen.iter().for_each(|seen| slow.note(seen));
            slow.answered(now).map(|(_, _, seconds)| seconds).collect()
        };
        let seen = [waits(0.9), waits(3.7), waits(1.2)];
        assert_eq!(after(&seen, &healthy()), [3.7]);
        assert!(after(&seen, &waits(1.3)).is_empty());
        assert!(after(&[waits(0.9)], &healthy()).is_empty());
    }
}
