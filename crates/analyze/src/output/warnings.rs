//! Events which show that something is wrong, by the rules for them.

use std::collections::BTreeSet;

use causes::finding::Confidence;

use super::{Seen, Trouble, has_any};
use crate::evidence::Evidence;
use crate::rules::{Excuse, Rules};

/// A Secret or ConfigMap that a pod is to mount and that does not exist.
const NO_OBJECT: [&str; 4] = ["secret \"", "secrets \"", "configmap \"", "configmaps \""];

/// What events show unless others excuse it, which may be further down.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    excuses: BTreeSet<Excuse>,
    evidence: Vec<(Excuse, Evidence)>,
    /// The first for each excuse.
    troubles: Vec<(Excuse, Trouble)>,
}

impl Warnings {
    /// Something is seen that excuses others.
    pub(super) fn excuse(&mut self, excuse: Excuse) {
        self.excuses.insert(excuse);
    }

    /// What nothing excuses.
    pub(super) fn end(self) -> (Vec<Evidence>, Vec<Trouble>) {
        let excuses = self.excuses;
        let evidence = self.evidence.into_iter();
        let evidence = evidence.filter(|(excuse, _)| !excuses.contains(excuse));
        let troubles = self.troubles.into_iter();
        let troubles = troubles.filter(|(excuse, _)| !excuses.contains(excuse));
        (
            evidence.map(|(_, evidence)| evidence).collect(),
            troubles.map(|(_, trouble)| trouble).collect(),
        )
    }
}

pub(super) struct Event<'a> {
    pub(super) reason: &'a str,
    pub(super) text: &'a str,
    /// How often it was seen.
    pub(super) times: u64,
    /// It reports that something was not done in time.
    pub(super) timed_out: bool,
    pub(super) line: u64,
}

impl Event<'_> {
    /// Passes what it shows on.
    pub(super) fn read(&self, seen: &mut Seen) {
        let &Self {
            reason,
            text,
            times,
            timed_out,
            line,
        } = self;
        // The terminal may have cut the line.
        let is_missing = text.contains("\" not found") || text.ends_with("\" not");
        if reason == "FailedMount" && has_any(text, &NO_OBJECT) && is_missing {
            return seen.warnings.excuse(Excuse::MissingObject);
        }
        if reason == "Failed" && text.contains("Failed to pull image") {
            seen.warnings.excuse(Excuse::MissingImage);
        }
        let rules = Rules::active();
        for of in &rules.events {
            if !of.rule.holds(reason, text, times, timed_out) {
                continue;
            }
            let confidence = of.rule.confidence.unwrap_or(Confidence::Low);
            let evidence = Evidence::new(of.cause, confidence, line, of.rule.says(reason));
            let evidence = evidence.headed(of.rule.headline.clone());
            match of.rule.unless {
                Some(excuse) => super::keep(&mut seen.warnings.evidence, (excuse, evidence)),
                None => seen.evidence(evidence),
            }
        }
        let mut failed = rules.failed_events.iter();
        let Some(rule) = failed.find(|rule| rule.holds(reason, text, times, timed_out)) else {
            return;
        };
        let count = match times {
            0 | 1 => String::new(),
            times => format!(", {times} times"),
        };
        let says = format!("{} (event {reason}{count})", rule.says(reason));
        let troubles = &mut seen.warnings.troubles;
        match rule.unless {
            Some(excuse) if troubles.iter().any(|(known, _)| *known == excuse) => {}
            Some(excuse) => troubles.push((excuse, Trouble { says, line })),
            None => seen.trouble(line, says),
        }
    }
}
