//! Evidence by cause, within bounds, until it becomes findings.

use std::collections::BTreeMap;

use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use crate::proof::Proof;

/// What speaks for each cause.
#[derive(Debug, Default)]
pub struct Collected(BTreeMap<Cause, Evidence>);

#[derive(Debug)]
struct Evidence {
    confidence: Confidence,
    culprit: Culprit,
    said: Vec<String>,
    more: u64,
}

/// As much as people read.
const MOST: usize = 12;

impl Collected {
    /// Whether nothing speaks for any cause.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Something speaks for a cause.
    pub fn add(&mut self, cause: Cause, confidence: Confidence, said: String, culprit: Culprit) {
        let evidence = self.0.entry(cause).or_insert_with(|| Evidence {
            confidence,
            culprit: Culprit::default(),
            said: Vec::new(),
            more: 0,
        });
        evidence.confidence = evidence.confidence.max(confidence);
        evidence.culprit.learn(culprit);
        evidence.say(said);
    }

    /// What a piece of this file proves.
    pub fn prove(&mut self, file: &str, proof: Proof) {
        let said = format!("{file}:{}: {}", proof.line, proof.says);
        self.add(proof.cause, proof.confidence, said, proof.culprit);
    }

    /// More that speaks for a cause which is collected already.
    pub fn also(&mut self, cause: Cause, said: String) {
        if let Some(evidence) = self.0.get_mut(&cause) {
            evidence.say(said);
        }
    }

    /// What says most goes first.
    pub fn lead(&mut self, cause: Cause, said: String) {
        if let Some(evidence) = self.0.get_mut(&cause) {
            evidence.said.insert(0, said);
        }
    }

    /// What several kinds of evidence say is surer than what one says.
    pub fn confirm(&mut self, cause: Cause, confidence: Confidence) {
        if let Some(evidence) = self.0.get_mut(&cause) {
            evidence.confidence = evidence.confidence.max(confidence);
        }
    }

    /// The findings, the surest first.
    pub fn findings(self) -> Vec<Finding> {
        let finding = |(cause, evidence): (Cause, Evidence)| {
            let mut finding = Finding::new(cause, evidence.confidence);
            finding.culprit = evidence.culprit;
            finding.evidence = evidence.said;
            if evidence.more > 0 {
                finding
                    .evidence
                    .push(format!("and {} more of that kind", evidence.more));
            }
            finding
        };
        let mut findings: Vec<Finding> = self.0.into_iter().map(finding).collect();
        findings.sort_by_key(|finding| (std::cmp::Reverse(finding.confidence), finding.cause));
        findings
    }
}

impl Evidence {
    fn say(&mut self, said: String) {
        if self.said.contains(&said) {
            return;
        }
        if self.said.len() < MOST {
            self.said.push(said);
        } else {
            self.more += 1;
        }
    }
}
