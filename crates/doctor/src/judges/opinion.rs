//! How judges form an opinion.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;

impl Opinion {
    /// The findings; without any, `Clear`, unless a fact is missing that might have shown one.
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

/// A finding with its culprit and evidence.
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
