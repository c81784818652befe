//! The remedy, off by default. If one container alone blocks the lists, and the doctor is certain of
//! the cause, the agent does what the doctor advises first: it continues stopped processes, or ends a
//! runc that does not return.
//!
//! ```text
//!   guarding, one culprit --for two minutes--> doctor --certain, advises signals--> CONT or KILL
//!                                                \--anything else--> nothing
//! ```
//!
//! Each step is logged, and recorded in a file beside the guard's state. Because of these records,
//! there is at most one remedy per hour, even if the agent restarts.

use std::convert::Infallible;
use std::fs::{self, OpenOptions};
use std::future::pending;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use agent::{AgentChoice, AgentClient, Daemon};
use anyhow::{Context, ensure};
use base::host::state_file;
use causes::finding::{Confidence, Finding, Remedy};
use cri::Endpoint;
use doctor::diagnosis::diagnose;
use pleg::model::id::Id;
use pleg::model::wall_time::{WallTime, system_clock};
use pleg::out::status_report::GuardStatus;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde::{Deserialize, Serialize};
use tokio::time::{Instant, sleep};

use crate::commands::doctor::collect_facts;

/// The time between two requests for the guard's status.
const STATUS_INTERVAL: Duration = Duration::from_secs(5);

/// How long before the signal the log announces it.
const NOTICE: Duration = Duration::from_secs(5);

/// The minimum time between two remedies.
const REMEDY_INTERVAL: Duration = Duration::from_secs(3600);

/// Applies the configured remedy whenever its conditions hold. `agent` is the socket of this daemon.
pub async fn apply(daemon: &Daemon, agent: PathBuf) -> Infallible {
    if daemon.config.remedy == agent::Remedy::None {
        return pending().await;
    }
    let node = Node {
        runtime: daemon.endpoint.clone(),
        agent,
        records: state_file(daemon.endpoint.path(), "remedies"),
    };
    let remedies = Remedies {
        configured: daemon.config.remedy,
        after: daemon.config.remedy_after.0,
    };
    remedies.watch(node).await
}

/// The configured remedies.
#[derive(Debug)]
struct Remedies {
    configured: agent::Remedy,
    after: Duration,
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

/// A record of one step of a remedy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Record<'a> {
    time: WallTime,
    #[serde(flatten)]
    remedy: &'a Remedy,
    id: &'a Id,
    step: Step,
}

/// The part of a record that is read back.
#[derive(Debug, Deserialize)]
struct Last {
    time: WallTime,
}

/// A step of a remedy.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
enum Step {
    Announced,
    Done,
    /// No signal was sent, for this reason.
    LeftAlone(String),
}

impl Remedies {
    /// Watches the node, and applies the remedy when its conditions hold.
    async fn watch(self, node: Node) -> Infallible {
        let agent = AgentClient::new(&node.agent);
        let mut culprit = SoleCulprit::default();
        loop {
            sleep(STATUS_INTERVAL).await;
            let Ok(status) = agent.status().await else {
                continue;
            };
            let Some(id) = culprit.update(&status.guard, self.after, Instant::now()) else {
                continue;
            };
            let now = system_clock()();
            if last_in(&node.records).is_some_and(|last| now.since(last) < REMEDY_INTERVAL) {
                continue;
            }
            if let Err(error) = self.apply(&node, id).await {
                tracing::warn!("no remedy for {id}: {error}");
                // The next attempt is made after another `remedyAfter`.
                culprit = SoleCulprit::default();
            }
        }
    }

    /// Applies the remedy for this container, if its conditions hold both before and after the notice.
    async fn apply(&self, node: &Node, id: &Id) -> anyhow::Result<()> {
        let remedy = self.certain_remedy(node, id).await?;
        let what = match &remedy {
            Remedy::Continue(pids) => format!("SIGCONT to {pids:?}"),
            Remedy::EndRunc(pids) => format!("SIGKILL to the runc {pids:?}"),
        };
        let seconds = NOTICE.as_secs();
        tracing::warn!("container {id} blocks the node: {what} in {seconds} s");
        let mut record = Record {
            time: system_clock()(),
            remedy: &remedy,
            id,
            step: Step::Announced,
        };
        // Without a record, the remedy would be repeated, so it is not applied.
        write(&node.records, &record)?;
        sleep(NOTICE).await;
        let done = self.signal(node, id, &remedy).await;
        record.time = system_clock()();
        record.step = match &done {
            Ok(()) => {
                tracing::warn!("container {id} blocks the node: sent {what}");
                Step::Done
            }
            Err(error) => Step::LeftAlone(error.to_string()),
        };
        write(&node.records, &record)?;
        done
    }

