//! What diagnoses have found, for status reports.

use std::collections::BTreeSet;

use pleg::out::health::HealthState;
use pleg::out::status_report::{Finding, StatusReport};
use tokio::sync::watch;

use crate::symptoms::Symptom;

/// What the latest diagnoses have found. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Findings(watch::Sender<Known>);

#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The leading finding about trouble that calls show. It is removed once the node is Healthy.
    pub(super) leading: Option<Finding>,
    /// A symptom, and the finding about it. They are removed when the symptom is over, whatever
    /// calls show.
    pub(super) of_symptom: Option<(Symptom, Finding)>,
    pub(super) warnings: Vec<Finding>,
}

impl Findings {
    /// Adds the findings to a report.
    pub(crate) fn show(&self, report: &mut StatusReport) {
        let known = self.0.borrow();
        let is_well = report.health.state == HealthState::Healthy && !report.guard.limit_reached;
        let leading = known.leading.as_ref().filter(|_| !is_well);
        let of_symptom = known.of_symptom.as_ref().map(|(_, finding)| finding);
        report.finding = leading.or(of_symptom).cloned();
        report.warnings.clone_from(&known.warnings);
    }

    /// A receiver that is notified when the findings change.
    pub(crate) fn changes(&self) -> watch::Receiver<Known> {
        self.0.subscribe()
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Known)) {
        self.0.send_modify(change);
    }

    /// Removes the leading finding: the node is Healthy, so the trouble that calls showed is over.
    pub(super) fn node_is_healthy(&self) {
        self.0
            .send_if_modified(|known| known.leading.take().is_some());
    }

    /// Removes the finding of a symptom that is over.
    pub(super) fn retain_of(&self, symptoms: &BTreeSet<Symptom>) {
        let is_over = |(symptom, _): &mut (Symptom, Finding)| !symptoms.contains(symptom);
        self.0
            .send_if_modified(|known| known.of_symptom.take_if(is_over).is_some());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample_report::report;

    fn finding(cause: &str) -> Finding {
        serde_json::from_value(serde_json::json!({
            "cause": cause, "sentence": "s", "confidence": "high", "time": "2026-11-22T20:00:00Z",
        }))
        .unwrap()
    }

    #[test]
    fn a_node_that_is_healthy_again_has_only_the_finding_of_a_symptom_until_that_is_over() {
        let findings = Findings::default();
        let shown = |state, reason| {
            let mut report = report(state, reason, &[]);
            findings.show(&mut report);
            report.finding.map(|finding| finding.cause)
        };
        let (degraded, healthy) = (("Degraded", "ListStuck"), ("Healthy", "AllSeen"));
        let symptom = Symptom::of_test(200);
        findings.change(|known| {
            known.leading = Some(finding("disk-full"));
            known.of_symptom = Some((symptom.clone(), finding("runc-hung")));
        });
        assert_eq!(shown(degraded.0, degraded.1).as_deref(), Some("disk-full"));
        assert_eq!(shown(healthy.0, healthy.1).as_deref(), Some("runc-hung"));
        findings.node_is_healthy();
        findings.retain_of(&BTreeSet::from([symptom]));
        assert_eq!(shown(degraded.0, degraded.1).as_deref(), Some("runc-hung"));
        findings.retain_of(&BTreeSet::new());
        assert_eq!(shown(healthy.0, healthy.1), None);
    }
}
