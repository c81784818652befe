//! The diagnosis of a node: what every cause says of it, in the order of what explains
//! the most.

use serde::Serialize;

use crate::cause::Cause;
use crate::causes::{JUDGES, Opinion};
use crate::facts::NodeFacts;
use crate::finding::{Finding, Verdict};

/// What is wrong with the node, as far as can be told.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Diagnosis {
    /// The worst finding, or that nothing could be told.
    pub verdict: NodeVerdict,
    /// A sentence that names names.
    pub summary: String,
    /// What was found, root causes before their victims.
    pub findings: Vec<Finding>,
    /// What could not be told, and why.
    pub not_checked: Vec<NotChecked>,
}

/// In one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeVerdict {
    /// Nothing is wrong that could be seen.
    Ok,
    /// Something is.
    Problem,
    /// Too little could be seen to say either.
    Unknown,
}

/// A cause that could not be judged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotChecked {
    /// Which.
    pub cause: Cause,
    /// Why.
    pub why: String,
}

/// Judges a node by the causes that are `wanted`.
pub fn diagnose(facts: &NodeFacts, wanted: impl Fn(Cause) -> bool) -> Diagnosis {
    let mut findings = Vec::new();
    let mut not_checked = Vec::new();
    for (cause, judge) in JUDGES.iter().filter(|(cause, _)| wanted(*cause)) {
        match judge(facts) {
            Opinion::Found(found) => findings.extend(found),
            Opinion::Clear => {}
            Opinion::CannotTell(why) => not_checked.push(NotChecked { cause: *cause, why }),
        }
    }
    // A problem before a suspicion; else the order of the judges, which is that of roots.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.verdict));
    let verdict = match findings.first().map(|finding| finding.verdict) {
        Some(Verdict::Problem | Verdict::Suspect) => NodeVerdict::Problem,
        None if not_checked.is_empty() => NodeVerdict::Ok,
        None => NodeVerdict::Unknown,
    };
    Diagnosis {
        verdict,
        summary: summary(&findings, &not_checked),
        findings,
        not_checked,
    }
}

fn summary(findings: &[Finding], not_checked: &[NotChecked]) -> String {
    match (findings.first(), not_checked.len()) {
        (Some(first), _) => first.title.to_owned(),
        (None, 0) => "nothing is wrong with this node's runtime".to_owned(),
        (None, causes) => format!("nothing was found; {causes} causes could not be checked"),
    }
}
