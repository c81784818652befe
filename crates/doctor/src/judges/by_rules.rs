//! Judges a cause that has no separate judge, by its rules for what a live node shows: tables, the kernel's
//! log, and where threads wait.

use analyze::evidence::Evidence;
use analyze::rules::Rules;
use causes::Cause;
use causes::finding::{Confidence, Finding};

use super::Opinion;
use super::opinion::{advised, finding};
use crate::evidence::culprit;
use crate::evidence::lack::{lack, lack_of_processes};
use crate::evidence::tables::{Tables, tables};
use crate::evidence::waits::{examples, kernel_says, unseen, waits};
use crate::facts::NodeFacts;

/// With fewer blocked threads, the confidence is at most medium: a single one may just be slow.
const MIN_THREADS: usize = 3;

pub(super) fn judge(facts: &NodeFacts, cause: Cause) -> Opinion {
    let tables = tables(facts, cause);
    let rows = tables.as_ref().map_or(&[][..], |tables| &tables.rows);
    let evidence = rows.iter().flat_map(|row| Rules::active().evidence(row));
    let mut findings = of_evidence(cause, evidence.filter(|evidence| evidence.cause == cause));
    if let Some(shown) = by_kernel(facts, cause) {
        match findings.first_mut() {
            Some(first) => {
                first.evidence.extend(shown.evidence);
                first.confidence = first.confidence.max(shown.confidence);
                first.verdict = first.confidence.verdict();
            }
            None => findings.push(shown),
        }
    }
    Opinion::of(findings, missing(facts, cause, tables))
}

/// A finding for each culprit.
fn of_evidence(cause: Cause, evidence: impl Iterator<Item = Evidence>) -> Vec<Finding> {
    let mut evidence: Vec<Evidence> = evidence.collect();
    // The sentence and the advice of a finding are those of the evidence with the highest confidence.
    evidence.sort_by_key(|evidence| (evidence.is_beside, std::cmp::Reverse(evidence.confidence)));
    let mut findings: Vec<Finding> = Vec::new();
    for evidence in evidence {
        let mut known = findings.iter_mut();
        match known.find(|known| known.culprit == evidence.culprit) {
            Some(known) => known.evidence.push(evidence.says),
            None if evidence.is_beside => {}
            None => {
                let found = Finding {
                    sentence: evidence.headline.unwrap_or_default(),
                    culprit: evidence.culprit,
                    evidence: vec![evidence.says],
                    ..Finding::new(cause, evidence.confidence)
                };
                findings.push(advised(found, evidence.advice));
            }
        }
    }
    findings
}

/// The finding that the kernel's log and the threads that wait in the kernel support.
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
    let mut evidence = examples(&waits);
    evidence.extend(said.into_iter().flat_map(|(_, lines)| lines));
    let first = waits.first().map(|wait| culprit::of_process(wait.process));
    let culprit = first.unwrap_or_default();
    Some(finding(cause, confidence, culprit, evidence))
}

/// Why evidence of the cause may be missing.
fn missing(facts: &NodeFacts, cause: Cause, tables: Option<Tables>) -> [Option<String>; 3] {
    let host = &facts.host;
    match tables {
        // The kernel's log and the waiting threads only add to what the tables show.
        Some(tables) => [tables.lack, None, None],
        None if Rules::active().reads_the_kernel(cause) => [
            lack_of_processes(host),
            lack(&host.kernel_log),
            unseen(facts),
        ],
        // Only the logs show the other causes.
        None => [lack(&host.logs), None, None],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Fact;
    use crate::facts::host::MemoryCgroups;
    use crate::node::{Node, found, node};

    fn runc(version: Option<&str>) -> Node {
        let node = node("containerd", "1.7.24").shim(99, false, &["c1"]);
        match version {
            Some(version) => node.package("runc", version),
            None => node,
        }
    }

    fn execs(version: Option<&str>) -> Opinion {
        let node = (200..207).fold(runc(version), |node, pid| {
            node.process(pid, 99, "runc").aged(pid, 90.0)
        });
        judge(&node.facts(), Cause::RuncShortExecStuck)
    }

    #[test]
    fn many_processes_of_runc_are_one_finding_that_ends_the_first() {
        let [ref finding] = found(execs(Some("1.3.2")))[..] else {
            panic!("one finding")
        };
        assert_eq!(finding.culprit.pid, Some(200));
        let command = "run `kill -KILL 200 201 202 203 204` to end these runc processes";
        assert!(finding.advice[0].starts_with(command), "{finding:?}");
        assert!(finding.evidence[0].contains("(7 in total)"), "{finding:?}");
        assert_eq!(execs(Some("1.3.6")), Opinion::Clear);
        assert!(matches!(execs(None), Opinion::Unknown(why) if why.contains("runc (200)")));
    }

    #[test]
    fn each_blocked_init_of_runc_is_a_finding_of_its_own() {
        let inits = |version| {
            let node = [300, 301].into_iter().fold(runc(version), |node, pid| {
                let node = node.process(pid, 99, "runc:[2:INIT]").aged(pid, 30.0);
                node.waiting(pid, "pipe_write")
            });
            judge(&node.facts(), Cause::RuncSeccompPipe)
        };
        let sure = |version| {
            let found = found(inits(version)).into_iter();
            let sure = found.map(|finding| (finding.culprit.pid, finding.confidence));
            sure.collect::<Vec<_>>()
        };
        let [certain, medium] = [Confidence::Certain, Confidence::Medium]
            .map(|sure| vec![(Some(300), sure), (Some(301), sure)]);
        assert_eq!(sure(Some("1.0.0-rc93")), certain);
        assert_eq!(sure(None), medium);
        assert_eq!(inits(Some("1.1.12")), Opinion::Clear);
    }

    #[test]
    fn ids_that_are_nearly_used_up_are_certain_and_further_evidence_is_added() {
        let mut facts = node("containerd", "1.7.24").facts();
        let groups = MemoryCgroups {
            counted: 61_000,
            left_over: 60_000,
            version: 1,
            ..MemoryCgroups::default()
        };
        facts.host.cgroups.memory = Fact::known(groups, "/proc/cgroups");
        let [ref finding] = found(judge(&facts, Cause::MemoryCgroupLeak))[..] else {
            panic!("one finding")
        };
        assert_eq!(finding.confidence, Confidence::Certain);
        let advice = "drain and reboot this node before all 65535 ids are used; 61000 are used now";
        assert_eq!(finding.advice[0], advice);
        let says = "the kernel counts 61000 memory cgroups, 60000 of them leaked";
        assert_eq!(finding.evidence[1], says);
    }
}
