//! Which remedy the doctor is certain of, and the configuration allows.

use causes::finding::{Confidence, Finding, Remedy};
use pleg::model::id::Id;

/// Why no remedy is applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoRemedy {
    #[error("the doctor is not certain that it is the cause")]
    Certainty,
    #[error("the doctor does not advise to continue or end a process at once")]
    Advice,
    #[error("the doctor advises to end a runc, which needs `remedy: shimKill`")]
    Configuration,
}

/// The remedy that the doctor advises first for this container. It is an error if the doctor is not
/// certain of the cause, if it advises no signal, or if the configuration does not allow the remedy.
pub(super) fn certain_remedy<'a>(
    findings: &'a [Finding],
    id: &Id,
    configured: agent::Remedy,
) -> Result<&'a Remedy, NoRemedy> {
    let is_certain = |finding: &&Finding| {
        finding.confidence == Confidence::Certain
            && finding.culprit.id.as_deref() == Some(id.as_str())
    };
    let mut certain = findings.iter().filter(is_certain).peekable();
    certain.peek().ok_or(NoRemedy::Certainty)?;
    let remedy = certain.find_map(|finding| finding.remedy.as_ref());
    let remedy = remedy.ok_or(NoRemedy::Advice)?;
    match (remedy, configured) {
        (_, agent::Remedy::None) | (Remedy::EndRunc(_), agent::Remedy::Shim) => {
            Err(NoRemedy::Configuration)
        }
        (Remedy::Continue(_), agent::Remedy::Shim) | (_, agent::Remedy::ShimKill) => Ok(remedy),
    }
}

#[cfg(test)]
mod tests {
    use agent::Remedy::{Shim, ShimKill};
    use cri::Rpc;
    use doctor::diagnosis::diagnose;
    use doctor::facts::host::{CgroupPath, FrozenCgroup, Process};
    use doctor::facts::probes::{Cost, End, Probe};
    use doctor::facts::tasks::Task;
    use doctor::facts::{Fact, HostFacts, NodeFacts, ProbeFacts};
    use pleg::model::wall_time::system_clock;
    use pleg::runtime::RuntimeVersion;

    use super::*;

    /// What the doctor finds while `ContainerStatus` of `c1` and `ListContainers` hang. `shim`
    /// is the state of its shim, which has PID 7; `runc` is the state and the age in seconds
    /// of a runc below this shim.
    fn findings(shim: char, runc: Option<(char, f64)>, frozen: &[FrozenCgroup]) -> Vec<Finding> {
        let process = |pid, ppid, comm: &str, state, age_seconds| Process {
            pid,
            ppid,
            comm: comm.into(),
            state,
            age_seconds,
            cgroups: vec![CgroupPath {
                controllers: "freezer".into(),
                path: format!("/kubepods/{comm}"),
            }],
            ..Process::default()
        };
        let runc = runc.map(|(state, age)| process(8, 7, "runc", state, age));
        let mut processes = vec![process(7, 1, "containerd-shim", shim, 900.0)];
        processes.extend(runc);
        processes.push(process(9, 7, "app", 'S', 900.0));
        let task = Task {
            id: "c1".into(),
            init: Some(9),
            ..Task::default()
        };
        let call = |call, id: Option<&str>, end| Probe {
            id: id.map(str::to_owned),
            ..Probe::new(call, end, 0.5)
        };
        let others = Cost {
            call: Rpc::ContainerStatus,
            count: 5,
            p50: 0.001,
            p90: 0.001,
            p99: 0.001,
            max: 0.001,
            alone: None,
        };
        let mut facts = NodeFacts {
            taken: system_clock()(),
            probes: ProbeFacts {
                runtime: Some(RuntimeVersion {
                    name: "containerd".into(),
                    version: "1.7.24".into(),
                    api_version: "v1".into(),
                }),
                calls: vec![
                    call(Rpc::Version, None, End::Answered),
                    call(Rpc::ListPodSandbox, None, End::Answered),
                    call(Rpc::ListContainers, None, End::Hung),
                    call(Rpc::ContainerStatus, Some("c1"), End::Hung),
                ],
                costs: vec![others],
                tasks: Fact::known(vec![task], "tasks"),
                ..ProbeFacts::default()
            },
            host: HostFacts {
                processes: Fact::known(processes, "/proc"),
                ..HostFacts::default()
            },
        };
        facts.host.cgroups.frozen = Fact::known(frozen.to_vec(), "cgroups");
        diagnose(&facts, |_| true).findings
    }

    fn remedy(findings: &[Finding], configured: agent::Remedy) -> Result<&Remedy, NoRemedy> {
        certain_remedy(findings, &"c1".into(), configured)
    }

    const HANGS: Option<(char, f64)> = Some(('S', 60.0));

    /// Enforces D1.
    #[test]
    fn a_runc_that_hangs_is_ended_and_its_shim_is_not() {
        let hangs = findings('S', HANGS, &[]);
        assert_eq!(remedy(&hangs, ShimKill), Ok(&Remedy::EndRunc([8])));
        let not_configured = Err(NoRemedy::Configuration);
        assert_eq!(remedy(&hangs, Shim), not_configured);
        // Ending the runc would not thaw the container.
        let frozen = FrozenCgroup {
            path: "/kubepods/app".into(),
            state: "FROZEN".into(),
            ..FrozenCgroup::default()
        };
        let frozen = findings('S', HANGS, &[frozen]);
        assert_eq!(remedy(&frozen, ShimKill), Err(NoRemedy::Advice));
    }

    /// Enforces D1.
    #[test]
    fn stopped_processes_are_continued_and_not_ended() {
        for (shim, runc, pids) in [
            ('T', None, vec![7]),
            ('S', Some(('T', 60.0)), vec![8]),
            ('T', Some(('T', 60.0)), vec![7, 8]),
            ('T', HANGS, vec![7]),
        ] {
            let findings = findings(shim, runc, &[]);
            for configured in [Shim, ShimKill] {
                let resumed = Remedy::Continue(pids.clone());
                assert_eq!(remedy(&findings, configured), Ok(&resumed), "{findings:#?}");
            }
        }
    }

    /// Enforces D1.
    #[test]
    fn a_healthy_shim_or_a_doubtful_diagnosis_gets_no_signal() {
        let none = |findings: &[Finding]| remedy(findings, ShimKill).unwrap_err();
        // The runtime itself may be waiting for its disk.
        assert_eq!(none(&findings('S', None, &[])), NoRemedy::Certainty);
        // A runc that has just been started is no evidence.
        let young = findings('S', Some(('S', 1.0)), &[]);
        assert_eq!(none(&young), NoRemedy::Certainty);
        // A signal does not end a process that waits in the kernel.
        let blocked = findings('S', Some(('D', 60.0)), &[]);
        assert_eq!(none(&blocked), NoRemedy::Advice);
        assert_eq!(none(&[]), NoRemedy::Certainty);
        let mut likely = findings('S', HANGS, &[]);
        let other = certain_remedy(&likely, &"c2".into(), ShimKill);
        assert_eq!(other, Err(NoRemedy::Certainty));
        for finding in &mut likely {
            finding.confidence = finding.confidence.min(Confidence::High);
        }
        assert_eq!(none(&likely), NoRemedy::Certainty);
    }
}
