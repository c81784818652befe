//! Evidence by cause, in limited memory, from which findings are made.

use std::collections::BTreeMap;

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding, headline};

use crate::proof::Proof;

/// The evidence for each cause.
#[derive(Debug, Default)]
pub struct Collected(BTreeMap<Cause, Evidence>);

#[derive(Debug)]
struct Evidence {
    confidence: Confidence,
    culprit: Culprit,
    headline: Option<(Confidence, String)>,
    advice: Option<(Confidence, String)>,
    said: Vec<String>,
    more: u64,
}

/// As many as a person reads.
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
        let evidence = self.0.entry(cause).or_insert_with(|| Evidence {
            confidence,
            culprit: Culprit::default(),
            headline: None,
            advice: None,
            said: Vec::new(),
            more: 0,
        });
        evidence.confidence = evidence.confidence.max(confidence);
        evidence.culprit.learn(match cause.about().of_node {
            true => culprit.of_node(),
            false => culprit,
        });
        evidence.say(said);
    }

    /// Adds a proof from this file.
    pub fn prove(&mut self, file: &str, proof: Proof) {
        let said = match proof.line {
            0 => proof.says,
            line => format!("{file}:{line}: {}", proof.says),
        };
        if proof.is_beside {
            return self.also(proof.cause, said);
        }
        self.add(proof.cause, proof.confidence, said, proof.culprit);
        self.head(proof.cause, proof.confidence, proof.headline);
        if let Some(evidence) = self.0.get_mut(&proof.cause) {
            keep_surest(&mut evidence.advice, proof.confidence, proof.advice);
        }
    }

    /// Says in place of the cause's title what is known of this node. The surest sentence counts.
    pub fn head(&mut self, cause: Cause, confidence: Confidence, headline: Option<String>) {
        if let Some(evidence) = self.0.get_mut(&cause) {
            keep_surest(&mut evidence.headline, confidence, headline);
        }
    }

    /// Adds evidence to a cause for which there is some already.
    pub fn also(&mut self, cause: Cause, said: String) {
        if let Some(evidence) = self.0.get_mut(&cause) {
            evidence.say(said);
        }
    }

    /// Puts the most important evidence first.
    pub fn lead(&mut self, cause: Cause, said: String) {
        if let Some(evidence) = self.0.get_mut(&cause) {
            evidence.said.insert(0, said);
        }
    }

    /// Raises the confidence if several kinds of evidence agree.
    pub fn confirm(&mut self, cause: Cause, confidence: Confidence) {
        if let Some(evidence) = self.0.get_mut(&cause) {
            evidence.confidence = evidence.confidence.max(confidence);
        }
    }

    /// The findings, those with the highest confidence first.
    pub fn findings(self) -> Vec<Finding> {
        let finding = |(cause, evidence): (Cause, Evidence)| {
            let mut finding = Finding::new(cause, evidence.confidence);
            finding.culprit = evidence.culprit;
            finding.sentence = evidence
                .headline
                .map(|(_, it)| headline(&it))
                .unwrap_or_default();
            if let Some((_, advice)) = evidence.advice {
                finding.advise_first(advice);
            }
            finding.evidence = evidence.said;
            if evidence.more > 0 {
                finding
                    .evidence
                    .push(format!("and {} more lines of this kind", evidence.more));
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

/// Of sentences that are equally sure, the first counts.
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

impl Evidence {
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
