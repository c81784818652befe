//! What to do about a shim for which calls may wait, according to its state and that of the runc processes
//! below it.

use causes::finding::{Finding, Remedy};

use super::runc::{Freezer, end_runc};
use super::{cannot_be_killed, end_tracer, in_the_kernel, is_traced};
use crate::evidence::phrases::{MAX_EXAMPLES, age, with_state};
use crate::evidence::shims::Shim;
use crate::facts::NodeFacts;
use crate::facts::host::Process;

/// What to do first about calls that hang for a container, and to which process. The advice describes the
/// action, and the remedy of the finding contains the signals to send.
#[derive(Debug)]
enum Action<'a> {
    /// Resume these stopped processes.
    Continue(Vec<&'a Process>),
    /// End this runc, which does not return.
    EndRunc(&'a Process, Freezer<'a>),
    /// Examine or repair the node, as this advice says.
    ByHand(String),
}

impl<'a> Action<'a> {
    fn of_shim(shim: &Shim<'a>, facts: &'a NodeFacts) -> Self {
        let stopped: Vec<&Process> = shim.stopped().collect();
        let traced = stopped.iter().find(|process| is_traced(process));
        let role = shim.role();
        Self::ByHand(match (traced, shim.oldest_runc()) {
            (Some(process), _) => end_tracer(process),
            _ if shim.process.is_stopped() => return Self::Continue(stopped),
            _ if shim.process.was_resumed => format!(
                "run `pleg doctor` again: the {role} was stopped at first, and has been resumed \
                 since; kill nothing before that"
            ),
            _ if !stopped.is_empty() => return Self::Continue(stopped),
            (_, Some(runc)) if cannot_be_killed(runc) => in_the_kernel(runc),
            _ if cannot_be_killed(shim.process) || !shim.stuck_in().is_empty() => {
                in_the_kernel(shim.process)
            }
            (_, Some(runc)) if shim.fault().is_some() => {
                return Self::EndRunc(runc, Freezer::of(&shim.ids, facts));
            }
            // This runc was seen in the first sample, and may have ended since.
            (_, Some(runc)) => format!(
                "run `pleg doctor` again in ten seconds: runc ({}) below it had been running for \
                 {} only. Until it has ended, do not kill the {role}, and do not restart the \
                 runtime. If another runc runs each time, find out what those wait for, because \
                 the runtime starts them again",
                runc.pid,
                age(runc)
            ),
            (_, None) => look_at_runtime(shim, facts),
        })
    }

    /// The signals to send, if any. A runc that is killed does not thaw its container, so a runc is ended
    /// only if the container is thawed.
    fn remedy(&self) -> Option<Remedy> {
        match self {
            Self::Continue(stopped) => {
                let pids = stopped.iter().map(|process| process.pid);
                Some(Remedy::Continue(pids.collect()))
            }
            Self::EndRunc(runc, Freezer::Thawed) => Some(Remedy::EndRunc([runc.pid])),
            Self::EndRunc(_, Freezer::Frozen(_) | Freezer::Unread(_)) | Self::ByHand(_) => None,
        }
    }

