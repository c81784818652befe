//! The remedy, off by default: the shim of the only container that blocks the lists is continued or
//! killed, if the doctor is certain of the cause and there is evidence that the shim is at fault.
//!
//! ```text
//!   guarding, one culprit --for two minutes--> doctor --certain, its shim at fault--> CONT or KILL
//!                                                \--anything else--> nothing
//! ```
//!
//! Each step is logged, and recorded beside the guard's state: at most one remedy per hour, even if
//! the agent restarts.

use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::future::pending;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{AgentChoice, AgentClient, Daemon, Remedy};
use anyhow::{Context, ensure};
use base::host::state_file;
use causes::Cause;
use causes::finding::{Confidence, Finding};
use cri::Endpoint;
use doctor::diagnosis::diagnose;
use doctor::facts::NodeFacts;
use doctor::facts::host::Process;
use doctor::{ShimFault, shim_at_fault};
use pleg::model::id::Id;
use pleg::model::wall_time::{WallTime, system_clock};
use pleg::out::status_report::GuardStatus;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::commands::doctor::collect_facts;

/// Between two requests for the guard's status.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// Between the log line and the signal.
const NOTICE: Duration = Duration::from_secs(5);

/// The minimum time between two remedies.
const REMEDY_INTERVAL: Duration = Duration::from_secs(3600);

/// Applies the remedy that is configured. `agent` is the socket of this daemon.
pub async fn apply(daemon: &Daemon, agent: PathBuf) -> Infallible {
    let node = Node {
        runtime: daemon.endpoint.clone(),
        agent,
        records: state_file(daemon.endpoint.path(), "remedies"),
    };
    let config = &daemon.config;
    match Remedies::of(config.remedy, config.remedy_after.0) {
        Some(remedies) => remedies.watch(node).await,
        None => pending().await,
    }
}

/// The configured remedy.
#[derive(Debug)]
struct Remedies {
    action: Action,
    after: Duration,
}

/// The signal for a shim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Action {
    Continue,
    Kill,
}

/// The node on which remedies are applied.
#[derive(Debug)]
struct Node {
    runtime: Endpoint,
    /// The socket of our own agent.
    agent: PathBuf,
    /// The file in which remedies are recorded.
    records: PathBuf,
}

/// A remedy, as it is recorded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Record {
    time: WallTime,
    action: Action,
    id: Id,
    pid: u32,
    step: Step,
}

/// The last step of a remedy.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Step {
    Announced,
    Done,
    /// No signal was sent, for this reason.
    LeftAlone(String),
}

impl Remedies {
    /// The remedy that is configured, or `None`.
    fn of(remedy: Remedy, after: Duration) -> Option<Self> {
        let action = match remedy {
            Remedy::None => return None,
            Remedy::Shim => Action::Continue,
            Remedy::ShimKill => Action::Kill,
        };
        Some(Self { action, after })
    }

    /// Watches the node, and applies the remedy when its conditions hold.
    async fn watch(self, node: Node) -> Infallible {
        let agent = AgentClient::new(&node.agent);
        let mut culprit = Culprit::default();
        loop {
            sleep(STATUS_INTERVAL).await;
            let Ok(status) = agent.status().await else {
                continue;
            };
            let id = culprit
                .update(&status.guard, self.after, Instant::now())
                .cloned();
            let Some(id) = id else { continue };
            let now = system_clock()();
            if last_in(&node.records).is_some_and(|last| now.since(last) < REMEDY_INTERVAL) {
                continue;
            }
            if let Err(error) = self.apply(&node, &id).await {
                tracing::warn!("no remedy for {id}: {error}");
                // The next attempt is after another `remedyAfter`.
                culprit = Culprit::default();
            }
        }
    }

    /// Applies the remedy to the shim of this container, if its conditions hold both before and after
    /// the notice.
    async fn apply(&self, node: &Node, id: &Id) -> anyhow::Result<()> {
        let shim = self.certain_shim(node, id).await?;
        let (label, seconds) = (shim.label(), NOTICE.as_secs());
        let what = match self.action {
            Action::Continue => "continued",
            Action::Kill => "killed",
        };
        tracing::warn!(
            "{label} of container {id} blocks the node: it will be {what} in {seconds} s"
        );
        let mut record = Record {
            time: system_clock()(),
            action: self.action,
            id: id.clone(),
            pid: shim.pid,
            step: Step::Announced,
        };
        // Without a record, the remedy would be repeated, so it is not applied.
        write(&node.records, &record)?;
        sleep(NOTICE).await;
        let done = self.signal(node, id, &shim).await;
        record.time = system_clock()();
        record.step = match &done {
            Ok(()) => {
                tracing::warn!("{label} of container {id} was {what}");
                Step::Done
            }
            Err(error) => Step::LeftAlone(error.to_string()),
        };
        write(&node.records, &record)?;
        done
    }

