//! The gate before all workers: while the node is not usable, no sync is begun.
//!
//! ```text
//!   open --errors--> closed: checked again after 100 ms, 200 ms, 400 ms ... 5 s --none--> open
//! ```
//!
//! Source: Kubernetes 1.36, `syncLoop`.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause of a closed gate; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Which errors stop all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// A pod whose calls hang stops only itself. All pods stop while the runtime reports that it is
    /// not ready or is unresponsive, and continue as soon as that has ended.
    #[default]
    Pod,
    /// The kubelet's policy: a runtime that is down or an unhealthy PLEG stops all pods, and the
    /// end is checked with growing pauses.
    Node,
}

/// Whether syncs are begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// They are.
    Open,
    /// They are not.
    Closed {
        /// Since when.
        since: Instant,
        /// The minimum time until it opens, from the last check.
        pause: Duration,
        /// When it is checked again.
        again_at: Instant,
    },
}

/// The result of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Nothing,
    /// It is closed, and is checked again after this time.
    Skips(Duration),
    /// It has opened after it was closed for this long.
    Opened(Duration),
}

impl Gate {
    /// Closed until the first check.
    pub(crate) fn at_start(now: Instant) -> Self {
        Self::Closed {
            since: now,
            pause: Duration::ZERO,
            again_at: now,
        }
    }

    /// When it must be checked again.
    pub(crate) fn alarm(self) -> Option<Instant> {
        match self {
            Self::Open => None,
            Self::Closed { again_at, .. } => Some(again_at),
        }
    }

    /// Checks whether there is a reason to be closed.
    pub(crate) fn look(&mut self, now: Instant, policy: Policy, is_clear: bool) -> Turn {
        match *self {
            Self::Open if is_clear => Turn::Nothing,
            Self::Open => self.close(now, now, FIRST_PAUSE),
            Self::Closed { again_at, .. } if policy == Policy::Node && now < again_at => {
                Turn::Nothing
            }
            Self::Closed { since, .. } if is_clear => {
                *self = Self::Open;
                Turn::Opened(now.saturating_duration_since(since))
            }
            Self::Closed { again_at, .. } if now < again_at => Turn::Nothing,
            Self::Closed { since, pause, .. } => {
                self.close(now, since, (pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE))
            }
        }
    }

    fn close(&mut self, now: Instant, since: Instant, pause: Duration) -> Turn {
        *self = Self::Closed {
            since,
            pause,
            again_at: now + pause,
        };
        Turn::Skips(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_pauses_double_from_100_ms_to_5_s_and_begin_anew_after_an_opening() {
        let mut gate = Gate::Open;
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let Turn::Skips(pause) = gate.look(now, Policy::Node, false) else {
                panic!("{gate:?}");
            };
            pauses.push(pause.as_millis());
            now += pause;
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(matches!(
            gate.look(now, Policy::Node, true),
            Turn::Opened(_)
        ));
        let again = gate.look(now, Policy::Node, false);
        assert_eq!(again, Turn::Skips(FIRST_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_that_does_not_open_at_the_start_is_looked_at_again_after_a_pause() {
        let now = Instant::now();
        let mut gate = Gate::at_start(now);
        assert_eq!(gate.alarm(), Some(now));
        let first = gate.look(now, Policy::Pod, false);
        assert_eq!(first, Turn::Skips(FIRST_PAUSE));
        let second = gate.look(now + FIRST_PAUSE, Policy::Pod, false);
        assert_eq!(second, Turn::Skips(2 * FIRST_PAUSE));
    }

    #[tokio::test(start_paused = true)]
    async fn a_kubelet_opens_late_and_we_open_at_once() {
        let now = Instant::now();
        let soon = now + Duration::from_millis(10);
        for (policy, turn) in [
            (Policy::Node, Turn::Nothing),
            (Policy::Pod, Turn::Opened(Duration::from_millis(10))),
        ] {
            let mut gate = Gate::Open;
            gate.look(now, policy, false);
            assert_eq!(gate.look(soon, policy, true), turn);
        }
    }
}
