//! Collects the evidence for each cause, in limited memory, and makes findings from it.

use std::collections::BTreeMap;

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding, headline};

use super::Quote;
use crate::evidence::Evidence;
use crate::rules::Rules;
use crate::table::TableRow;
use crate::words::count;

/// The evidence for each cause.
#[derive(Debug, Default)]
pub struct Collected(BTreeMap<Cause, CauseEvidence>);

#[derive(Debug, Default)]
struct CauseEvidence {
    confidence: Confidence,
    culprit: Culprit,
    headline: Option<(Confidence, String)>,
    advice: Option<(Confidence, String)>,
    said: Vec<String>,
    /// How many pieces of evidence exceed the limit.
    more: u64,
}

/// How many pieces of evidence a finding shows. A person reads no more.
const MAX_QUOTES: usize = 12;

impl Collected {
    /// Whether there is no evidence for any cause.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The ids of the causes for which there is evidence.
    pub fn ids(&self) -> String {
        let ids: Vec<&str> = self.0.keys().map(|cause| cause.id()).collect();
        ids.join(" ")
    }

    /// Adds evidence for a cause.
    pub fn add(&mut self, cause: Cause, confidence: Confidence, said: String, culprit: Culprit) {
        let of_cause = self.0.entry(cause).or_default();
        of_cause.confidence = of_cause.confidence.max(confidence);
        of_cause.culprit.learn(match cause.about().of_node {
            true => culprit.of_node(),
            false => culprit,
        });
        of_cause.say(said);
    }

    /// Adds evidence from this file.
    pub fn add_evidence(&mut self, file: &str, evidence: Evidence) {
        let said = match evidence.line {
            0 => evidence.says,
            line => format!("{file}:{line}: {}", evidence.says),
        };
        if evidence.is_beside {
            return self.also(evidence.cause, said);
        }
        self.add(evidence.cause, evidence.confidence, said, evidence.culprit);
        self.head(evidence.cause, evidence.confidence, evidence.headline);
        if let Some(of_cause) = self.0.get_mut(&evidence.cause) {
            keep_surest(&mut of_cause.advice, evidence.confidence, evidence.advice);
        }
    }

    /// Adds the evidence that the rules find in a row, and the lines from which the row was made. Returns
    /// whether there is any evidence.
    pub(super) fn add_row(&mut self, row: &TableRow, lines: &[Quote]) -> bool {
        let evidence = Rules::active().evidence(row);
        let is_any = !evidence.is_empty();
        for evidence in evidence {
            let cause = evidence.cause;
            self.add_evidence("", evidence);
            for line in lines {
                self.also(cause, line.to_string());
            }
        }
        is_any
    }

    /// Sets the headline that replaces the title of the cause, unless a headline with at least this
    /// confidence is known.
    pub fn head(&mut self, cause: Cause, confidence: Confidence, headline: Option<String>) {
        if let Some(of_cause) = self.0.get_mut(&cause) {
            keep_surest(&mut of_cause.headline, confidence, headline);
        }
    }

    /// Adds evidence for a cause if there is already other evidence for it.
    pub fn also(&mut self, cause: Cause, said: String) {
        if let Some(of_cause) = self.0.get_mut(&cause) {
            of_cause.say(said);
        }
    }

    /// Puts evidence before all other evidence for the cause, if there is any.
    pub fn lead(&mut self, cause: Cause, said: String) {
        if let Some(of_cause) = self.0.get_mut(&cause) {
            of_cause.said.insert(0, said);
        }
    }

    /// Raises the confidence in a cause to at least this, because several pieces of evidence agree.
    pub fn confirm(&mut self, cause: Cause, confidence: Confidence) {
        if let Some(of_cause) = self.0.get_mut(&cause) {
            of_cause.confidence = of_cause.confidence.max(confidence);
        }
    }

    /// The findings, those with the highest confidence first.
    pub fn findings(self) -> Vec<Finding> {
        let finding = |(cause, of_cause): (Cause, CauseEvidence)| {
            let mut finding = Finding::new(cause, of_cause.confidence);
            finding.culprit = of_cause.culprit;
            let sentence = of_cause.headline.map(|(_, it)| headline(&it));
            finding.sentence = sentence.unwrap_or_default();
            if let Some((_, advice)) = of_cause.advice {
                finding.advise_first(advice);
            }
            finding.evidence = of_cause.said;
            if of_cause.more > 0 {
                let more = count(of_cause.more, "more line");
                finding.evidence.push(format!("and {more} of this kind"));
            }
            finding.redact();
            finding
        };
        let mut findings: Vec<Finding> = self.0.into_iter().map(finding).collect();
        findings.sort_by_key(|finding| {
            let (confidence, cause) = (finding.confidence, finding.cause);
            (std::cmp::Reverse(confidence), cause.about().general, cause)
        });
        findings
    }
}

/// Keeps the sentence with the higher confidence; if both are equal, the first one.
fn keep_surest(
    kept: &mut Option<(Confidence, String)>,
    confidence: Confidence,
    sentence: Option<String>,
) {
    let is_surer = kept.as_ref().is_none_or(|(known, _)| *known < confidence);
    if let Some(sentence) = sentence.filter(|_| is_surer) {
        *kept = Some((confidence, sentence));
    }
}

impl CauseEvidence {
    fn say(&mut self, said: String) {
        if self.said.contains(&said) {
            return;
        }
        if self.said.len() < MAX_QUOTES {
            self.said.push(said);
        } else {
            self.more += 1;
        }
    }
}
