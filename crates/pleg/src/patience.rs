//! When a call is overdue: what is slow on one node is common on another, so lists are
//! measured by our own.

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::Config;
use crate::runtime::Call;

/// How many lists the 95th percentile is taken of.
const REMEMBERED: usize = 64;

/// A list that takes this many times what is configured hung; it was not merely slow.
const HUNG: u32 = 4;

/// Knows after which time a call is overdue.
#[derive(Clone, Debug)]
pub struct Patience {
    list: Duration,
    status: Duration,
    took: VecDeque<Duration>,
    common: Duration,
}

impl Patience {
    /// Begins with what is configured, as if all lists so far had been quick: three of
    /// [`REMEMBERED`] may be slow before that counts as common.
    pub fn new(config: &Config) -> Self {
        Self {
            list: config.list_overdue,
            status: config.status_overdue,
            took: VecDeque::from([Duration::ZERO; REMEMBERED]),
            common: Duration::ZERO,
        }
    }

    /// Learns how long a good list took. One that hung says nothing of how long lists
    /// commonly take.
    pub fn learn(&mut self, took: Duration) {
        if took <= self.list * HUNG {
            self.took.pop_front();
            self.took.push_back(took);
            self.common = percentile_95(&self.took);
        }
    }

    /// After which time `call` is overdue. For lists the larger of the configured time
    /// and four times the 95th percentile of our own.
    pub fn with(&self, call: Call) -> Duration {
        match call {
            Call::ListPodSandbox | Call::ListContainers => self.list.max(self.common * 4),
            Call::Version | Call::GetContainerEvents => self.list,
            Call::PodSandboxStatus | Call::ContainerStatus => self.status,
        }
    }
}

fn percentile_95(took: &VecDeque<Duration>) -> Duration {
    let mut sorted: Vec<Duration> = took.iter().copied().collect();
    sorted.sort_unstable();
    let rank = (sorted.len() * 95).div_ceil(100);
    rank.checked_sub(1)
        .map_or(Duration::ZERO, |index| sorted[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_whose_lists_are_slow_is_given_four_times_their_common_time() {
        let mut patience = Patience::new(&Config::default());
        let list = |patience: &Patience| patience.with(Call::ListContainers);
        assert_eq!(list(&patience), Duration::from_secs(2));
        for _ in 0..3 {
            patience.learn(Duration::from_secs(3));
        }
        assert_eq!(list(&patience), Duration::from_secs(2));
        patience.learn(Duration::from_secs(3));
        assert_eq!(list(&patience), Duration::from_secs(12));
        for _ in 0..61 {
            patience.learn(Duration::from_millis(10));
        }
        assert_eq!(list(&patience), Duration::from_secs(2));
        assert_eq!(patience.with(Call::ContainerStatus), Duration::from_secs(5));
    }

    #[test]
    fn lists_that_hung_do_not_make_the_next_ones_go_unnoticed() {
        let mut patience = Patience::new(&Config::default());
        for _ in 0..64 {
            patience.learn(Duration::from_secs(200));
        }
        assert_eq!(patience.with(Call::ListContainers), Duration::from_secs(2));
    }
}
