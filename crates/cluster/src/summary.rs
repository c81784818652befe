//! The status in a few typed words, which an annotation of the Node carries beside the condition:
//! a condition has a sentence, and whoever looks at a whole fleet wants names and times.

use pleg::model::id::Id;
use pleg::model::wall_time::WallTime;
use pleg::out::health::{HealthState, Reason, StuckCall};
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use serde::{Deserialize, Serialize};

/// The reason of a guard that has answered for as long as it may.
pub(crate) const LIMIT_REACHED: &str = "GuardLimitReached";

/// The annotation's name.
pub const ANNOTATION: &str = "pleg.dev/status";

/// How many culprits it names.
const MOST_NAMED: usize = 5;

/// No name in Kubernetes is longer.
const LONGEST_NAME: usize = 253;

/// What the annotation says, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// How we are.
    pub state: HealthState,
    /// Why.
    pub reason: Reason,
    /// Since when state and reason are as they are.
    pub since: WallTime,
    /// Whether a guard answers in place of the runtime now.
    #[serde(default)]
    pub guarding: bool,
    /// Whether it has for as long as it may.
    #[serde(default)]
    pub limit_reached: bool,
    /// What a diagnosis has found, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Whose calls hang, the longest first: at most five.
    #[serde(default)]
    pub culprits: Vec<Culprit>,
    /// How many more there are.
    #[serde(default)]
    pub more: usize,
}

/// A call that hangs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Culprit {
    /// CRI's method name.
    pub call: Rpc,
    /// The pod's namespace; `None` for a call for the whole node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The pod's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The container's name; `None` for a sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// The id of the container or sandbox.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<Id>,
}

impl Summary {
    /// Of this report.
    pub(crate) fn of(report: &StatusReport) -> Self {
        let mut stuck: Vec<_> = report.stuck.iter().collect();
        let of_guard = report.guard.culprits.iter();
        stuck.extend(of_guard.filter(|call| !report.stuck.iter().any(|it| it.id == call.id)));
        // Who is stuck is the culprit, and not the lists that wait for it.
        stuck.sort_by(|a, b| {
            let by_age = b.since_seconds.total_cmp(&a.since_seconds);
            a.id.is_none().cmp(&b.id.is_none()).then(by_age)
        });
        Self {
            state: report.health.state,
            reason: report.health.reason,
            since: report.health.since,
            guarding: report.guard.guarding,
            limit_reached: report.guard.limit_reached,
            cause: report.finding.as_ref().map(|finding| finding.cause.clone()),
            more: stuck.len().saturating_sub(MOST_NAMED),
            culprits: stuck
                .into_iter()
                .take(MOST_NAMED)
                .map(Culprit::of)
                .collect(),
        }
    }
}

impl Summary {
    /// The reason of the condition that it stands beside.
    pub(crate) fn condition_reason(&self) -> &'static str {
        match self.state {
            HealthState::Unhealthy => self.reason.as_str(),
            _ if self.limit_reached => LIMIT_REACHED,
            _ => self.reason.as_str(),
        }
    }
}

impl Culprit {
    fn of(call: &StuckCall) -> Self {
        let name = |name: &str| shortened(&escape::sentence(name), LONGEST_NAME);
        let pod = call.pod.as_ref();
        Self {
            call: call.call,
            namespace: pod.map(|pod| name(&pod.namespace)),
            pod: pod.map(|pod| name(&pod.name)),
            container: call.container.as_deref().map(name),
            id: call.id.as_ref().map(|id| name(id.as_str()).into()),
        }
    }
}

/// At most so many bytes.
pub(crate) fn shortened(text: &str, longest: usize) -> String {
    const CUT: &str = "…";
    if text.len() <= longest {
        return text.to_owned();
    }
    let mut end = longest - CUT.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{CUT}", &text[..end])
}
