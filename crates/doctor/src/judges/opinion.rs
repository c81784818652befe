//! How judges come to an opinion.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;

impl Opinion {
    /// What was found; else it is clear, unless something is missing that may have shown it.
    pub(super) fn of(
        findings: impl IntoIterator<Item = Finding>,
        missing: impl IntoIterator<Item = Option<String>>,
    ) -> Self {
        let findings: Vec<Finding> = findings.into_iter().collect();
        if !findings.is_empty() {
            return Self::Found(findings);
        }
        match missing.into_iter().flatten().next() {
            Some(why) => Self::CannotTell(why),
            None => Self::Clear,
        }
    }
}

/// A finding with whom and why.
pub(super) fn finding(
    cause: Cause,
    confidence: Confidence,
    culprit: Culprit,
    evidence: Vec<String>,
) -> Finding {
    Finding {
        culprit,
        evidence,
        ..Finding::new(cause, confidence)
    }
}
