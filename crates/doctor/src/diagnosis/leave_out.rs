//! What is left out: findings whose culprit another finding reports, and advice that does not apply to this
//! node.

use std::borrow::Cow;
use std::collections::BTreeSet;

use causes::finding::Finding;
use causes::versions::is_older;
use causes::{Advice, Cause, Only};

use crate::facts::probes::ProbeFacts;
use crate::facts::{HostFacts, NodeFacts};

/// Leaves out a finding about a shim or a runc if another finding names that process, together with the
/// calls that it blocks. A finding about a runc is also left out if another one names the shim that waits
/// for the runc, or a process that the runc waits for. For a runc, a finding about statistics does not
/// count, because it does not explain the command that hangs.
pub(super) fn processes_that_are_named(findings: &mut Vec<Finding>, host: &HostFacts) {
    fn named_by(findings: &[Finding], causes: &[Cause]) -> BTreeSet<u32> {
        let others = findings.iter().filter(|it| !causes.contains(&it.cause));
        others.filter_map(|finding| finding.culprit.pid).collect()
    }
    let named = named_by(findings, &[Cause::ShimUnresponsive, Cause::RuncHung]);
    findings.retain(|finding| match (finding.cause, finding.culprit.pid) {
        (Cause::ShimUnresponsive, Some(pid)) => !named.contains(&pid),
        _ => true,
    });
    let named = named_by(findings, &[Cause::RuncHung, Cause::StatisticsHang]);
    findings.retain(|finding| match (finding.cause, finding.culprit.pid) {
        (Cause::RuncHung, Some(pid)) => {
            // A finding that names the runtime for another reason does not explain a runc that the runtime
            // started.
            let parent = host.process(pid).and_then(|runc| host.process(runc.ppid));
            let shim = parent.filter(|parent| parent.is_shim());
            let below = host.children(pid).map(|child| child.pid);
            let mut concerned = below.chain(shim.map(|shim| shim.pid)).chain([pid]);
            !concerned.any(|pid| named.contains(&pid))
        }
        _ => true,
    });
}

/// Leaves out what was computed from the duration of calls if the runtime gets too little CPU time: then
/// the durations show nothing about the number of containers.
pub(super) fn measured_without_cpu_time(findings: &mut Vec<Finding>) {
    let is_starved = findings.iter().any(|it| it.cause == Cause::CpuStarved);
    findings.retain(|it| it.cause != Cause::TooManyContainers || !is_starved);
}

/// Removes the advice of the cause's page that does not apply to a live node with this runtime. A finding
/// that rests on a log alone keeps the advice for saved files.
pub(super) fn advice(finding: &mut Finding, probes: &ProbeFacts) {
    let is_seen = finding.advice.iter().any(|it| matches!(it, Cow::Owned(_)));
    let applies = |only| match only {
        Only::Containerd => probes.may_be_containerd(),
        Only::SavedFiles => !is_seen,
    };
    let of_page = finding.cause.about().advice.iter();
    let is_left_out = |advice: &&Advice| advice.only.is_some_and(|only| !applies(only));
    let left_out: Vec<&str> = of_page.filter(is_left_out).map(|it| &*it.text).collect();
    finding
        .advice
        .retain(|advice| !left_out.contains(&&**advice));
}

/// Removes the versions that are not newer than what this node runs, and those of another runtime.
pub(super) fn fixes(finding: &mut Finding, facts: &NodeFacts) {
    finding.fixed_in.retain(|fixed| {
        let Some((program, release)) = fixed.split_once(' ') else {
            return true;
        };
        let runtime = facts.probes.runtime.as_ref();
        let running = match program {
            // Of the other runtimes, only dockerd uses a containerd.
            "containerd" if facts.probes.is_crio() => return false,
            "runc" => facts.host.versions.runc(),
            _ => runtime
                .filter(|runtime| runtime.name.eq_ignore_ascii_case(program))
                .map(|runtime| &*runtime.version),
        };
        running.is_none_or(|running| is_older(running, release))
    });
}

#[cfg(test)]
mod tests {
    use causes::finding::Confidence;

    use super::*;

    #[test]
    fn the_advice_for_a_process_of_this_node_is_not_contradicted_by_that_of_the_page() {
        let probes = ProbeFacts::default();
        let new = || Finding::new(Cause::ContainerStatusLock, Confidence::High);
        let mut seen = new().advising("run `kill -KILL 7336`");
        advice(&mut seen, &probes);
        let all = seen.advice.join("; ");
        assert!(
            !all.contains("if that shim") && !all.contains("kill no process"),
            "{all}"
        );
        assert!(all.contains("to prevent it"), "{all}");
        // Only the log shows it.
        let mut logged = new();
        advice(&mut logged, &probes);
        assert!(logged.advice.join("; ").contains("if that shim is stopped"));
    }

    #[test]
    fn a_runc_is_left_out_beside_its_named_shim_and_not_beside_its_named_runtime() {
        let node = crate::node::node("cri-o", "1.37.0").shim(99, false, &["c1"]);
        let facts = node
            .process(200, 99, "runc")
            .process(210, 10, "runc")
            .facts();
        let of = |cause, pid| {
            let mut finding = Finding::new(cause, Confidence::High);
            finding.culprit.pid = Some(pid);
            finding
        };
        for (cause, named, runc, left) in [
            (Cause::ContainerStatusLock, 99, 200, 1),
            (Cause::RuntimeUnresponsive, 10, 210, 2),
        ] {
            let mut findings = vec![of(cause, named), of(Cause::RuncHung, runc)];
            processes_that_are_named(&mut findings, &facts.host);
            assert_eq!(findings.len(), left, "{cause:?}");
        }
    }

    #[test]
    fn calls_of_a_runtime_without_cpu_time_show_nothing_about_the_number_of_containers() {
        let left = |causes: &[Cause]| {
            let findings = causes.iter();
            let mut findings = findings
                .map(|cause| Finding::new(*cause, Confidence::High))
                .collect();
            measured_without_cpu_time(&mut findings);
            findings.len()
        };
        let many = Cause::TooManyContainers;
        assert_eq!(left(&[Cause::CpuStarved, many]), 1);
        assert_eq!(left(&[Cause::DiskSaturated, many]), 2);
    }
}
