//! The pods whose calls hang or fail. The begin and the end of this are no events, so workers are
//! woken from here.

use std::collections::BTreeSet;

use pleg::model::id::PodUid;
use pleg::out::status_report::StatusReport;

/// The pods in trouble, as of the last report.
#[derive(Debug, Default)]
pub(crate) struct Trouble {
    pods: BTreeSet<PodUid>,
    /// The pods for which this has changed, and whose workers have not been woken since.
    due: BTreeSet<PodUid>,
}

impl Trouble {
    /// Stores a report.
    pub(crate) fn reported(&mut self, report: &StatusReport) {
        let stuck = report.stuck.iter().filter_map(|call| call.pod.as_ref());
        let failing = report.failing.iter().filter_map(|call| call.pod.as_ref());
        let pods: BTreeSet<PodUid> = stuck.chain(failing).map(|pod| pod.uid.clone()).collect();
        self.due.extend(&pods ^ &self.pods);
        self.pods = pods;
    }

    /// The next pod whose worker is to be woken.
    pub(crate) fn next(&mut self) -> Option<PodUid> {
        self.due.pop_first()
    }
}
