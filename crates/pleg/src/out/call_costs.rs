//! What calls cost: how long those of each kind took, and how many failed.
//!
//! ```
//! use std::time::Duration;
//!
//! use pleg::runtime::Rpc;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::out::cache::Stopped> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
//! tokio::time::sleep(Duration::from_secs(1)).await;
//!
//! let status = pleg.status().await?;
//! let mut costs = status.costs.iter();
//! assert!(costs.any(|cost| cost.call == Rpc::ContainerStatus && cost.count == 1));
//! # Ok(())
//! # }
//! ```

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::runtime::{CallError, Rpc};

/// How many measurements of each kind of call are kept: those of a few relists of a large node.
const MAX_SAMPLES: usize = 2000;

/// How many ended calls are remembered to find out which calls overlapped: more than may be outstanding.
const MAX_COMPARED: usize = 64;

/// How long a measurement is valid: older ones describe another situation.
const MAX_AGE: Duration = Duration::from_secs(600);

/// What the recent calls of one kind cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CallCost {
    /// CRI's method name.
    pub call: Rpc,
    /// How many calls were answered without an error.
    pub count: usize,
    /// How many calls failed.
    pub failed: usize,
    /// How many seconds the last answered call took.
    pub last: f64,
    /// How many seconds ago the last answered call was answered, if one was.
    pub answered_ago: Option<f64>,
    /// Why the newest call failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// The median duration, in seconds.
    pub p50: f64,
    /// The 90th percentile of the durations, in seconds.
    pub p90: f64,
    /// The 99th percentile of the durations, in seconds.
    pub p99: f64,
    /// The longest duration, in seconds.
    pub max: f64,
    /// The mean duration, in seconds.
    pub mean: f64,
    /// How many calls were sent while no other call was outstanding.
    pub alone: usize,
    /// The mean duration of the calls that were sent while no other was outstanding, in seconds.
    pub alone_mean: Option<f64>,
    /// The size of the last list, in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

/// Measures calls, in limited memory.
#[derive(Debug, Default)]
pub(crate) struct CallCosts {
    kinds: BTreeMap<Rpc, Samples>,
    /// When the last calls were sent and ended.
    ended: VecDeque<(Instant, Instant)>,
}

#[derive(Debug, Default)]
struct Samples {
    answered: VecDeque<Sample>,
    /// When calls failed.
    failed: VecDeque<Instant>,
    /// The error of the newest call, if it failed.
    error: Option<CallError>,
    bytes: Option<u64>,
}

#[derive(Debug)]
struct Sample {
    ended: Instant,
    seconds: f64,
    is_alone: bool,
}

impl CallCosts {
    /// Adds a call that was sent at `begun` and ended `now`. `is_behind_another` is whether a call that was
    /// sent earlier is still outstanding.
    pub(crate) fn add(
        &mut self,
        call: Rpc,
        begun: Instant,
        error: Option<&CallError>,
        is_behind_another: bool,
        now: Instant,
    ) {
        let was_outstanding = |(made, ended): &(Instant, Instant)| *made <= begun && *ended > begun;
        let is_alone = !is_behind_another && !self.ended.iter().any(was_outstanding);
        push(&mut self.ended, (begun, now), MAX_COMPARED);
        let samples = self.kinds.entry(call).or_default();
        samples.error = error.cloned();
        if error.is_some() {
            push(&mut samples.failed, now, MAX_SAMPLES);
            return;
        }
        let sample = Sample {
            ended: now,
            seconds: now.duration_since(begun).as_secs_f64(),
            is_alone,
        };
        push(&mut samples.answered, sample, MAX_SAMPLES);
    }

    /// Records the size of a list.
    pub(crate) fn list_received(&mut self, call: Rpc, bytes: usize) {
        self.kinds.entry(call).or_default().bytes = Some(bytes as u64);
    }

    /// What each kind of call costs.
    pub(crate) fn report(&self, now: Instant) -> Vec<CallCost> {
        let kinds = self.kinds.iter();
        kinds
            .filter_map(|(call, samples)| samples.report(*call, now))
            .collect()
    }
}

