//! One lock guards all of the kernel's network configuration; a namespace that cannot be
//! taken down keeps it.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::owner::culprit;
use crate::evidence::waits::{Wait, kernel_says, unseen, waits};
use crate::evidence::who::EXAMPLES;
use crate::facts::NodeFacts;

/// One alone may just be slow.
const PILE: usize = 3;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let waits = waits(facts, Cause::RtnlStuck);
    let said = kernel_says(facts, Cause::RtnlStuck);
    let by_waits = match waits.len() {
        0 => None,
        1..PILE => Some(Confidence::Medium),
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
    let mut evidence: Vec<String> = waits.iter().take(EXAMPLES).map(Wait::says).collect();
    if waits.len() > EXAMPLES {
        evidence.push(format!("{} threads wait for it in all", waits.len()));
    }
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
            "drain this node, then reboot it; ending {} frees nothing, as it only waits",
            wait.process.label()
        )),
        None => found,
    }])
}
