//! Whether what an agent said at the begin still holds at the end: a fault that has ended is no ground to
//! kill anybody.

use std::time::Duration;

use agent::AgentClient;
use doctor::collect::agent::{unreachable, was_answered, word};
use doctor::facts::probes::{End, Probe};
use doctor::facts::{NodeFacts, ProbeFacts};
use pleg::model::status::PodStatus;
use pleg::out::status_report::StatusReport;
use tokio::time::Instant;

/// An agent on the node, and what it has answered.
pub(super) struct Asked {
    pub(super) client: AgentClient,
    pub(super) status: StatusReport,
    pub(super) pods: Vec<PodStatus>,
    pub(super) at: Instant,
}

/// What an agent says at the end, if what it said before is used.
pub(super) enum Meanwhile {
    /// It was not asked, because nothing of it is.
    NotAsked,
    /// It answers this, so long after what it said before.
    Says(Box<StatusReport>, Duration),
    /// It does not answer: what it said may be of before the fault ended.
    Silent,
}

impl Meanwhile {
    pub(super) async fn of(facts: &NodeFacts, asked: Option<&Asked>) -> Self {
        let waits = facts.probes.calls.iter().any(waits);
        let is_used = |asked: &&Asked| {
            waits || facts.probes.agent.is_some() || unreachable(&asked.status).is_some()
        };
        match asked.filter(is_used) {
            None => Self::NotAsked,
            Some(asked) => match asked.client.status().await {
                Ok(now) => Self::Says(Box::new(now), asked.at.elapsed()),
                Err(_) => Self::Silent,
            },
        }
    }

    /// Whether the facts have something of it that holds no longer.
    pub(super) fn contradicts(&self, facts: &ProbeFacts) -> bool {
        match self {
            Self::NotAsked => false,
            Self::Silent => true,
            Self::Says(now, ago) => {
                let mut calls = facts.calls.iter();
                let state = (now.health.state, now.health.reason);
                let before = facts.agent.as_ref().map(|word| (word.state, word.reason));
                calls.any(|probe| was_answered(probe, *ago, now))
                    || before.is_some_and(|before| before != state)
            }
        }
    }

    /// Leaves out of the facts what holds no longer.
    pub(super) fn correct(&self, facts: &mut ProbeFacts) {
        match self {
            Self::NotAsked => {}
            Self::Says(now, ago) => {
                leave_out(facts, |probe| was_answered(probe, *ago, now));
                facts.unreachable_to_agent = unreachable(now);
                if facts.agent.is_some() {
                    let is_of_one = |probe: &Probe| probe.id.is_some();
                    facts
                        .calls
                        .retain(|probe| !probe.by_agent || waits(probe) && is_of_one(probe));
                    let word = word(now);
                    facts.calls.extend(word.calls);
                    facts.agent = Some(word.said);
                }
            }
            Self::Silent => {
                leave_out(facts, |probe| probe.by_agent);
                facts.agent = None;
            }
        }
    }
}

/// Leaves calls of the agent out, which the doctor has not made itself.
fn leave_out(facts: &mut ProbeFacts, is_over: impl Fn(&Probe) -> bool) {
    let over = facts.calls.iter().filter(|probe| is_over(probe));
    facts.unasked += over.filter(|probe| probe.id.is_some()).count();
    facts.calls.retain(|probe| !is_over(probe));
}

fn waits(probe: &Probe) -> bool {
    probe.by_agent && probe.end == End::Hung
}
