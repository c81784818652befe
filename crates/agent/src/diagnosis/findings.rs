//! What diagnoses have found, in reports.

use std::sync::{Arc, Mutex, PoisonError};

use pleg::out::status_report::{Finding, StatusReport};

/// What was found, for whoever makes a report.
#[derive(Clone, Debug, Default)]
pub struct Findings(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
pub(super) struct Known {
    pub(super) leading: Option<Finding>,
    pub(super) warnings: Vec<Finding>,
}

impl Findings {
    /// Adds them to a report.
    pub(crate) fn show(&self, report: &mut StatusReport) {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        report.finding.clone_from(&known.leading);
        report.warnings.clone_from(&known.warnings);
    }

    pub(super) fn change(&self, change: impl FnOnce(&mut Known)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
