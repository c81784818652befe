//! A cause without a judge of its own, by the rules that it has for the kernel: its log, and where
//! threads wait.

use analyze::rules::Rules;
use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::owner::culprit;
use crate::evidence::waits::{examples, kernel_says, unseen, waits};
use crate::facts::NodeFacts;

/// A single blocked thread may just be slow.
const MIN_THREADS: usize = 3;

pub(super) fn judge(facts: &NodeFacts, cause: Cause) -> Opinion {
    let waits = waits(facts, cause);
    let said = kernel_says(facts, cause);
    let most = match waits.len() {
        0..MIN_THREADS => Confidence::Medium,
        _ => Confidence::Certain,
    };
    let by_waits = waits.iter().map(|wait| wait.confidence.min(most)).max();
    let by_log = said.as_ref().map(|(confidence, _)| *confidence);
    let confidence = match (by_waits, by_log) {
        // Two sources that do not depend on each other.
        (Some(_), Some(Confidence::High)) => Some(Confidence::Certain),
        (by_waits, by_log) => by_waits.max(by_log),
    };
    let Some(confidence) = confidence else {
        let host = &facts.host;
        // What the kernel does not show, only the logs do.
        let missing = match Rules::active().asks_the_kernel(cause) {
            true => [
                lack_of_processes(host),
                lack(&host.kernel_log),
                unseen(facts),
            ],
            false => [lack(&host.logs), None, None],
        };
        return Opinion::of(None, missing);
    };
    let mut evidence = examples(&waits.iter().collect::<Vec<_>>());
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let first = waits.first();
    let who = first.map_or_else(Culprit::default, |wait| culprit(wait.process));
    Opinion::Found(vec![finding(cause, confidence, who, evidence)])
}