    /// The advice for a shim; `is_called` is whether the runtime makes calls to it.
    fn advice(self, shim: &Shim, is_called: bool) -> String {
        let (pid, role) = (shim.process.pid, shim.role());
        match self {
            Self::ByHand(advice) => advice,
            Self::Continue(stopped) => {
                let pids: String = stopped.iter().map(|one| format!(" {}", one.pid)).collect();
                let resume = format!("run `kill -CONT{pids}` to resume the");
                match (shim.stopped_runc(), shim.process.is_stopped()) {
                    (Some(runc), true) => format!(
                        "{resume} {role} and the stopped {} below it; nothing is restarted",
                        runc.comm
                    ),
                    (Some(runc), false) => {
                        format!("{resume} stopped {}, for which the others wait", runc.comm)
                    }
                    // First find out what the runc below it waits for.
                    (None, _) if shim.oldest_runc().is_some() => format!(
                        "{resume} {role}; nothing is restarted; then run `pleg doctor` again \
                         before anything is killed"
                    ),
                    (None, _) if is_called => format!(
                        "{resume} {role}, which frees the node at once; nothing is restarted. If \
                         that does not help, run `kill -KILL {pid}`: {RESTARTS_ONE_POD}"
                    ),
                    (None, _) => format!("{resume} {role}; nothing is restarted"),
                }
            }
            Self::EndRunc(runc, freezer) => {
                let mut advice = end_runc(runc, &format!("the {role}"), &freezer);
                if is_called {
                    advice += &format!(
                        "; if that does not help, run `kill -KILL {pid}` to end the shim: \
                         {RESTARTS_ONE_POD}"
                    );
                }
                advice
            }
        }
    }
}

/// Adds the state of a shim and its runc processes to a finding about a call that hangs for the shim's pod,
/// and how to unblock what waits for them.
pub(crate) fn blame(finding: &mut Finding, shim: &Shim, facts: &NodeFacts) {
    // Only containerd calls the shim of a pod; conmon and docker's shims are not called.
    let is_called = facts.probes.may_be_containerd() && !shim.is_conmon();
    advise(finding, shim, facts, is_called);
}

/// Adds how to resume these stopped shims, together with the stopped runcs below them. The text `why` is
/// appended to the advice.
pub(crate) fn resume_all(finding: &mut Finding, stopped: &[&Shim], why: &str) {
    let processes = stopped.iter().flat_map(|shim| shim.stopped());
    let pids: Vec<u32> = processes.map(|process| process.pid).collect();
    let listed: String = pids.iter().map(|pid| format!(" {pid}")).collect();
    let shims = match stopped.len() {
        1 => "the stopped shim".to_owned(),
        count => format!("the {count} stopped shims"),
    };
    let examples = stopped.iter().take(MAX_EXAMPLES);
    finding.evidence.extend(examples.map(|shim| shim.says()));
    finding.advise_first(format!("run `kill -CONT{listed}` to resume {shims}{why}"));
    finding.remedy = Some(Remedy::Continue(pids));
}

/// Adds how to resume a shim that is stopped, while no call is known to hang for its pod.
pub(crate) fn resume(finding: &mut Finding, shim: &Shim, facts: &NodeFacts) {
    advise(finding, shim, facts, false);
}

fn advise(finding: &mut Finding, shim: &Shim, facts: &NodeFacts, is_called: bool) {
    let role = shim.role();
    finding.evidence.push(shim.says());
    let places = shim.stuck_in().into_iter();
    let places = places.map(|place| format!("a thread of the {role} waits in {place}"));
    finding.evidence.extend(places);
    finding.evidence.extend(shim.runc.iter().map(|runc| {
        let state = with_state(runc);
        format!(
            "below the {role}, {state}; it was started {} ago",
            age(runc)
        )
    }));
    let action = Action::of_shim(shim, facts);
    let remedy = action.remedy();
    finding.advise_first(action.advice(shim, is_called));
    finding.remedy = remedy;
}

/// What to look at if nothing shows that a shim is at fault.
fn look_at_runtime(shim: &Shim, facts: &NodeFacts) -> String {
    let label = shim.process.label();
    let runtime = match facts.runtime_process() {
        Some(runtime) => format!(
            "`ps -L -o tid,stat,wchan:30 -p {}` shows where the runtime waits (state D: usually \
             for its disk)",
            runtime.pid
        ),
        None => "find out what the runtime itself waits for, usually its disk".to_owned(),
    };
    format!("do not kill {label}: nothing shows that it is stuck; {runtime}")
}

/// What happens when a shim of containerd is killed.
const RESTARTS_ONE_POD: &str = "its pod is restarted, and no other pod is affected";
