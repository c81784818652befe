//! Collects the findings of the agent's diagnoses.
//!
//! A diagnosis is an entry of its own, with culprit, evidence and advice. Older recordings have
//! only the sentence of its leading finding, in each status until the node was healthy again; the
//! advice is then that of the page of the cause.

use std::borrow::Cow;

use causes::finding::{Confidence, Finding};
use pleg::model::wall_time::WallTime;
use pleg::out::status_report::{self, StatusReport};

use crate::Diagnosed;

/// The maximum number of findings. Further ones repeat known faults, or the node has too many to
/// read.
const MAX_FINDINGS: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Diagnoses {
    found: Vec<KnownFinding>,
    /// The time of the diagnosis that the last status shows: its findings are current.
    shown: Option<WallTime>,
}

/// A fault, with its finding of the highest confidence.
#[derive(Debug)]
struct KnownFinding {
    finding: Finding,
    /// Whether the finding has its own evidence, and not only a sentence.
    is_complete: bool,
    /// The time of the fault's last finding.
    last: WallTime,
}

impl Diagnoses {
    /// Adds the findings of a diagnosis.
    pub(super) fn on_diagnosis(&mut self, diagnosed: Diagnosed) {
        let (time, bundle) = (diagnosed.began, diagnosed.bundle.as_deref());
        for found in diagnosed.findings {
            if let Some(mut finding) = new_finding(&found.cause, &found.confidence, time, bundle) {
                finding.sentence = found.sentence;
                finding.culprit = found.culprit;
                finding.evidence.extend(found.evidence);
                finding.advice = found.advice.into_iter().map(Cow::Owned).collect();
                let is_reported = |version: &&str| found.fixed_in.iter().any(|it| it == version);
                finding.fixed_in.retain(is_reported);
                self.add(finding, true, time);
            }
        }
    }

    /// Adds what the last status shows.
    pub(super) fn on_status(&mut self, report: &StatusReport) {
        self.shown = report.finding.as_ref().map(|finding| finding.time);
        if let Some(status_report::Finding {
            cause,
            confidence,
            sentence,
            time,
            bundle,
        }) = &report.finding
            && let Some(mut finding) = new_finding(cause, confidence, *time, bundle.as_deref())
        {
            finding.sentence.clone_from(sentence);
            self.add(finding, false, *time);
        }
    }

    fn add(&mut self, finding: Finding, is_complete: bool, time: WallTime) {
        let is_known = |known: &&mut KnownFinding| known.finding.is_same_fault(&finding);
        if let Some(known) = self.found.iter_mut().find(is_known) {
            known.last = known.last.max(time);
            let now = (is_complete, finding.confidence);
            if now >= (known.is_complete, known.finding.confidence) {
                (known.finding, known.is_complete) = (finding, is_complete);
            }
        } else if self.found.len() < MAX_FINDINGS {
            self.found.push(KnownFinding {
                finding,
                is_complete,
                last: time,
            });
        }
    }

    /// All findings, those with the highest confidence first, with a mark for past ones.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut all: Vec<Finding> = Vec::new();
        for known in &self.found {
            let past = self.shown != Some(known.last);
            let finding = known.finding.clone();
            all.push(Finding { past, ..finding });
        }
        all.sort_by_key(|finding| std::cmp::Reverse(finding.confidence));
        all
    }
}

/// A finding of a diagnosis at this time; `None` if this pleg does not know the cause.
fn new_finding(
    cause: &str,
    confidence: &str,
    time: WallTime,
    bundle: Option<&str>,
) -> Option<Finding> {
    let mut all = Confidence::ALL.into_iter();
    let confidence = all.find(|it| it.as_str() == confidence)?;
    let mut finding = Finding::new(cause.parse().ok()?, confidence);
    finding.found_at = Some(time);
    let kept = bundle.map(|bundle| format!("; `pleg doctor --from {bundle}` shows all of it"));
    finding.evidence.push(format!(
        "the agent diagnosed the node at {}{}",
        time.timestamp().strftime("%F %T UTC"),
        kept.unwrap_or_default()
    ));
    Some(finding)
}
