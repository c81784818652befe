//! When the node is diagnosed: once for each trouble that lasts, and whenever there are new symptoms, each
//! at most once a minute; and once a day while the node is healthy, or an hour after a check-up that has
//! found something.

use std::collections::BTreeSet;
use std::time::Duration;

use pleg::model::id::Id;
use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use tokio::time::Instant;

use crate::symptoms::Symptom;

/// How long trouble has to last until it is diagnosed.
const MIN_DURATION: Duration = Duration::from_secs(3);

/// The shortest time between two diagnoses of trouble, and between two of symptoms.
const MIN_INTERVAL: Duration = Duration::from_secs(60);

/// The time until the first check-up: a node that has just started has other things to do.
const FIRST_CHECK_UP: Duration = Duration::from_secs(600);

/// The time from a check-up that has found something to the next: by then, a warning may be over.
const HOUR: Duration = Duration::from_secs(3600);

/// The time from any other check-up to the next.
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Why the node is diagnosed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Occasion {
    /// Something is wrong.
    Trouble,
    /// This machine shows symptoms, whatever calls show.
    Symptoms,
    /// A check-up is due.
    CheckUp,
}

/// What is wrong with the node, regardless of when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Trouble {
    state: HealthState,
    reason: Reason,
    stuck: BTreeSet<(Rpc, Option<Id>)>,
}

#[derive(Debug)]
pub(super) struct Occasions {
    /// The current trouble, and when it began.
    trouble: Option<(Trouble, Instant)>,
    /// The trouble that was last diagnosed.
    diagnosed: Option<Trouble>,
    last_of_trouble: Option<Instant>,
    /// The symptoms at the last diagnosis of symptoms.
    symptoms: BTreeSet<Symptom>,
    last_of_symptoms: Option<Instant>,
    /// The processes that were named when the current trouble was diagnosed.
    named: BTreeSet<u32>,
    check_up: Option<Instant>,
}

impl Occasions {
    pub(super) fn new(checks_up: bool, now: Instant) -> Self {
        Self {
            trouble: None,
            diagnosed: None,
            last_of_trouble: None,
            symptoms: BTreeSet::new(),
            last_of_symptoms: None,
            named: BTreeSet::new(),
            check_up: checks_up.then(|| now + FIRST_CHECK_UP),
        }
    }

    /// The occasion that there is now, which counts as taken. Without a report, only symptoms can be an
    /// occasion: an unknown state is no trouble.
    pub(super) fn next(
        &mut self,
        report: Option<&StatusReport>,
        symptoms: &BTreeSet<Symptom>,
        now: Instant,
    ) -> Option<Occasion> {
        let of_report = report.and_then(|report| self.of_report(report, now));
        if of_report == Some(Occasion::Trouble) {
            self.last_of_trouble = Some(now);
        }
        of_report.or_else(|| self.of_symptoms(symptoms, now))
    }

    fn of_report(&mut self, report: &StatusReport, now: Instant) -> Option<Occasion> {
        match Trouble::of(report) {
            Some(trouble) => self.in_trouble(trouble, now),
            None => {
                self.trouble = None;
                self.diagnosed = None;
                self.named.clear();
                self.is_check_up_due(report, now)
                    .then_some(Occasion::CheckUp)
            }
        }
    }

    /// Records what a diagnosis has found: for each finding, the process that it names. Such a process is
    /// not a new symptom while the trouble continues.
    pub(super) fn diagnosed(&mut self, occasion: Occasion, found: &[Option<u32>], now: Instant) {
        match occasion {
            Occasion::Trouble => self.named = found.iter().copied().flatten().collect(),
            Occasion::CheckUp if !found.is_empty() => self.check_up = Some(now + HOUR),
            Occasion::CheckUp | Occasion::Symptoms => {}
        }
    }