    async fn certain_remedy(&self, node: &Node, id: &Id) -> anyhow::Result<Remedy> {
        let agent = AgentChoice::Named(node.agent.clone());
        let facts = collect_facts(Some(node.runtime.clone()), agent).await?;
        let findings = diagnose(&facts, |_| true).findings;
        Ok(certain_remedy(&findings, id, self.configured)?.clone())
    }

    /// Sends the signals. The PIDs may belong to other processes by now, so the conditions are checked
    /// again while pidfds hold the processes.
    async fn signal(&self, node: &Node, id: &Id, remedy: &Remedy) -> anyhow::Result<()> {
        let (signal, pids) = match remedy {
            Remedy::Continue(pids) => (Signal::CONT, &pids[..]),
            Remedy::EndRunc(pids) => (Signal::KILL, &pids[..]),
        };
        let hold = |pid: &u32| {
            let pid = i32::try_from(*pid).ok().and_then(Pid::from_raw);
            let held = pidfd_open(pid.context("no such process")?, PidfdFlags::empty())?;
            anyhow::Ok(held)
        };
        let held: Vec<OwnedFd> = pids.iter().map(hold).collect::<Result<_, _>>()?;
        let current = self.certain_remedy(node, id).await?;
        ensure!(current == *remedy, "the doctor now advises something else");
        for process in held {
            pidfd_send_signal(process, signal)?;
        }
        Ok(())
    }
}

/// The id that alone blocks the lists, and when it became the only one.
#[derive(Debug, Default)]
struct SoleCulprit {
    alone: Option<(Id, Instant)>,
}

impl SoleCulprit {
    /// Returns the id once it alone has blocked the lists for at least `after`.
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
enum NoRemedy {
    #[error("the doctor is not certain that it is the cause")]
    Certainty,
    #[error("the doctor does not advise to continue or end a process at once")]
    Advice,
    #[error("the doctor advises to end a runc, which needs `remedy: shimKill`")]
    Configuration,
}

/// The remedy that the doctor advises first for this container. It is an error if the doctor is not
/// certain of the cause, if it advises no signal, or if the configuration does not allow the remedy.
fn certain_remedy<'a>(
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

/// The time of the last record, or `None` if there is no readable record.
fn last_in(records: &Path) -> Option<WallTime> {
    let text = fs::read_to_string(records).ok()?;
    let last: Last = serde_json::from_str(text.lines().last()?).ok()?;
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
    use agent::Remedy::{Shim, ShimKill};
    use cri::Rpc;
    use doctor::facts::host::{CgroupPath, FrozenCgroup, Process};
    use doctor::facts::probes::{Cost, End, Probe};
    use doctor::facts::tasks::Task;
    use doctor::facts::{Fact, HostFacts, NodeFacts, ProbeFacts};
    use pleg::out::health::StuckCall;
    use pleg::runtime::RuntimeVersion;

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
        let mut culprit = SoleCulprit::default();
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

    /// This limits remedies to one per hour, even if the agent restarts.
    #[test]
    fn the_time_of_the_last_record_is_read() {
        let directory = tempfile::tempdir().unwrap();
        let records = directory.path().join("remedies");
        assert_eq!(last_in(&records), None);
        let mut record = Record {
            time: WallTime::from_unix_nanos(1).unwrap(),
            remedy: &Remedy::EndRunc([8]),
            id: &"c1".into(),
            step: Step::Announced,
        };
        write(&records, &record).unwrap();
        record.time = WallTime::from_unix_nanos(2).unwrap();
        record.step = Step::LeftAlone("it ended".to_owned());
        write(&records, &record).unwrap();
        assert_eq!(last_in(&records), Some(record.time));
        let text = fs::read_to_string(&records).unwrap();
        assert!(text.contains(r#""action":"endRunc","pids":[8]"#), "{text}");
    }
}
