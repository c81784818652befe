//! A cause of a site, by the rules that it has for the kernel: its log, and where threads wait.

use causes::Cause;
use causes::finding::Culprit;

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::owner::culprit;
use crate::evidence::waits::{examples, kernel_says, unseen, waits};
use crate::facts::NodeFacts;

pub(crate) fn judge(facts: &NodeFacts, cause: Cause) -> Opinion {
    let waits = waits(facts, cause);
    let said = kernel_says(facts, cause);
    let by_waits = waits.iter().map(|wait| wait.confidence).max();
    let by_log = said.as_ref().map(|(confidence, _)| *confidence);
    let Some(confidence) = by_waits.max(by_log) else {
        let host = &facts.host;
        let missing = [
            lack_of_processes(host),
            lack(&host.kernel_log),
            unseen(facts),
        ];
        return Opinion::of(None, missing);
    };
    let mut evidence = examples(&waits.iter().collect::<Vec<_>>());
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let first = waits.first();
    let who = first.map_or_else(Culprit::default, |wait| culprit(wait.process));
    Opinion::Found(vec![finding(cause, confidence, who, evidence)])
}
