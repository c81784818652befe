//! What a soak counts, and how that is shown.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use super::client::{Ends, NoAnswer, Path};
use super::faults::Fault;
use super::journal::Rule;
use super::node::Usage;

/// What is counted while a soak runs.
#[derive(Debug, Default)]
pub struct Counts {
    /// Complete lists that were checked, by socket.
    pub lists: BTreeMap<Path, u64>,
    /// The slowest of them.
    pub slowest_list: BTreeMap<Path, Duration>,
    /// Statuses that were checked.
    pub statuses: u64,
    /// Answers through the guard that contradict what is true, and what the runtime says itself.
    pub dangerous: BTreeMap<Rule, u64>,
    /// The runtime's own contradictions.
    pub runtimes_own: BTreeMap<Rule, u64>,
    /// Containers or sandboxes that were lost once a fault had ended.
    pub lost: Vec<String>,
    /// Of which two ran.
    pub doubled: Vec<String>,
    /// Sandboxes that the kubelet made again because its list showed none that was ready.
    pub sandboxes_made_again: u64,
    /// Containers that the kubelet made.
    pub containers_made: u64,
    /// Containers that were killed.
    pub killed: u64,
    /// Pods that were deleted.
    pub pods_deleted: u64,
    /// Tries of the kubelet's pod workers that failed; it tries again.
    pub work_failed: u64,
    /// Probes while there was no fault.
    pub probes: u64,
    /// Those of them that failed.
    pub probes_failed: u64,
    /// Relists of the kubelet.
    pub relists: u64,
    /// The longest time between two relists, by what happened.
    pub longest_gap: BTreeMap<String, Duration>,
    pub(super) during: String,
    /// How calls ended, by socket.
    pub ends: BTreeMap<Path, Ends>,
    /// How often each fault took place.
    pub faults: BTreeMap<Fault, u64>,
}

impl Counts {
    pub(super) fn ended(&mut self, path: Path, error: Option<&NoAnswer>) {
        let how = match error {
            None => "answered".to_owned(),
            Some(NoAnswer::Deadline) => "no answer".to_owned(),
            Some(NoAnswer::NotFound) => "NotFound".to_owned(),
            Some(NoAnswer::Refused(code)) => format!("{code:?}"),
        };
        *self.ends.entry(path).or_default().entry(how).or_default() += 1;
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

/// A process over time.
#[derive(Clone, Debug, Default)]
pub struct Usages {
    /// One sample a second, of one process or its successors.
    samples: Vec<Usage>,
}

impl Usages {
    pub(super) fn add(&mut self, usage: Usage) {
        if usage.anonymous > 0 {
            self.samples.push(usage);
        }
    }

    /// The largest values.
    pub fn most(&self) -> Usage {
        let samples = self.samples.iter();
        samples.fold(Usage::default(), |most, usage| Usage {
            anonymous: most.anonymous.max(usage.anonymous),
            descriptors: most.descriptors.max(usage.descriptors),
        })
    }

    /// The medians of the first and of the last third: what grows shows here.
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

/// Pairs of the same call on both sockets, while there is no fault.
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

    fn percentile(of: &[Duration], percent: usize) -> Duration {
        let mut sorted = of.to_vec();
        sorted.sort_unstable();
        let place = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().unwrap_or_default()
    }
}

/// The result of a soak.
#[derive(Debug, Default)]
pub struct Report {
    /// How long it lasted.
    pub lasted: Duration,
    /// What was counted.
    pub counts: Counts,
    /// The guard's own counts, of all guards that ran.
    pub answered: BTreeMap<String, u64>,
    /// Changes that it reported as done.
    pub completed: BTreeMap<String, u64>,
    /// Lists that it compared in shadow mode.
    pub compared: u64,
    /// Differences that it found.
    pub differences: u64,
    /// What the guard used.
    pub guard: Usages,
    /// What the agent used.
    pub agent: Usages,
    /// How long calls took, by method.
    pub latencies: BTreeMap<&'static str, Latencies>,
    /// Panics in the guard's log.
    pub complaints: Vec<String>,
    /// Whether the machine runs this process in time: the longest pause of it.
    pub longest_pause: Duration,
}

impl Report {
    /// What is wrong; nothing after a good run.
    pub fn faults_found(&self) -> Vec<String> {
        let mut found = Vec::new();
        for (rule, count) in &self.counts.dangerous {
            // A kubelet skips what it then does not find.
            if *rule != Rule::Stale {
                found.push(format!("{count} dangerous answers: {rule:?}"));
            }
        }
        found.extend(self.counts.lost.iter().map(|what| format!("lost: {what}")));
        found.extend(
            self.counts
                .doubled
                .iter()
                .map(|what| format!("doubled: {what}")),
        );
        if self.differences > 0 {
            found.push(format!("{} differences in shadow mode", self.differences));
        }
        let [first, last] = self.guard.trend();
        if last.descriptors > first.descriptors + 10 {
            found.push(format!(
                "descriptors of the guard: {first:?}, then {last:?}"
            ));
        }
        found.extend(self.complaints.clone());
        found
    }

    pub(super) fn add_guard(&mut self, status: &guard_api::Status) {
        for (total, of) in [
            (&mut self.answered, &status.answered),
            (&mut self.completed, &status.completed),
        ] {
            for (method, count) in of {
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
        writeln!(f, "lasted                    {:?}", self.lasted)?;
        writeln!(f, "faults                    {:?}", counts.faults)?;
        writeln!(
            f,
            "churn                     {} containers made, {} killed, {} pods deleted, {} tries failed, {} \
             sandboxes made again",
            counts.containers_made,
            counts.killed,
            counts.pods_deleted,
            counts.work_failed,
            counts.sandboxes_made_again
        )?;
        writeln!(f, "lists checked             {:?}", counts.lists)?;
        writeln!(f, "statuses checked          {}", counts.statuses)?;
        writeln!(f, "dangerous answers         {:?}", counts.dangerous)?;
        writeln!(f, "the runtime's own         {:?}", counts.runtimes_own)?;
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
            "probes in calm, failed    {}, {}",
            counts.probes, counts.probes_failed
        )?;
        writeln!(f, "calls                     {:?}", counts.ends)?;
        writeln!(f, "relists                   {}", counts.relists)?;
        for (during, gap) in &counts.longest_gap {
            writeln!(
                f,
                "longest without one       {:.1} s ({during})",
                gap.as_secs_f64()
            )?;
        }
        for (what, usages) in [("guard", &self.guard), ("agent", &self.agent)] {
            let ([first, last], most) = (usages.trend(), usages.most());
            writeln!(
                f,
                "{what}, anonymous memory   {} KiB in the first third, {} KiB in the last, {} KiB at most",
                first.anonymous, last.anonymous, most.anonymous
            )?;
            writeln!(
                f,
                "{what}, descriptors        {}, {}, {}",
                first.descriptors, last.descriptors, most.descriptors
            )?;
        }
        for (what, pairs) in &self.latencies {
            for percent in [50, 99] {
                let direct = Latencies::percentile(&pairs.direct, percent);
                let guarded = Latencies::percentile(&pairs.guarded, percent);
                let added = guarded.as_secs_f64() - direct.as_secs_f64();
                writeln!(
                    f,
                    "{what} p{percent}  direct {direct:?}, through the guard {guarded:?}, added {:.3} ms ({} pairs)",
                    added * 1e3,
                    pairs.direct.len()
                )?;
            }
        }
        write!(f, "longest pause of this process {:?}", self.longest_pause)
    }
}