    async fn certain_shim(&self, node: &Node, id: &Id) -> anyhow::Result<Process> {
        let agent = AgentChoice::Named(node.agent.clone());
        let facts = collect_facts(Some(node.runtime.clone()), agent).await?;
        let diagnosis = diagnose(&facts, |_| true);
        Ok(certain_shim(&diagnosis.findings, &facts, id, self.action)?.clone())
    }

    /// Sends the signal to this process. Its id may belong to another process by now, so the conditions
    /// are checked again while a pidfd holds the process.
    async fn signal(&self, node: &Node, id: &Id, shim: &Process) -> anyhow::Result<()> {
        let pid = i32::try_from(shim.pid).ok().and_then(Pid::from_raw);
        let held = pidfd_open(pid.context("no such process")?, PidfdFlags::empty())?;
        let current = self.certain_shim(node, id).await?;
        ensure!(current.pid == shim.pid, "its shim has changed");
        let signal = match self.action {
            Action::Continue => Signal::CONT,
            Action::Kill => Signal::KILL,
        };
        Ok(pidfd_send_signal(held, signal)?)
    }
}

/// The only id that blocks the lists, and since when it is the only one.
#[derive(Debug, Default)]
struct Culprit {
    alone: Option<(Id, Instant)>,
}

impl Culprit {
    /// Returns the id once it has been the only one that blocks the lists for `after`.
    fn update(&mut self, guard: &GuardStatus, after: Duration, now: Instant) -> Option<&Id> {
        let mut ids = guard.culprits.iter().filter_map(|call| call.id.as_ref());
        let (Some(id), None, true) = (ids.next(), ids.next(), guard.guarding) else {
            self.alone = None;
            return None;
        };
        if self.alone.as_ref().is_none_or(|(known, _)| known != id) {
            self.alone = Some((id.clone(), now));
        }
        let (id, since) = self.alone.as_ref()?;
        (now >= *since + after).then_some(id)
    }
}

/// Why no remedy is applied.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum NotCertain {
    #[error("the doctor is not certain that it is the cause")]
    Cause,
    #[error("nothing shows that its shim is at fault: the runtime may wait for a disk")]
    NotAtFault,
    #[error("its shim is not stopped, so continuing it would change nothing")]
    NotStopped,
    #[error("its conmon is not called by the runtime, so killing it would free nothing")]
    Conmon,
}

/// The shim of this container, if the doctor is certain of the cause, and the shim is stopped, blocked
/// in the kernel, or waits for a runc that does not return.
fn certain_shim<'a>(
    findings: &[Finding],
    facts: &'a NodeFacts,
    id: &Id,
    action: Action,
) -> Result<&'a Process, NotCertain> {
    let is_it = |finding: &&Finding| {
        let causes = [Cause::ContainerStatusLock, Cause::ShimUnresponsive];
        causes.contains(&finding.cause)
            && finding.confidence == Confidence::Certain
            && finding.culprit.id.as_deref() == Some(id.as_str())
    };
    findings.iter().find(is_it).ok_or(NotCertain::Cause)?;
    let (shim, fault) = shim_at_fault(facts, id.as_str()).ok_or(NotCertain::NotAtFault)?;
    match action {
        Action::Continue if fault != ShimFault::Stopped => Err(NotCertain::NotStopped),
        Action::Kill if shim.comm == "conmon" => Err(NotCertain::Conmon),
        Action::Continue | Action::Kill => Ok(shim),
    }
}

/// The time of the last record, or `None` if there is no readable record.
fn last_in(records: &Path) -> Option<WallTime> {
    let text = fs::read_to_string(records).ok()?;
    let last: Record = serde_json::from_str(text.lines().last()?).ok()?;
    Some(last.time)
}

fn write(records: &Path, record: &Record) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let options = options.create(true).append(true).mode(0o600);
    let mut file = options.open(records)?;
    Ok(writeln!(file, "{}", serde_json::to_string(record)?)?)
}

#[cfg(test)]
mod tests {
    use doctor::facts::host::Thread;
    use doctor::facts::tasks::Task;
    use doctor::facts::{Fact, HostFacts, ProbeFacts};
    use pleg::out::health::StuckCall;
    use pleg::out::status_report::GuardStatus;

    use super::*;

    fn guarding(ids: &[&str]) -> GuardStatus {
        let stuck = ids.iter().map(|id| StuckCall {
            call: cri::Rpc::ContainerStatus,
            id: Some((*id).into()),
            container: None,
            pod: None,
            since_seconds: 1.0,
        });
        GuardStatus {
            guarding: true,
            culprits: stuck.collect(),
            ..GuardStatus::default()
        }
    }

