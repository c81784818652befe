//! Events that show that something is wrong, according to the rules on events.

use std::collections::BTreeSet;

use causes::finding::Confidence;

use super::{Seen, Trouble, has_any};
use crate::evidence::Evidence;
use crate::rules::{Event, Excuse, Rules};

/// How events name a Secret or ConfigMap that a pod is to mount and that does not exist.
const NO_OBJECT: [&str; 4] = ["secret \"", "secrets \"", "configmap \"", "configmaps \""];

/// What events show, unless other events excuse it. The excuse may be read later.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    excuses: BTreeSet<Excuse>,
    evidence: Vec<(Excuse, Evidence)>,
    /// The first problem for each excuse.
    troubles: Vec<(Excuse, Trouble)>,
}

impl Warnings {
    pub(super) fn excuse(&mut self, excuse: Excuse) {
        self.excuses.insert(excuse);
    }

    pub(super) fn end(mut self) -> (Vec<Evidence>, Vec<Trouble>) {
        let is_left = |excuse: &Excuse| !self.excuses.contains(excuse);
        self.evidence.retain(|(excuse, _)| is_left(excuse));
        self.troubles.retain(|(excuse, _)| is_left(excuse));
        let evidence = self.evidence.into_iter().map(|(_, it)| it);
        let troubles = self.troubles.into_iter().map(|(_, it)| it);
        (evidence.collect(), troubles.collect())
    }
}

impl Event<'_> {
    pub(super) fn read(&self, seen: &mut Seen) {
        let Self { reason, text, .. } = *self;
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
            if !of.rule.holds(self) {
                continue;
            }
            let confidence = of.rule.confidence.unwrap_or(Confidence::Low);
            let evidence = Evidence::new(of.cause, confidence, self.line, of.rule.says(reason));
            let evidence = evidence.headed(of.rule.headline.clone());
            match of.rule.unless {
                Some(excuse) => super::keep(&mut seen.warnings.evidence, (excuse, evidence)),
                None => seen.evidence(evidence),
            }
        }
        let mut failed = rules.failed_events.iter();
        let Some(rule) = failed.find(|rule| rule.holds(self)) else {
            return;
        };
        let line = self.line;
        let count = match self.times {
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
