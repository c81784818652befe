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
use std::future::pending;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

use agent::{AgentChoice, AgentClient, Daemon};
use anyhow::{Context, ensure};
use base::host::state_file;
use causes::finding::Remedy;
use cri::Endpoint;
use doctor::diagnosis::diagnose;
use pleg::model::id::Id;
use pleg::model::wall_time::system_clock;
use pleg::out::status_report::GuardStatus;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::time::{Instant, sleep};

use crate::commands::doctor::collect_facts;

mod certain;
mod records;

use certain::certain_remedy;
use records::{Record, Step, last_in, write};

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

#[cfg(test)]
mod tests {
    use pleg::out::health::StuckCall;

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
}
