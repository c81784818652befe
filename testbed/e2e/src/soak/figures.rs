//! The figures of a soak, and their output.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::client::{Ends, NoAnswer, Path};
use super::faults::Fault;
use super::journal::Rule;
use super::node::Usage;

/// The counts of a soak.
#[derive(Debug, Default)]
pub struct Counts {
    /// Complete lists that were checked, by socket.
    pub lists: BTreeMap<Path, u64>,
    /// The longest time of a list, by socket.
    pub slowest_list: BTreeMap<Path, Duration>,
    /// Statuses that were checked.
    pub statuses: u64,
    /// Answers through the guard that contradict the journal and the runtime's own answers.
    pub dangerous: BTreeMap<Rule, u64>,
    /// Answers that contradict the journal, and that the runtime itself gives.
    pub runtimes_own: BTreeMap<Rule, u64>,
    /// Containers and sandboxes that did not run after a fault had ended.
    pub lost: Vec<String>,
    /// Containers and sandboxes that ran twice after a fault had ended.
    pub doubled: Vec<String>,
    /// Sandboxes that the kubelet created again, because its list showed no ready one.
    pub sandboxes_made_again: u64,
    /// Containers that the kubelet created.
    pub containers_made: u64,
    /// Containers that were killed.
    pub killed: u64,
    /// Pods that were deleted.
    pub pods_deleted: u64,
    /// Attempts of the kubelet's pod workers that failed. They are repeated.
    pub work_failed: u64,
    /// Probes without a fault.
    pub probes: u64,
    /// Probes without a fault that failed.
    pub probes_failed: u64,
    /// Relists of the kubelet.
    pub relists: u64,
    /// The longest time between two relists, by mode and fault.
    pub longest_gap: BTreeMap<String, Duration>,
    /// The current mode and fault.
    pub(super) during: String,
    /// The number of calls, by socket and result.
    pub ends: BTreeMap<Path, Ends>,
    /// How often each fault had an effect.
    pub faults: BTreeMap<Fault, u64>,
}

impl Counts {
    pub(super) fn ended(&mut self, path: Path, error: Option<&NoAnswer>) {
        let result = match error {
            None => "answered".to_owned(),
            Some(NoAnswer::Deadline) => "no answer".to_owned(),
            Some(NoAnswer::NotFound) => "NotFound".to_owned(),
            Some(NoAnswer::Refused(code)) => format!("{code:?}"),
        };
        *self
            .ends
            .entry(path)
            .or_default()
            .entry(result)
            .or_default() += 1;
    }

    pub(super) fn listed(&mut self, path: Path, took: Duration) {
        *self.lists.entry(path).or_default() += 1;
        let slowest = self.slowest_list.entry(path).or_default();
        *slowest = took.max(*slowest);
    }

    pub(super) fn contradicted(&mut self, rule: Rule, is_own: bool) {
        let counts = match is_own {
            true => &mut self.runtimes_own,
            false => &mut self.dangerous,
        };
        *counts.entry(rule).or_default() += 1;
    }

    pub(super) fn relisted(&mut self, gap: Duration) {
        self.relists += 1;
        let longest = self.longest_gap.entry(self.during.clone()).or_default();
        *longest = gap.max(*longest);
    }

    pub(super) fn probed(&mut self, succeeds: bool) {
        self.probes += 1;
        self.probes_failed += u64::from(!succeeds);
    }
}

/// The resources that a process uses, over time.
#[derive(Clone, Debug, Default)]
pub struct Usages {
    /// One sample per second, of the process or of the one that replaced it.
    samples: Vec<Usage>,
}

impl Usages {
    pub(super) fn add(&mut self, usage: Usage) {
        if usage.anonymous > 0 {
            self.samples.push(usage);
        }
    }

    /// The largest values.
    pub fn peak(&self) -> Usage {
        let samples = self.samples.iter();
        samples.fold(Usage::default(), |peak, usage| Usage {
            anonymous: peak.anonymous.max(usage.anonymous),
            descriptors: peak.descriptors.max(usage.descriptors),
        })
    }

    /// The medians of the first and of the last third, which show growth.
    pub fn trend(&self) -> [Usage; 2] {
        let third = self.samples.len() / 3;
        let last = self.samples.len() - third;
        [&self.samples[..third], &self.samples[last..]].map(|samples| {
            let median = |of: fn(&Usage) -> u64| {
                let mut values: Vec<u64> = samples.iter().map(of).collect();
                values.sort_unstable();
                values.get(values.len() / 2).copied().unwrap_or_default()
            };
            Usage {
                anonymous: median(|usage| usage.anonymous),
                descriptors: median(|usage| usage.descriptors),
            }
        })
    }
}

/// The latencies of a call on both sockets, in pairs, without a fault.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    direct: Vec<Duration>,
    guarded: Vec<Duration>,
}

impl Latencies {
    pub(super) fn add(&mut self, direct: Duration, guarded: Duration) {
        self.direct.push(direct);
        self.guarded.push(guarded);
    }

