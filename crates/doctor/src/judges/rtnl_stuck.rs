//! One lock (rtnl) protects all of the kernel's network configuration; a namespace that cannot
//! be removed holds it.

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

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let waits = waits(facts, Cause::RtnlStuck);
    let said = kernel_says(facts, Cause::RtnlStuck);
    let by_waits = match waits.len() {
        0 => None,
        1..MIN_THREADS => Some(Confidence::Medium),
        _ => Some(Confidence::High),
    };
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
    let both = by_waits.is_some() && by_log.is_some();
    let mut evidence = examples(&waits.iter().collect::<Vec<_>>());
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let who = waits
        .first()
        .map_or_else(Culprit::default, |wait| culprit(wait.process));
    let confidence = match both {
        true => Confidence::Certain,
        false => confidence,
    };
    let found = finding(Cause::RtnlStuck, confidence, who, evidence);
    Opinion::Found(vec![match waits.first() {
        Some(wait) => found.advising(format!(
            "drain this node, then reboot it; killing {} does not help, because it only waits for \
             the lock",
            wait.process.label()
        )),
        None => found,
    }])
}
