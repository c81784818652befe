//! The pods as the agent serves them and `pleg pods` shows them.

use pleg::Pleg;
use pleg::out::pods::PodReport;

/// The last known status of every pod, with the reason if its last inspection failed.
pub fn pod_reports(pleg: &Pleg) -> Vec<PodReport> {
    let entries = pleg.cache().all().into_iter();
    let reports = entries.map(|entry| PodReport {
        status: (*entry.status).clone(),
        as_of: entry.as_of.map(|as_of| as_of.wall),
        error: entry.error.map(|error| error.to_string()),
        static_pod: None,
    });
    reports.collect()
}