    fn percentile(times: &[Duration], percent: usize) -> Duration {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().unwrap_or_default()
    }
}

/// The result of a soak.
#[derive(Debug, Default)]
pub struct Report {
    /// How long the soak lasted.
    pub lasted: Duration,
    /// What was counted.
    pub counts: Counts,
    /// The calls that guards answered, by method: the sum of their own counts.
    pub answered: BTreeMap<String, u64>,
    /// The calls that guards completed, by method.
    pub completed: BTreeMap<String, u64>,
    /// The lists that guards compared in shadow mode.
    pub compared: u64,
    /// The differences that guards found in shadow mode.
    pub differences: u64,
    /// What the guard used.
    pub guard: Usages,
    /// What the agent used.
    pub agent: Usages,
    /// The latencies of calls, by method.
    pub latencies: BTreeMap<&'static str, Latencies>,
    /// The panics in the guard's log.
    pub panics: Vec<String>,
    /// The longest pause of this process. If it is long, the machine was busy.
    pub longest_pause: Duration,
}

impl Report {
    /// The problems that the soak found.
    pub fn problems(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (rule, count) in &self.counts.dangerous {
            // A kubelet skips an id whose status is NotFound.
            if *rule != Rule::Stale {
                found.push(format!("{count} dangerous answers: {rule:?}"));
            }
        }
        found.extend(self.counts.lost.iter().map(|name| format!("lost: {name}")));
        found.extend(
            self.counts
                .doubled
                .iter()
                .map(|name| format!("doubled: {name}")),
        );
        if self.differences > 0 {
            found.push(format!("{} differences in shadow mode", self.differences));
        }
        let [first, last] = self.guard.trend();
        if last.descriptors > first.descriptors + 10 {
            found.push(format!(
                "descriptors of the guard grew: {first:?}, then {last:?}"
            ));
        }
        found.extend(self.panics.clone());
        found
    }

    pub(super) fn add_guard(&mut self, status: &guard_api::Status) {
        for (total, counts) in [
            (&mut self.answered, &status.answered),
            (&mut self.completed, &status.completed),
        ] {
            for (method, count) in counts {
                *total.entry(method.clone()).or_default() += count;
            }
        }
        self.compared += status.compared;
        self.differences += status.differences;
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = &self.counts;
        writeln!(f, "duration                  {:?}", self.lasted)?;
        writeln!(f, "faults                    {:?}", counts.faults)?;
        writeln!(
            f,
            "churn                     {} containers created, {} killed, {} pods deleted, {} attempts failed, \
             {} sandboxes created again",
            counts.containers_made,
            counts.killed,
            counts.pods_deleted,
            counts.work_failed,
            counts.sandboxes_made_again
        )?;
        writeln!(f, "lists checked             {:?}", counts.lists)?;
        writeln!(f, "statuses checked          {}", counts.statuses)?;
        writeln!(f, "dangerous answers         {:?}", counts.dangerous)?;
        writeln!(f, "runtime's contradictions  {:?}", counts.runtimes_own)?;
        writeln!(
            f,
            "lost, doubled             {:?}, {:?}",
            counts.lost, counts.doubled
        )?;
        writeln!(
            f,
            "shadow                    {} differences in {} lists",
            self.differences, self.compared
        )?;
        writeln!(f, "answered by the guard     {:?}", self.answered)?;
        writeln!(f, "completed by the guard    {:?}", self.completed)?;
        writeln!(
            f,
            "probes, failed            {}, {}",
            counts.probes, counts.probes_failed
        )?;
        writeln!(f, "calls                     {:?}", counts.ends)?;
        writeln!(f, "relists                   {}", counts.relists)?;
        for (during, gap) in &counts.longest_gap {
            writeln!(
                f,
                "longest relist gap        {:.1} s ({during})",
                gap.as_secs_f64()
            )?;
        }
        for (name, usages) in [("guard", &self.guard), ("agent", &self.agent)] {
            let ([first, last], peak) = (usages.trend(), usages.peak());
            writeln!(
                f,
                "{name}, anonymous memory   {} KiB in the first third, {} KiB in the last, {} KiB at most",
                first.anonymous, last.anonymous, peak.anonymous
            )?;
            writeln!(
                f,
                "{name}, descriptors        {}, {}, {}",
                first.descriptors, last.descriptors, peak.descriptors
            )?;
        }
        for (method, pairs) in &self.latencies {
            for percent in [50, 99] {
                let direct = Latencies::percentile(&pairs.direct, percent);
                let guarded = Latencies::percentile(&pairs.guarded, percent);
                let added = guarded.as_secs_f64() - direct.as_secs_f64();
                writeln!(
                    f,
                    "{method} p{percent}  direct {direct:?}, through the guard {guarded:?}, added {:.3} ms ({} pairs)",
                    added * 1e3,
                    pairs.direct.len()
                )?;
            }
        }
        write!(f, "longest pause of this process {:?}", self.longest_pause)
    }
}
