//! A healthy node, and what goes wrong with it, for the tests of the causes.

use cri::Rpc;
use pleg::model::wall_time::WallTime;
use pleg::runtime::{CallError, Condition, NoConnection, RuntimeVersion};

use super::Opinion;
use crate::facts::host::Process;
use crate::facts::kubelet::KubeletHealth;
use crate::facts::probes::{Cost, End, Failures, Outcome, Probe, ProbeFacts, Rows};
use crate::facts::tasks::Task;
use crate::facts::{Fact, HostFacts, NodeFacts};
use crate::finding::{Finding, PodName};

/// A node in the making.
pub(super) struct Node(ProbeFacts, HostFacts);

/// The process of its runtime, unless it is said to be another.
const RUNTIME: u32 = 10;

/// A node whose runtime answers every call in a millisecond.
pub(super) fn node(name: &str, version: &str) -> Node {
    let mut facts = ProbeFacts {
        endpoint: "unix:///run/runtime.sock".to_owned(),
        runtime: Some(RuntimeVersion {
            name: name.into(),
            version: version.into(),
            api_version: "v1".into(),
        }),
        listener: Fact::known(RUNTIME, "peer"),
        tasks: Fact::known(Vec::new(), "tasks"),
        ..ProbeFacts::default()
    };
    for call in [
        Rpc::Version,
        Rpc::Status,
        Rpc::ListPodSandbox,
        Rpc::ListContainers,
    ] {
        facts.calls.push(probe(call, None, End::Answered, 0.001));
    }
    let host = HostFacts {
        processes: Fact::known(Vec::new(), "/proc"),
        ..HostFacts::default()
    };
    Node(facts, host).process(RUNTIME, 1, name)
}

/// The findings of an opinion that has some.
#[track_caller]
pub(super) fn found(opinion: Opinion) -> Vec<Finding> {
    match opinion {
        Opinion::Found(findings) => findings,
        other => panic!("nothing was found: {other:?}"),
    }
}

fn probe(call: Rpc, id: Option<&str>, end: End, seconds: f64) -> Probe {
    Probe {
        call,
        id: id.map(str::to_owned),
        end,
        seconds,
        by_agent: false,
        bytes: None,
        pod: None,
        container: None,
    }
}

impl Node {
    fn of(&mut self, call: Rpc) -> &mut Probe {
        let mut calls = self.0.calls.iter_mut();
        calls.find(|probe| probe.call == call).unwrap()
    }

    pub fn call(mut self, call: Rpc, outcome: Outcome, seconds: f64) -> Self {
        let end = match outcome {
            Outcome::Ok => End::Answered,
            Outcome::Hung => End::Hung,
            Outcome::Error => End::Failed(CallError::Refused("Unknown: no".into())),
            Outcome::Refused => End::Failed(CallError::connection_refused()),
        };
        *self.of(call) = probe(call, None, end, seconds);
        self
    }

    pub fn bytes(mut self, call: Rpc, bytes: u64) -> Self {
        self.of(call).bytes = Some(bytes);
        self
    }

    pub fn failed(mut self, call: Rpc, why: CallError) -> Self {
        self.of(call).end = End::Failed(why);
        self
    }

    pub fn refused(mut self, cause: NoConnection) -> Self {
        for probe in &mut self.0.calls {
            probe.end = End::Failed(CallError::unavailable(cause, "the system's words"));
        }
        self
    }

    /// Status calls that fail, of as many as were made.
    pub fn failing(mut self, call: Rpc, ids: &[&str], made: usize, why: &CallError) -> Self {
        let failed = |id: &&str| probe(call, Some(id), End::Failed(why.clone()), 0.001);
        self.0.calls.extend(ids.iter().map(failed));
        self.0.failures.push(Failures {
            call,
            failed: ids.len(),
            made,
        });
        self
    }

    pub fn unasked(mut self) -> Self {
        self.0.calls.clear();
        self
    }

