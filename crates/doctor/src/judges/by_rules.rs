//! A cause without a judge of its own, by its rules for what a live node shows: tables, the kernel's log,
//! and where threads wait.

use analyze::proof::Proof;
use analyze::rules::Rules;
use causes::Cause;
use causes::finding::{Confidence, Culprit, Finding};

use super::Opinion;
use super::opinion::finding;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::owner::culprit;
use crate::evidence::tables::{Tables, tables};
use crate::evidence::waits::{examples, kernel_says, unseen, waits};
use crate::facts::NodeFacts;

/// A single blocked thread may just be slow.
const MIN_THREADS: usize = 3;

pub(super) fn judge(facts: &NodeFacts, cause: Cause) -> Opinion {
    let tables = tables(facts, cause);
    let rows = tables.as_ref().map_or(&[][..], |tables| &tables.rows);
    let proofs = rows.iter().flat_map(|row| Rules::active().proofs(row));
    let mut findings = of_proofs(cause, proofs.filter(|proof| proof.cause == cause));
    if let Some(shown) = by_kernel(facts, cause) {
        match findings.first_mut() {
            Some(first) => {
                first.evidence.extend(shown.evidence);
                surer(first, shown.confidence);
            }
            None => findings.push(shown),
        }
    }
    Opinion::of(findings, missing(facts, cause, tables))
}

/// A finding for each culprit.
fn of_proofs(cause: Cause, proofs: impl Iterator<Item = Proof>) -> Vec<Finding> {
    let mut proofs: Vec<Proof> = proofs.collect();
    // The surest says what the finding says and advises.
    proofs.sort_by_key(|proof| (proof.is_beside, std::cmp::Reverse(proof.confidence)));
    let mut findings: Vec<Finding> = Vec::new();
    for proof in proofs {
        let mut known = findings.iter_mut();
        match known.find(|known| known.culprit == proof.culprit) {
            Some(known) => known.evidence.push(proof.says),
            None if proof.is_beside => {}
            None => {
                let found = finding(cause, proof.confidence, proof.culprit, vec![proof.says]);
                let found = Finding {
                    sentence: proof.headline.unwrap_or_default(),
                    ..found
                };
                findings.push(match proof.advice {
                    Some(advice) => found.advising(advice),
                    None => found,
                });
            }
        }
    }
    findings
}

fn surer(finding: &mut Finding, confidence: Confidence) {
    finding.confidence = finding.confidence.max(confidence);
    finding.verdict = finding.confidence.verdict();
}

fn by_kernel(facts: &NodeFacts, cause: Cause) -> Option<Finding> {
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
    }?;
    let mut evidence = examples(&waits.iter().collect::<Vec<_>>());
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let first = waits.first();
    let who = first.map_or_else(Culprit::default, |wait| culprit(wait.process));
    Some(finding(cause, confidence, who, evidence))
}

/// Why the cause may not be seen.
fn missing(facts: &NodeFacts, cause: Cause, tables: Option<Tables>) -> [Option<String>; 3] {
    let host = &facts.host;
    match tables {
        // The kernel only adds to what they show.
        Some(tables) => [tables.lack, None, None],
        None if Rules::active().asks_the_kernel(cause) => [
            lack_of_processes(host),
            lack(&host.kernel_log),
            unseen(facts),
        ],
        // What the kernel does not show, only the logs do.
        None => [lack(&host.logs), None, None],
    }
}
