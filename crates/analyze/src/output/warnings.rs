//! Events which show that something is wrong, by the rules for them.

use causes::finding::Confidence;

use super::{Seen, Trouble, has_any};
use crate::proof::Proof;
use crate::rules::{Excuse, Rules};

/// A Secret or ConfigMap that a pod is to mount and that does not exist.
const NO_OBJECT: [&str; 4] = ["secret \"", "secrets \"", "configmap \"", "configmaps \""];

/// What events show without its cause.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    /// The first mount that was not done in time.
    late_mount: Option<Trouble>,
    /// Such a mount waits for what is not there, which is no fault of the node.
    lacks_object: bool,
    /// The first sandbox that was created again and again.
    created_again: Option<Trouble>,
    /// Without the image of its container, a sandbox ends at once.
    lacks_image: bool,
}

impl Warnings {
    /// An event, as it is in a row that is this `line` of the input.
    pub(super) fn event(
        reason: &str,
        text: &str,
        times: u64,
        is_late: bool,
        line: u64,
        seen: &mut Seen,
    ) {
        let is_mount = reason == "FailedMount";
        // The terminal may have cut the line.
        let is_missing = text.contains("\" not found") || text.ends_with("\" not");
        if is_mount && has_any(text, &NO_OBJECT) && is_missing {
            seen.warnings.lacks_object = true;
            return;
        }
        seen.warnings.lacks_image |= reason == "Failed" && text.contains("Failed to pull image");
        let rules = Rules::active();
        for of in &rules.events {
            if of.rule.holds(reason, text, times, is_late) {
                let confidence = of.rule.confidence.unwrap_or(Confidence::Low);
                let says = of.rule.says(reason);
                let proof = Proof::new(of.cause, confidence, line, says);
                seen.proof(Proof {
                    headline: of.rule.headline.clone(),
                    ..proof
                });
            }
        }
        let mut failed = rules.failed_events.iter();
        let Some(rule) = failed.find(|rule| rule.holds(reason, text, times, is_late)) else {
            return;
        };
        let count = match times {
            0 | 1 => String::new(),
            times => format!(", {times} times"),
        };
        let says = format!("{} (event {reason}{count})", rule.says(reason));
        let first = match rule.unless {
            Some(Excuse::MissingObject) => &mut seen.warnings.late_mount,
            Some(Excuse::MissingImage) => &mut seen.warnings.created_again,
            None => return seen.trouble(line, says),
        };
        first.get_or_insert(Trouble { says, line });
    }

    /// What is wrong as far as other events do not excuse it.
    pub(super) fn troubles(&mut self) -> impl Iterator<Item = Trouble> + use<> {
        let late_mount = self.late_mount.take().filter(|_| !self.lacks_object);
        let created_again = self.created_again.take().filter(|_| !self.lacks_image);
        late_mount.into_iter().chain(created_again)
    }
}