/// Adds an item, and removes the oldest one if there are more than `max`.
fn push<T>(items: &mut VecDeque<T>, item: T, max: usize) {
    items.push_back(item);
    if items.len() > max {
        items.pop_front();
    }
}

impl Samples {
    fn report(&self, call: Rpc, now: Instant) -> Option<CallCost> {
        let is_recent = |ended: &Instant| now < *ended + MAX_AGE;
        let answered = self.answered.iter();
        let recent = answered.filter(|sample| is_recent(&sample.ended));
        let failed = self.failed.iter().filter(|ended| is_recent(ended)).count();
        let last = recent.clone().next_back();
        let alone = recent.clone().filter(|sample| sample.is_alone);
        let alone: Vec<f64> = alone.map(|sample| sample.seconds).collect();
        let mut seconds: Vec<f64> = recent.clone().map(|sample| sample.seconds).collect();
        if seconds.is_empty() && failed == 0 {
            return None;
        }
        seconds.sort_by(f64::total_cmp);
        let rank = |of: usize| (seconds.len() * of).div_ceil(100).saturating_sub(1);
        let at = |of: usize| seconds.get(rank(of)).copied().unwrap_or_default();
        Some(CallCost {
            call,
            count: seconds.len(),
            failed,
            last: last.map_or(0.0, |sample| sample.seconds),
            answered_ago: last.map(|sample| now.duration_since(sample.ended).as_secs_f64()),
            error: self.error.clone(),
            p50: at(50),
            p90: at(90),
            p99: at(99),
            max: at(100),
            mean: mean(&seconds).unwrap_or_default(),
            alone: alone.len(),
            alone_mean: mean(&alone),
            bytes: self.bytes,
        })
    }
}

fn mean(seconds: &[f64]) -> Option<f64> {
    (!seconds.is_empty()).then(|| seconds.iter().sum::<f64>() / seconds.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: Rpc = Rpc::ContainerStatus;

    fn seconds(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    #[test]
    fn durations_are_summarised_by_kind() {
        let begin = Instant::now();
        let mut costs = CallCosts::default();
        for took in 1..=100 {
            costs.add(CALL, begin, None, true, begin + seconds(took));
        }
        let why = CallError::Refused("no".into());
        costs.add(CALL, begin, Some(&why), true, begin + seconds(101));
        let [cost] = &costs.report(begin + seconds(101))[..] else {
            panic!("one kind");
        };
        assert_eq!((cost.count, cost.failed), (100, 1));
        assert_eq!((cost.p50, cost.p90, cost.max), (50.0, 90.0, 100.0));
        assert_eq!((cost.mean, cost.last), (50.5, 100.0));
        assert_eq!((cost.alone, cost.alone_mean), (0, None));
    }

    #[test]
    fn calls_that_were_sent_while_no_other_was_outstanding_are_counted_separately() {
        let begin = Instant::now();
        let at = |time| begin + seconds(time);
        let mut costs = CallCosts::default();
        costs.add(CALL, begin, None, false, at(1));
        // The call at 5 is sent before the call at 2 is answered. The call at 7 is behind another.
        costs.add(CALL, at(2), None, false, at(6));
        costs.add(CALL, at(7), None, true, at(8));
        costs.add(CALL, at(5), None, false, at(9));
        costs.add(CALL, at(9), None, false, at(12));
        let cost = &costs.report(at(12))[0];
        assert_eq!((cost.alone, cost.alone_mean), (3, Some(8.0 / 3.0)));
    }

    #[test]
    fn old_measurements_do_not_count() {
        let begin = Instant::now();
        let mut costs = CallCosts::default();
        costs.add(CALL, begin, None, false, begin + seconds(60));
        assert_eq!(costs.report(begin + seconds(61)).len(), 1);
        assert_eq!(costs.report(begin + seconds(700)), []);
    }
}
