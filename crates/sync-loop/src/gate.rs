//! The gate in front of all workers: while it is closed, no sync is started.
//!
//! ```text
//!   open --errors--> closed, checked again after 100 ms, 200 ms, ... 5 s --no errors--> open
//! ```
//!
//! Source: Kubernetes 1.36, `syncLoop`.

use std::time::Duration;

use tokio::time::Instant;

/// The first pause between two checks of a closed gate. Each pause is twice the previous one.
const MIN_PAUSE: Duration = Duration::from_millis(100);

/// The longest pause between two checks of a closed gate.
const MAX_PAUSE: Duration = Duration::from_secs(5);

/// Which errors pause the syncing of all pods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// A pod with a stuck call pauses only itself. All pods pause while the runtime is unresponsive
    /// or reports that it is not ready, and continue as soon as it is ready again.
    #[default]
    Pod,
    /// The kubelet's policy: a runtime that is down or an unhealthy PLEG pauses all pods. Whether
    /// they may continue is checked with growing pauses.
    Node,
}

/// Whether syncs are started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gate {
    /// Syncs are started.
    Open,
    /// No sync is started.
    Closed {
        /// When the gate closed.
        since: Instant,
        /// The time from the last check to the next one.
        pause: Duration,
        /// When the gate is checked again.
        again_at: Instant,
    },
}

/// The result of a check of the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    Unchanged,
    /// The gate is closed, and is checked again after a pause.
    Skip,
    /// The gate has opened. It was closed for this long.
    Opened(Duration),
}

impl Gate {
    /// A gate that is closed until a check finds no errors. The first check is due at once.
    pub(crate) fn at_start(now: Instant) -> Self {
        Self::Closed {
            since: now,
            pause: Duration::ZERO,
            again_at: now,
        }
    }

    /// When the gate must be checked again.
    pub(crate) fn alarm(self) -> Option<Instant> {
        match self {
            Self::Open => None,
            Self::Closed { again_at, .. } => Some(again_at),
        }
    }

    /// Opens or closes the gate. `is_clear` is whether there are no errors now.
    pub(crate) fn check(&mut self, now: Instant, policy: Policy, is_clear: bool) -> Check {
        match *self {
            Self::Open if is_clear => Check::Unchanged,
            Self::Open => self.close(now, now, MIN_PAUSE),
            Self::Closed { again_at, .. }
                if now < again_at && (policy == Policy::Node || !is_clear) =>
            {
                Check::Unchanged
            }
            Self::Closed { since, .. } if is_clear => {
                *self = Self::Open;
                Check::Opened(now.saturating_duration_since(since))
            }
            Self::Closed { since, pause, .. } => {
                self.close(now, since, (pause * 2).clamp(MIN_PAUSE, MAX_PAUSE))
            }
        }
    }

    fn close(&mut self, now: Instant, since: Instant, pause: Duration) -> Check {
        *self = Self::Closed {
            since,
            pause,
            again_at: now + pause,
        };
        Check::Skip
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pause(gate: Gate) -> Duration {
        match gate {
            Gate::Open => panic!("it is open"),
            Gate::Closed { pause, .. } => pause,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_double_from_100_ms_to_5_s_and_start_again_after_the_gate_opened() {
        let mut gate = Gate::Open;
        let mut now = Instant::now();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            assert_eq!(gate.check(now, Policy::Node, false), Check::Skip);
            pauses.push(pause(gate).as_millis());
            now += pause(gate);
        }
        assert_eq!(pauses, [100, 200, 400, 800, 1600, 3200, 5000, 5000]);
        assert!(matches!(
            gate.check(now, Policy::Node, true),
            Check::Opened(_)
        ));
        assert_eq!(gate.check(now, Policy::Node, false), Check::Skip);
        assert_eq!(pause(gate), MIN_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_gate_that_does_not_open_at_the_start_is_checked_again_after_a_pause() {
        let now = Instant::now();
        let mut gate = Gate::at_start(now);
        assert_eq!(gate.alarm(), Some(now));
        assert_eq!(gate.check(now, Policy::Pod, false), Check::Skip);
        assert_eq!(pause(gate), MIN_PAUSE);
        assert_eq!(gate.check(now + MIN_PAUSE, Policy::Pod, false), Check::Skip);
        assert_eq!(pause(gate), 2 * MIN_PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn the_gate_opens_at_once_except_under_the_kubelets_policy() {
        let now = Instant::now();
        let soon = now + Duration::from_millis(10);
        for (policy, expected) in [
            (Policy::Node, Check::Unchanged),
            (Policy::Pod, Check::Opened(Duration::from_millis(10))),
        ] {
            let mut gate = Gate::Open;
            gate.check(now, policy, false);
            assert_eq!(gate.check(soon, policy, true), expected);
        }
    }
}
