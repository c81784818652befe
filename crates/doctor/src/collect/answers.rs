//! The outcomes of the calls: which are kept, and how long all of them took.

use std::collections::BTreeMap;

use pleg::runtime::Rpc;

use crate::facts::probes::{Cost, End, Failures, Outcome, Probe};

/// How many of the slowest calls of a kind are kept besides those that failed.
const MAX_SLOWEST: usize = 3;

/// With fewer calls, the mean is not meaningful.
const MIN_FOR_MEAN: usize = 10;

/// How many calls that failed are kept.
const MAX_FAILED: usize = 200;

/// All calls that ended, in limited memory.
#[derive(Default)]
pub(super) struct Answers {
    node: Vec<Probe>,
    wrong: Vec<Probe>,
    well: BTreeMap<Rpc, Vec<Well>>,
    /// How many calls for single ids failed, and how many were made.
    counts: BTreeMap<Rpc, (usize, usize)>,
    /// How long the slowest answered call took, in seconds.
    pub slowest: f64,
}

struct Well {
    probe: Probe,
    alone: bool,
}

impl Answers {
    /// Adds a call. `alone`: no other was outstanding meanwhile.
    pub fn take(&mut self, probe: Probe, alone: bool) {
        if probe.end == End::Answered {
            self.slowest = self.slowest.max(probe.seconds);
            let well = self.well.entry(probe.call).or_default();
            well.push(Well {
                probe: probe.clone(),
                alone,
            });
        }
        if probe.id.is_some() {
            let (failed, made) = self.counts.entry(probe.call).or_default();
            *made += 1;
            *failed += usize::from(probe.error().is_some());
        }
        match probe.id {
            // A repeated call replaces the first.
            None => {
                self.node.retain(|other| other.call != probe.call);
                self.node.push(probe);
            }
            Some(_) if probe.end == End::Answered => {}
            // There are never many of those that hang.
            Some(_) if self.wrong.len() < MAX_FAILED || probe.end == End::Hung => {
                self.wrong.push(probe);
            }
            Some(_) => {}
        }
    }

    /// Whether there was no connection for the call of that kind for the whole node.
    pub fn is_refused(&self, call: Rpc) -> bool {
        let mut node = self.node.iter();
        node.any(|probe| probe.call == call && probe.outcome() == Outcome::Refused)
    }

    /// How many seconds the call of that kind for the whole node took, if it has ended.
    pub fn of_node(&self, call: Rpc) -> Option<f64> {
        let mut node = self.node.iter();
        let ended = node.find(|probe| probe.call == call && probe.end != End::Hung)?;
        Some(ended.seconds)
    }

    /// How many calls for single ids failed.
    pub fn failures(&self) -> Vec<Failures> {
        let failing = self.counts.iter().filter(|(_, (failed, _))| *failed > 0);
        let failures = failing.map(|(call, (failed, made))| Failures {
            call: *call,
            failed: *failed,
            made: *made,
        });
        failures.collect()
    }

    /// Removes calls for the whole node that are not permitted; false if there are none.
    pub fn forget_forbidden(&mut self) -> bool {
        let before = self.node.len();
        self.node.retain(|probe| !probe.is_forbidden());
        self.node.len() < before
    }

    /// The kept calls, and how long all took.
    pub fn finish(mut self) -> (Vec<Probe>, Vec<Cost>) {
        let costs = self.well.iter_mut();
        let costs = costs.filter_map(|(call, well)| cost(*call, well)).collect();
        let mut kept = self.node;
        kept.sort_by_key(|probe| probe.call);
        self.wrong
            .sort_by(|a, b| (a.call, &a.id).cmp(&(b.call, &b.id)));
        kept.extend(self.wrong);
        // `cost` has sorted them.
        let slowest = self.well.into_values().flat_map(|well| {
            let slowest = well.into_iter().rev();
            let slowest = slowest.filter(|well| well.probe.id.is_some());
            slowest.take(MAX_SLOWEST).map(|well| well.probe)
        });
        kept.extend(slowest);
        (kept, costs)
    }
}

fn cost(call: Rpc, well: &mut [Well]) -> Option<Cost> {
    well.sort_by(|a, b| a.probe.seconds.total_cmp(&b.probe.seconds));
    let rank = |of: usize| (well.len() * of).div_ceil(100).saturating_sub(1);
    let at = |of: usize| Some(well.get(rank(of))?.probe.seconds);
    let alone = well.iter().filter(|well| well.alone);
    let alone = mean(alone).map(|(count, mean)| match (count, self::mean(well.iter())) {
        // With few samples, one outlier would dominate. Concurrent calls are never quicker than a
        // single one, so if they seem to be, there was an outlier.
        (..MIN_FOR_MEAN, Some((_, all))) => mean.min(all),
        _ => mean,
    });
    Some(Cost {
        call,
        count: well.len(),
        p50: at(50)?,
        p90: at(90)?,
        p99: at(99)?,
        max: at(100)?,
        alone,
    })
}

/// Their number, and their mean duration.
fn mean<'a>(of: impl Iterator<Item = &'a Well>) -> Option<(usize, f64)> {
    let (count, sum) = of.fold((0, 0.0), |(count, sum), well| {
        (count + 1, sum + well.probe.seconds)
    });
    (count > 0).then(|| (count, sum / count as f64))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(id: usize, end: End, seconds: f64) -> Probe {
        Probe {
            call: Rpc::ContainerStatus,
            id: Some(id.to_string()),
            end,
            seconds,
            by_agent: false,
            bytes: None,
            pod: None,
            container: None,
        }
    }

    #[test]
    fn what_goes_well_is_summed_up_and_what_does_not_is_kept() {
        let mut answers = Answers::default();
        for number in 1..=100 {
            answers.take(probe(number, End::Answered, number as f64), number <= 10);
        }
        answers.take(probe(0, End::Hung, 2.0), false);
        let (kept, costs) = answers.finish();
        let ids: Vec<_> = kept
            .iter()
            .filter_map(|probe| probe.id.as_deref())
            .collect();
        assert_eq!(ids, ["0", "100", "99", "98"]);
        let [cost] = &costs[..] else {
            panic!("{costs:?}");
        };
        assert_eq!(
            (cost.count, cost.p50, cost.p90, cost.max),
            (100, 50.0, 90.0, 100.0)
        );
        assert_eq!(cost.alone, Some(5.5));
    }

    #[test]
    fn of_a_few_calls_one_hiccup_does_not_count_for_all() {
        let mut answers = Answers::default();
        answers.take(probe(0, End::Answered, 2.0), true);
        for number in 1..=99 {
            answers.take(probe(number, End::Answered, 0.4), false);
        }
        let (_, costs) = answers.finish();
        let alone = costs[0].alone.unwrap();
        assert!((alone - 0.416).abs() < 1e-9, "{alone}");
        // Eight at once may each take as long as eight.
        let mut answers = Answers::default();
        answers.take(probe(0, End::Answered, 0.2), true);
        answers.take(probe(1, End::Answered, 1.6), false);
        assert_eq!(answers.finish().1[0].alone, Some(0.2));
    }
}
