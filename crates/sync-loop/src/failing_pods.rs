//! The pods with stuck or failing calls. The PLEG has no event for such calls, so this module finds
//! the workers to wake when a pod begins or ceases to have such calls.

use std::collections::BTreeSet;

use pleg::model::id::PodUid;
use pleg::out::status_report::StatusReport;

/// The pods with stuck or failing calls, as of the last report.
#[derive(Debug, Default)]
pub(crate) struct FailingPods {
    pods: BTreeSet<PodUid>,
    /// The pods that were added to or removed from `pods`, and have not been woken since.
    due: BTreeSet<PodUid>,
}

impl FailingPods {
    /// Compares a report with the last one, and notes which pods to wake.
    pub(crate) fn update(&mut self, report: &StatusReport) {
        let stuck = report.stuck.iter().filter_map(|call| call.pod.as_ref());
        let failing = report.failing.iter().filter_map(|call| call.pod.as_ref());
        let pods: BTreeSet<PodUid> = stuck.chain(failing).map(|pod| pod.uid.clone()).collect();
        self.due.extend(&pods ^ &self.pods);
        self.pods = pods;
    }

    /// Takes the next pod to wake.
    pub(crate) fn next_due(&mut self) -> Option<PodUid> {
        self.due.pop_first()
    }
}