    /// A condition that the runtime says is not met.
    pub fn unmet(mut self, kind: &str, message: &str) -> Self {
        let condition = Condition {
            kind: kind.to_owned(),
            met: false,
            reason: "Reason".to_owned(),
            message: message.to_owned(),
        };
        let told = self.0.conditions.get_or_insert_default();
        told.conditions.push(condition);
        self
    }

    /// A status call that hangs.
    pub fn status(mut self, call: Rpc, id: &str, namespace: &str, pod: &str, name: &str) -> Self {
        let mut hung = probe(call, Some(id), End::Hung, 2.0);
        hung.pod = Some(PodName {
            uid: None,
            namespace: Some(namespace.to_owned()),
            name: Some(pod.to_owned()),
        });
        hung.container = (!name.is_empty()).then(|| name.to_owned());
        self.0.calls.push(hung);
        self
    }

    /// So many calls that all took that long.
    pub fn answered(mut self, call: Rpc, count: usize, seconds: f64) -> Self {
        self.0.costs.push(Cost {
            call,
            count,
            p50: seconds,
            p90: seconds,
            p99: seconds,
            max: seconds,
            alone: Some(seconds),
        });
        self
    }

    pub fn rows(mut self, sandboxes: usize, containers: usize) -> Self {
        self.0.rows = Some(Rows {
            sandboxes,
            containers,
            ..Rows::default()
        });
        self
    }

    pub fn process(mut self, pid: u32, ppid: u32, name: &str) -> Self {
        self.processes().push(Process {
            pid,
            ppid,
            comm: name.to_owned(),
            state: 'S',
            age_seconds: 100.0,
            ..Process::default()
        });
        self
    }

    fn processes(&mut self) -> &mut Vec<Process> {
        match &mut self.1.processes {
            Fact::Known { value, .. } => value,
            Fact::Missing { why, .. } => panic!("{why}"),
        }
    }

    fn last(&mut self) -> &mut Process {
        self.processes().last_mut().unwrap()
    }

    pub fn listener(self, pid: u32, name: &str, state: char) -> Self {
        let mut node = self.process(pid, 1, name);
        node.last().state = state;
        node.0.listener = Fact::known(pid, "peer");
        node
    }

    /// A shim that serves these, each by a process of its own.
    pub fn shim(self, pid: u32, stopped: bool, ids: &[&str]) -> Self {
        let mut node = self.process(pid, 1, "containerd-shim");
        node.last().state = if stopped { 'T' } else { 'S' };
        let mut tasks = Vec::new();
        for (init, id) in (pid + 1..).zip(ids) {
            node = node.process(init, pid, "app");
            tasks.push(Task {
                id: (*id).to_owned(),
                init,
                ..Task::default()
            });
        }
        node.0.tasks = Fact::known(tasks, "tasks");
        node
    }

    /// A plug-in that the runtime has started.
    pub fn plugin(self, pid: u32, name: &str, age: f64, wait: &str) -> Self {
        let mut node = self.process(pid, RUNTIME, name);
        node.last().age_seconds = age;
        node.last().wchan = Some(wait.to_owned());
        node
    }

    pub fn kubelet(mut self, code: u16, failed: &[&str]) -> Self {
        let health = KubeletHealth {
            code: Some(code),
            failed: failed.iter().map(|check| check.to_string()).collect(),
        };
        self.0.kubelet = Fact::known(health, "http://127.0.0.1:10248/healthz");
        self
    }

    /// A package that is installed.
    pub fn package(mut self, name: &str, version: &str) -> Self {
        let packages = [(name.to_owned(), version.to_owned())].into();
        self.1.versions.packages = Fact::known(packages, "dpkg");
        self
    }

    pub fn facts(mut self) -> NodeFacts {
        self.processes().sort_by_key(|process| process.pid);
        NodeFacts {
            taken: WallTime::from_unix_nanos(1).unwrap(),
            probes: self.0,
            host: self.1,
        }
    }
}
