//! Status calls that were overdue and have been answered. An engine no longer reports them.

use std::collections::BTreeMap;

use pleg::model::id::Id;
use pleg::runtime::Rpc;

use super::observed::Observed;
use crate::limits::SLOW_CALL_SECONDS;

/// For how many seconds each call was outstanding when it was last observed.
#[derive(Debug, Default)]
pub(super) struct SlowCalls(BTreeMap<(Rpc, Id), f64>);

impl SlowCalls {
    /// Records the outstanding calls that are already slow.
    pub fn note(&mut self, observed: &Observed) {
        for call in observed.outstanding() {
            if let Some(id) = call.id.clone()
                && call.age_seconds >= SLOW_CALL_SECONDS
            {
                let longest = self.0.entry((call.call, id)).or_default();
                *longest = longest.max(call.age_seconds);
            }
        }
    }

    /// The recorded calls that are no longer outstanding, with the seconds that they took.
    pub fn answered(mut self, observed: &Observed) -> Vec<((Rpc, Id), f64)> {
        for call in observed.outstanding() {
            if let Some(id) = call.id.clone() {
                self.0.remove(&(call.call, id));
            }
        }
        self.0.into_iter().collect()
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
            let answered = slow.answered(now).into_iter();
            answered.map(|(_, seconds)| seconds).collect()
        };
        let seen = [waits(0.9), waits(3.7), waits(1.2)];
        assert_eq!(after(&seen, &healthy()), [3.7]);
        assert!(after(&seen, &waits(1.3)).is_empty());
        assert!(after(&[waits(0.9)], &healthy()).is_empty());
    }
}