    #[test]
    fn only_a_container_that_blocks_the_lists_alone_for_long_enough_gets_a_remedy() {
        let (start, after) = (Instant::now(), Duration::from_secs(120));
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut culprit = Culprit::default();
        assert_eq!(culprit.update(&guarding(&["a"]), after, at(0)), None);
        assert_eq!(culprit.update(&guarding(&["a"]), after, at(119)), None);
        assert!(culprit.update(&guarding(&["a"]), after, at(120)).is_some());
        assert_eq!(culprit.update(&guarding(&["a", "b"]), after, at(125)), None);
        assert_eq!(culprit.update(&guarding(&["a"]), after, at(130)), None);
        assert_eq!(culprit.update(&guarding(&["b"]), after, at(260)), None);
        let idle = GuardStatus {
            guarding: false,
            ..guarding(&["b"])
        };
        assert_eq!(culprit.update(&idle, after, at(400)), None);
    }

    fn certain() -> Vec<Finding> {
        let mut finding = Finding::new(Cause::ContainerStatusLock, Confidence::Certain);
        finding.culprit.id = Some("c1".into());
        vec![finding]
    }

    /// The shim 7 of the container `c1`, in this state, with a runc of this age below it.
    fn node(state: char, runc: Option<f64>) -> NodeFacts {
        let process = |pid, ppid, comm: &str, state, age_seconds| Process {
            pid,
            ppid,
            comm: comm.into(),
            state,
            age_seconds,
            ..Process::default()
        };
        let shim = process(7, 1, "containerd-shim", state, 900.0);
        let runc = runc.map(|age| process(8, 7, "runc", 'S', age));
        let processes = [shim].into_iter().chain(runc);
        let task = Task {
            id: "c1".into(),
            init: Some(9),
            ..Task::default()
        };
        let first = process(9, 7, "app", 'S', 900.0);
        NodeFacts {
            taken: system_clock()(),
            probes: ProbeFacts {
                tasks: Fact::known(vec![task], "tasks"),
                ..ProbeFacts::default()
            },
            host: HostFacts {
                processes: Fact::known(processes.chain([first]).collect(), "/proc"),
                ..HostFacts::default()
            },
        }
    }

    /// Enforces D1.
    #[test]
    fn a_shim_is_killed_only_with_evidence_that_it_is_at_fault() {
        let kill = |facts: &NodeFacts| {
            certain_shim(&certain(), facts, &"c1".into(), Action::Kill).map(|shim| shim.pid)
        };
        assert_eq!(kill(&node('T', None)), Ok(7));
        assert_eq!(kill(&node('S', Some(60.0))), Ok(7));
        let mut in_kernel = node('D', None);
        if let Fact::Known { value, .. } = &mut in_kernel.host.processes {
            value[0].threads = vec![Thread {
                tid: 7,
                state: 'D',
                still: true,
                ..Thread::default()
            }];
        }
        assert_eq!(kill(&in_kernel), Ok(7));
        // The runtime itself may wait for its disk.
        assert_eq!(kill(&node('S', None)), Err(NotCertain::NotAtFault));
        // A runc that has just been started is no evidence.
        assert_eq!(kill(&node('S', Some(1.0))), Err(NotCertain::NotAtFault));
        let mut conmon = node('T', None);
        if let Fact::Known { value, .. } = &mut conmon.host.processes {
            value[0].comm = "conmon".into();
        }
        assert_eq!(kill(&conmon), Err(NotCertain::Conmon));
    }

    /// Enforces D1.
    #[test]
    fn a_shim_without_certain_cause_or_not_stopped_gets_no_signal() {
        let of = |findings: &[Finding], facts: &NodeFacts, id: &str, action| {
            certain_shim(findings, facts, &id.into(), action).map(|shim| shim.pid)
        };
        let stopped = node('T', None);
        assert_eq!(of(&certain(), &stopped, "c1", Action::Continue), Ok(7));
        let hung = node('S', Some(60.0));
        let hung = of(&certain(), &hung, "c1", Action::Continue);
        assert_eq!(hung, Err(NotCertain::NotStopped));
        let other = of(&certain(), &stopped, "c2", Action::Kill);
        assert_eq!(other, Err(NotCertain::Cause));
        let mut likely = certain();
        likely[0].confidence = Confidence::High;
        let likely = of(&likely, &stopped, "c1", Action::Kill);
        assert_eq!(likely, Err(NotCertain::Cause));
        let mut gone = stopped;
        gone.host.processes = Fact::known(Vec::new(), "/proc");
        let gone = of(&certain(), &gone, "c1", Action::Kill);
        assert_eq!(gone, Err(NotCertain::NotAtFault));
    }
}
