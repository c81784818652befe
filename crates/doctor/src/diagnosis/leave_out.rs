//! What is left out of findings: consequences that another one reports, and advice that does not apply to
//! this node.

use std::borrow::Cow;
use std::collections::BTreeSet;

use causes::Cause;
use causes::finding::Finding;
use causes::versions::is_older;

use crate::facts::probes::ProbeFacts;
use crate::facts::{HostFacts, NodeFacts};

/// Leaves out shims and runcs that another finding reports together with the calls that they block: the
/// process itself, the shim that waits for it, or the process that it waits for. Statistics are a
/// consequence, which says nothing of the command that hangs.
pub(super) fn processes_that_are_named(findings: &mut Vec<Finding>, host: &HostFacts) {
    fn named_by(findings: &[Finding], causes: &[Cause]) -> BTreeSet<u32> {
        let others = findings.iter().filter(|it| !causes.contains(&it.cause));
        others.filter_map(|finding| finding.culprit.pid).collect()
    }
    let named = named_by(findings, &[Cause::ShimUnresponsive, Cause::RuncHung]);
    findings.retain(|finding| {
        let pid = finding.culprit.pid;
        finding.cause != Cause::ShimUnresponsive || pid.is_none_or(|pid| !named.contains(&pid))
    });
    let named = named_by(findings, &[Cause::RuncHung, Cause::StatisticsHang]);
    findings.retain(|finding| match (finding.cause, finding.culprit.pid) {
        (Cause::RuncHung, Some(pid)) => {
            let parent = host.process(pid).map(|runc| runc.ppid);
            let below = host.children(pid).map(|child| child.pid);
            let mut concerned = below.chain(parent).chain([pid]);
            !concerned.any(|pid| named.contains(&pid))
        }
        _ => true,
    });
}

/// Removes advice of the page of a cause that is about containerd, if the runtime is another
/// one; only dockerd uses a containerd.
pub(super) fn advice_on_containerd(finding: &mut Finding, probes: &ProbeFacts) {
    if probes.is_crio() {
        let fixed_in = &mut finding.fixed_in;
        fixed_in.retain(|version| !version.starts_with("containerd"));
    }
    if !probes.may_be_containerd() {
        let of_page = |advice: &Cow<str>| matches!(advice, Cow::Borrowed(_));
        let advice = &mut finding.advice;
        advice.retain(|advice| !(of_page(advice) && advice.contains("containerd")));
    }
}

/// Removes the versions that are not newer than what this node runs.
pub(super) fn fixes(finding: &mut Finding, facts: &NodeFacts) {
    finding.fixed_in.retain(|fixed| {
        let Some((program, release)) = fixed.split_once(' ') else {
            return true;
        };
        let runtime = facts.probes.runtime.as_ref();
        let running = match program {
            "runc" => facts.host.versions.runc(),
            _ => runtime
                .filter(|runtime| runtime.name.eq_ignore_ascii_case(program))
                .map(|runtime| &*runtime.version),
        };
        running.is_none_or(|running| is_older(running, release))
    });
}

/// Removes advice of the page of a cause to run this command, which was done, if there is other
/// advice.
pub(super) fn advice_to_run_the_doctor(finding: &mut Finding) {
    let is_to_run_it =
        |advice: &Cow<str>| matches!(advice, Cow::Borrowed(_)) && advice.contains("`pleg doctor`");
    if !finding.advice.iter().all(is_to_run_it) {
        finding.advice.retain(|advice| !is_to_run_it(advice));
    }
}
