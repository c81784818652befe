//! How long list calls took, since this was last read.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pleg::runtime::Rpc;
use recorder::ListTimes;

/// How many durations are kept for each list: more than there are in a minute, even if lists are
/// requested without a pause.
const MAX_TIMES: usize = 1000;

/// The list calls since they were last taken.
#[derive(Debug, Default)]
pub(crate) struct ListCalls(Mutex<BTreeMap<Rpc, Calls>>);

#[derive(Debug, Default)]
struct Calls {
    seconds: Vec<f64>,
    answered: u64,
    failed: u64,
    max_bytes: u64,
}

impl ListCalls {
    /// Counts a call that has ended, if it is a list call.
    pub(crate) fn ended(&self, call: Rpc, took: Duration, is_failed: bool) {
        if !call.is_list() {
            return;
        }
        let mut all = self.lock();
        let calls = all.entry(call).or_default();
        match is_failed {
            true => calls.failed += 1,
            false => calls.answered += 1,
        }
        if calls.seconds.len() < MAX_TIMES {
            calls.seconds.push(took.as_secs_f64());
        }
    }

    /// Records the size of an answer to a list call.
    pub(crate) fn received(&self, call: Rpc, bytes: usize) {
        let mut all = self.lock();
        let calls = all.entry(call).or_default();
        calls.max_bytes = calls.max_bytes.max(bytes as u64);
    }

    /// Takes the list calls since the last time.
    pub(crate) fn take(&self) -> Vec<ListTimes> {
        let all = std::mem::take(&mut *self.lock());
        let times = all.into_iter().map(|(call, calls)| calls.times(call));
        times.filter(|it| it.answered + it.failed > 0).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Rpc, Calls>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Calls {
    fn times(mut self, call: Rpc) -> ListTimes {
        self.seconds.sort_by(f64::total_cmp);
        let at = |index: usize| self.seconds.get(index).copied().unwrap_or_default();
        let last = self.seconds.len().saturating_sub(1);
        ListTimes {
            call,
            answered: self.answered,
            failed: self.failed,
            min_seconds: at(0),
            median_seconds: at(last / 2),
            max_seconds: at(last),
            max_bytes: self.max_bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_of_each_list_are_reported_once() {
        let calls = ListCalls::default();
        for millis in [300, 100, 200] {
            calls.ended(Rpc::ListContainers, Duration::from_millis(millis), false);
            calls.received(Rpc::ListContainers, 10 * millis as usize);
        }
        calls.ended(Rpc::ListContainers, Duration::from_secs(2), true);
        calls.ended(Rpc::ContainerStatus, Duration::from_secs(9), false);
        let expected = ListTimes {
            call: Rpc::ListContainers,
            answered: 3,
            failed: 1,
            min_seconds: 0.1,
            median_seconds: 0.2,
            max_seconds: 2.0,
            max_bytes: 3000,
        };
        assert_eq!(calls.take(), [expected]);
        assert_eq!(calls.take(), []);
    }
}
