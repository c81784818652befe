//! A node with two pods on a runtime that is not containerd: something in `web` hangs, and `db` is healthy.

use causes::Cause;
use causes::finding::{Finding, PodName};
use cri::Rpc;
use doctor::diagnosis::{Diagnosis, NodeVerdict, diagnose};
use doctor::facts::Fact;
use doctor::facts::probes::{Cost, End, Failures, Probe, ProbeFacts};
use pleg::runtime::{CallError, RuntimeVersion};

use crate::built::{Machine, answered};
use crate::task::Task;

/// The process behind the socket.
pub const RUNTIME: u32 = 500;

/// A pod with a sandbox and a container. Their ids consist of the first and of the second digit.
#[derive(Clone, Copy)]
pub struct Pod {
    pub name: &'static str,
    pub digits: [char; 2],
}

pub const WEB: Pod = Pod {
    name: "web",
    digits: ['a', 'b'],
};
pub const DB: Pod = Pod {
    name: "db",
    digits: ['c', 'd'],
};

impl Pod {
    pub fn sandbox(self) -> String {
        self.digits[0].to_string().repeat(64)
    }

    pub fn container(self) -> String {
        self.digits[1].to_string().repeat(64)
    }

    pub fn group(self) -> String {
        let digits = self.digits[0].to_string();
        format!(
            "/kubepods/besteffort/pod{}-1111-2222-3333-444455556666",
            digits.repeat(8)
        )
    }

    pub fn pod_name(self) -> PodName {
        PodName {
            uid: None,
            namespace: Some("shop".to_owned()),
            name: Some(self.name.to_owned()),
        }
    }

    /// A call for its container, or for its sandbox.
    pub fn call(self, call: Rpc, end: End, seconds: f64) -> Probe {
        let is_sandbox = call == Rpc::PodSandboxStatus;
        Probe {
            id: Some(match is_sandbox {
                true => self.sandbox(),
                false => self.container(),
            }),
            end,
            pod: Some(self.pod_name()),
            container: (!is_sandbox).then(|| "app".to_owned()),
            ..answered(call, seconds)
        }
    }
}

/// A node on which this runtime answers. The caller adds further processes and the runtime's folders.
pub fn node(runtime: &str, version: &str, socket: &str, daemon: &'static str) -> Machine {
    let machine = [RUNTIME, 700, 710]
        .iter()
        .fold(Machine::healthy(), |machine, pid| {
            machine.without(&format!("proc/{pid}"))
        });
    machine
        .task(&task(
            RUNTIME,
            1,
            daemon,
            &format!("/system.slice/{daemon}.service"),
        ))
        .asked(|probes| {
            probes.endpoint = format!("unix://{socket}");
            probes.as_root = true;
            probes.runtime = Some(RuntimeVersion {
                name: runtime.into(),
                version: version.into(),
                api_version: "v1".into(),
            });
            probes.listener = Fact::known(RUNTIME, "peer");
            for call in [Rpc::ListPodSandbox, Rpc::Status] {
                probes.calls.push(answered(call, 0.002));
            }
            for call in [Rpc::PodSandboxStatus, Rpc::ContainerStatus] {
                probes.costs.push(cost(call));
            }
        })
}

fn cost(call: Rpc) -> Cost {
    Cost {
        call,
        count: 8,
        p50: 0.002,
        p90: 0.002,
        p99: 0.003,
        max: 0.003,
        alone: Some(0.002),
    }
}

pub fn task(pid: u32, ppid: u32, comm: &'static str, group: &str) -> Task {
    let mut task = Task::new(pid, ppid, comm);
    group.clone_into(&mut task.cgroup);
    task
}

/// The task in state T.
pub fn stopped(mut task: Task) -> Task {
    task.state = 'T';
    task.wchan = "do_signal_stop";
    task
}

/// The task as a zombie.
pub fn dead(mut task: Task) -> Task {
    task.state = 'Z';
    task.wchan = "0";
    task
}

/// A call that hangs for the longest time that the doctor waits.
pub fn hung(pod: Pod, call: Rpc) -> impl FnOnce(&mut ProbeFacts) {
    move |probes| probes.calls.push(pod.call(call, End::Hung, 6.0))
}

/// Makes the runtime answer no call.
pub fn unresponsive(probes: &mut ProbeFacts) {
    probes.costs.clear();
    for call in &mut probes.calls {
        (call.end, call.seconds) = (End::Hung, 6.0);
    }
}

/// Makes every status call of every pod fail with this error.
pub fn failing(probes: &mut ProbeFacts, why: &str) {
    probes.costs.clear();
    for call in [Rpc::PodSandboxStatus, Rpc::ContainerStatus] {
        for pod in [WEB, DB] {
            let why = CallError::Refused(why.into());
            probes.calls.push(pod.call(call, End::Failed(why), 0.001));
        }
        probes.failures.push(Failures {
            call,
            failed: 2,
            made: 2,
        });
    }
}

/// The diagnosis of all causes.
pub fn said(machine: &Machine) -> Diagnosis {
    diagnose(&machine.facts(), |_| true)
}

/// The only finding, after an assertion that its advice kills no process.
#[track_caller]
pub fn only(machine: &Machine, cause: Cause) -> Finding {
    let mut findings = said(machine).findings;
    for finding in &findings {
        let advice = finding.advice.join("\n");
        assert!(!advice.contains("-KILL"), "{advice}");
    }
    assert_eq!(findings.len(), 1, "{findings:#?}");
    assert_eq!(findings[0].cause, cause);
    findings.remove(0)
}

/// Asserts that nothing is found, although the shims or conmons were examined.
#[track_caller]
pub fn is_healthy_and_its_shims_were_seen(machine: &Machine) {
    let said = said(machine);
    assert_eq!(said.findings, []);
    assert_eq!(said.verdict, NodeVerdict::Ok);
    let mut unchecked = said.not_checked.iter();
    assert!(!unchecked.any(|not| not.cause == Cause::ShimUnresponsive));
}
