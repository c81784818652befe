//! How judges form an opinion.

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use crate::evidence::waits::kernel_says;
use crate::facts::NodeFacts;

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
            Some(why) => Self::Unknown(why),
            None => Self::Clear,
        }
    }

    /// The opinion if a fact that the judge needs is missing.
    pub(super) fn unknown(why: &str) -> Self {
        Self::Unknown(why.to_owned())
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

/// A finding without a culprit.
pub(super) fn of_machine(cause: Cause, confidence: Confidence, evidence: Vec<String>) -> Finding {
    finding(cause, confidence, Culprit::default(), evidence)
}

/// A finding that rests on the kernel's log alone.
pub(super) fn of_kernel_log(facts: &NodeFacts, cause: Cause) -> Option<Finding> {
    let (confidence, lines) = kernel_says(facts, cause)?;
    Some(of_machine(cause, confidence, lines))
}

/// The finding with this advice first, if there is any.
pub(super) fn advised(found: Finding, advice: Option<String>) -> Finding {
    match advice {
        Some(advice) => found.advising(advice),
        None => found,
    }
}