    /// An occasion if there are new symptoms, at most once a minute. No other diagnosis delays it, because
    /// a symptom is to be reported soon.
    fn of_symptoms(&mut self, symptoms: &BTreeSet<Symptom>, now: Instant) -> Option<Occasion> {
        let symptoms = symptoms.iter();
        let is_named =
            |symptom: &&Symptom| symptom.pid().is_some_and(|pid| self.named.contains(&pid));
        let symptoms: BTreeSet<Symptom> = symptoms.filter(|it| !is_named(it)).cloned().collect();
        // The end of a symptom is not a reason to diagnose.
        self.symptoms.retain(|known| symptoms.contains(known));
        let may = self
            .last_of_symptoms
            .is_none_or(|last| now >= last + MIN_INTERVAL);
        if !may || symptoms == self.symptoms {
            return None;
        }
        self.symptoms = symptoms;
        self.last_of_symptoms = Some(now);
        Some(Occasion::Symptoms)
    }

    fn in_trouble(&mut self, trouble: Trouble, now: Instant) -> Option<Occasion> {
        let since = match &self.trouble {
            Some((known, since)) if *known == trouble => *since,
            _ => now,
        };
        self.trouble = Some((trouble.clone(), since));
        let may = self
            .last_of_trouble
            .is_none_or(|last| now >= last + MIN_INTERVAL);
        let is_new = self.diagnosed.as_ref() != Some(&trouble);
        if !may || !is_new || now < since + MIN_DURATION {
            return None;
        }
        self.diagnosed = Some(trouble);
        Some(Occasion::Trouble)
    }

    fn is_check_up_due(&mut self, report: &StatusReport, now: Instant) -> bool {
        let is_well = report.health.state == HealthState::Healthy;
        let is_due = is_well && self.check_up.is_some_and(|due| now >= due);
        if is_due {
            self.check_up = Some(now + DAY);
        }
        is_due
    }
}

