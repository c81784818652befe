//! One probe of one container.

use std::sync::Arc;
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::Instant;

use super::CheckResult;
use crate::spec::Probe;

/// A probe of the container with this id.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) id: Id,
    /// When the next check is due.
    due: Instant,
    /// Whether a check is running. No other check starts before it has ended.
    is_checking: bool,
    streak: Streak,
    /// Whether the last result of the probe was a success, if there was one.
    was_success: Option<bool>,
    /// Whether no further check is performed for this container.
    is_stopped: bool,
}

/// Equal results in a row.
#[derive(Clone, Debug, Default)]
struct Streak {
    is_success: bool,
    length: u32,
}

/// The result of a probe, once enough checks in a row had the same result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ProbeResult {
    Success,
    Failure(Arc<str>),
}

impl Worker {
    /// `started` is when the container was started; `jitter` delays the first check.
    pub(super) fn new(id: Id, probe: &Probe, started: Instant, jitter: Duration) -> Self {
        Self {
            id,
            due: started + probe.initial_delay + jitter,
            is_checking: false,
            streak: Streak::default(),
            was_success: None,
            is_stopped: false,
        }
    }

    /// When the next check is due, if one is.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.is_checking && !self.is_stopped).then_some(self.due)
    }

    pub(super) fn begin(&mut self, probe: &Probe, now: Instant) {
        self.is_checking = true;
        self.due = now + probe.period;
    }

    /// Applies the result of a check. Returns the result of the probe if it has changed. If
    /// `stops_on_failure`, a failed probe performs no further check.
    pub(super) fn apply_result(
        &mut self,
        probe: &Probe,
        result: CheckResult,
        stops_on_failure: bool,
    ) -> Option<ProbeResult> {
        self.is_checking = false;
        let (result, threshold) = match result {
            CheckResult::Success => (ProbeResult::Success, probe.success_threshold),
            CheckResult::Failure(message) => {
                (ProbeResult::Failure(message), probe.failure_threshold)
            }
            CheckResult::Unknown(_) => return None,
        };
        let is_success = result == ProbeResult::Success;
        if self.streak.is_success != is_success {
            self.streak = Streak {
                is_success,
                length: 0,
            };
        }
        self.streak.length = self.streak.length.saturating_add(1);
        if self.streak.length < threshold {
            return None;
        }
        self.is_stopped = stops_on_failure && !is_success;
        let was_success = self.was_success.replace(is_success);
        (was_success != Some(is_success)).then_some(result)
    }

    /// Performs no further check.
    pub(super) fn stop(&mut self) {
        self.is_stopped = true;
    }
}
