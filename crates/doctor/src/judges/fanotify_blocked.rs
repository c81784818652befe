//! Processes that open or execute a file wait, without a deadline, until an agent permits it.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Opinion;
use super::opinion::{advised, finding};
use crate::evidence::lack::lack_of_processes;
use crate::evidence::phrases::MAX_EXAMPLES;
use crate::evidence::waits::{examples, unseen, waits};
use crate::evidence::{culprit, known};
use crate::facts::NodeFacts;
use crate::facts::host::FanotifyListener;

pub(super) fn judge(facts: &NodeFacts) -> Opinion {
    let host = &facts.host;
    let waits = waits(facts, Cause::FanotifyBlocked);
    let Some(first) = waits.first() else {
        return Opinion::of(None, [lack_of_processes(host), unseen(facts)]);
    };
    let mut agents: Vec<&FanotifyListener> = known(&host.fanotify).iter().collect();
    agents.sort_by_key(|agent| std::cmp::Reverse(agent.permission_marks));
    let mut evidence = examples(&waits);
    evidence.extend(agents.iter().take(MAX_EXAMPLES).map(|agent| {
        format!(
            "{} ({}) has {} fanotify marks, {} of which require its permission",
            agent.comm, agent.pid, agent.marks, agent.permission_marks
        )
    }));
    // A listener without permission marks blocks nothing.
    let agent = agents.first().filter(|agent| agent.permission_marks > 0);
    // The agent is to be stopped; if it is not known, the finding names a victim.
    let agent = agent.map(|agent| Culprit {
        pid: Some(agent.pid),
        process: Some(agent.comm.clone()),
        ..host
            .process(agent.pid)
            .map(culprit::of_process)
            .unwrap_or_default()
    });
    let stop = agent.as_ref().and_then(stop);
    let culprit = agent.unwrap_or_else(|| culprit::of_process(first.process));
    let found = finding(
        Cause::FanotifyBlocked,
        Confidence::Certain,
        culprit,
        evidence,
    );
    Opinion::Found(vec![advised(found, stop)])
}

fn stop(agent: &Culprit) -> Option<String> {
    let (pid, name) = (agent.pid?, agent.process.as_deref()?);
    let first = match &agent.unit {
        Some(unit) => format!("stop {name} (`systemctl stop {unit}`)"),
        None => format!("stop {name} ({pid})"),
    };
    Some(format!(
        "{first}; if that hangs too, run `kill -KILL {pid}`: blocked processes then continue at \
         once"
    ))
}