impl Trouble {
    fn of(report: &StatusReport) -> Option<Self> {
        let health = &report.health;
        match health.state {
            HealthState::Healthy => None,
            // A runtime may start later than its agent.
            HealthState::Starting
                if matches!(health.reason, Reason::Starting | Reason::RuntimeUnreachable) =>
            {
                None
            }
            HealthState::Starting | HealthState::Degraded | HealthState::Unhealthy => Some(Self {
                state: health.state,
                reason: health.reason,
                stuck: report
                    .stuck
                    .iter()
                    .map(|call| (call.call, call.id.clone()))
                    .collect(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    /// The seconds at which there is an occasion, if each report is made from its second on.
    fn occasions(reports: &[(u64, StatusReport)], until: u64) -> Vec<(u64, Occasion)> {
        let began = Instant::now();
        let mut occasions = Occasions::new(true, began);
        let mut taken = Vec::new();
        for second in 0..until {
            let (_, report) = reports.iter().rfind(|(from, _)| *from <= second).unwrap();
            let now = began + Duration::from_secs(second);
            let next = occasions.next(Some(report), &BTreeSet::new(), now);
            taken.extend(next.map(|occasion| (second, occasion)));
        }
        taken
    }

    #[test]
    fn a_trouble_that_lasts_is_diagnosed_once_and_another_one_a_minute_later() {
        let reports = [
            (0, report("Healthy", "AllSeen", &[])),
            (10, report("Degraded", "ContainerStuck", &["a"])),
            (30, report("Degraded", "ContainerStuck", &["a", "b"])),
            (200, report("Healthy", "AllSeen", &[])),
            (210, report("Degraded", "ContainerStuck", &["a"])),
        ];
        let trouble = [13, 73, 213].map(|second| (second, Occasion::Trouble));
        assert_eq!(occasions(&reports, 400), trouble);
    }

    #[test]
    fn a_check_up_does_not_delay_the_diagnosis_of_a_trouble() {
        let reports = [
            (0, report("Healthy", "AllSeen", &[])),
            (605, report("Degraded", "ListStuck", &[])),
        ];
        let expected = [(600, Occasion::CheckUp), (608, Occasion::Trouble)];
        assert_eq!(occasions(&reports, 700), expected);
    }

    #[test]
    fn trouble_that_is_over_at_once_is_not_diagnosed() {
        let reports = [
            (0, report("Healthy", "AllSeen", &[])),
            (10, report("Degraded", "ListStuck", &[])),
            (12, report("Healthy", "AllSeen", &[])),
        ];
        assert_eq!(occasions(&reports, 100), []);
    }

    #[test]
    fn an_agent_that_starts_in_the_middle_of_a_trouble_diagnoses_it() {
        let trouble = [(0, report("Starting", "ListStuck", &[]))];
        assert_eq!(occasions(&trouble, 200), [(3, Occasion::Trouble)]);
        let not_up_yet = [(0, report("Starting", "RuntimeUnreachable", &[]))];
        assert_eq!(occasions(&not_up_yet, 200), []);
    }

    #[test]
    fn symptoms_are_diagnosed_at_once_and_more_of_them_a_minute_later() {
        let of = |pids: &[u32]| pids.iter().map(|pid| Symptom::of_test(*pid)).collect();
        let symptoms: [(u64, BTreeSet<Symptom>); 5] = [
            (0, of(&[])),
            (10, of(&[1])),
            (20, of(&[1, 2])),
            (100, of(&[])),
            (150, of(&[1])),
        ];
        let degraded = report("Degraded", "ListStuck", &[]);
        let began = Instant::now();
        let mut occasions = Occasions::new(false, began);
        let mut taken = Vec::new();
        for second in 0..300 {
            let (_, symptoms) = symptoms.iter().rfind(|(from, _)| *from <= second).unwrap();
            let report = (second >= 12).then_some(&degraded);
            let next = occasions.next(report, symptoms, began + Duration::from_secs(second));
            taken.extend(next.map(|occasion| (second, occasion)));
        }
        // A diagnosis of trouble is not delayed by one of symptoms.
        let trouble = (15, Occasion::Trouble);
        let [first, second, third] = [10, 70, 150].map(|second| (second, Occasion::Symptoms));
        assert_eq!(taken, [first, trouble, second, third]);
    }

    #[test]
    fn a_symptom_that_the_diagnosis_of_the_trouble_has_named_needs_none_until_the_trouble_is_over()
    {
        let (degraded, healthy) = (
            report("Degraded", "ContainerStuck", &["a"]),
            report("Healthy", "AllSeen", &[]),
        );
        let began = Instant::now();
        let mut occasions = Occasions::new(false, began);
        let mut taken = Vec::new();
        for second in 0..200 {
            let report = if second < 100 { &degraded } else { &healthy };
            let symptoms = match second {
                0..20 => BTreeSet::new(),
                _ => BTreeSet::from([Symptom::of_test(7)]),
            };
            let now = began + Duration::from_secs(second);
            if let Some(occasion) = occasions.next(Some(report), &symptoms, now) {
                occasions.diagnosed(occasion, &[Some(7)], now);
                taken.push((second, occasion));
            }
        }
        assert_eq!(taken, [(3, Occasion::Trouble), (100, Occasion::Symptoms)]);
    }

    #[test]
    fn a_healthy_node_is_checked_once_a_day() {
        let reports = [(0, report("Healthy", "AllSeen", &[]))];
        let days = [600, 600 + 86_400].map(|second| (second, Occasion::CheckUp));
        assert_eq!(occasions(&reports, 150_000), days);
        let unknown = [(0, report("Starting", "Starting", &[]))];
        assert_eq!(occasions(&unknown, 2000), []);
    }

    #[test]
    fn what_a_check_up_has_found_is_checked_again_after_an_hour() {
        let healthy = report("Healthy", "AllSeen", &[]);
        let began = Instant::now();
        let mut occasions = Occasions::new(true, began);
        let mut taken = Vec::new();
        for second in 0..10_000 {
            let now = began + Duration::from_secs(second);
            let next = occasions.next(Some(&healthy), &BTreeSet::new(), now);
            if let Some(occasion) = next {
                let found = [None];
                let found = if taken.is_empty() { &found[..] } else { &[] };
                occasions.diagnosed(occasion, found, now);
                taken.push(second);
            }
        }
        assert_eq!(taken, [600, 4200]);
    }
}
