//! The status as typed fields, in an annotation of the Node beside the condition: a condition has
//! only a sentence, but a view of a whole fleet needs names and times.

use pleg::model::id::Id;
use pleg::model::wall_time::WallTime;
use pleg::out::health::{HealthState, Reason, StuckCall};
use pleg::out::status_report::StatusReport;
use pleg::runtime::Rpc;
use serde::{Deserialize, Serialize};

/// The reason of a guard that has reached its limit.
pub(crate) const LIMIT_REACHED: &str = "GuardLimitReached";

/// The annotation's name.
pub const ANNOTATION: &str = "pleg.dev/status";

/// The maximum number of culprits.
const MAX_CULPRITS: usize = 5;

/// The maximum length of a name in Kubernetes.
const MAX_NAME_BYTES: usize = 253;

/// The content of the annotation, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The state of health.
    pub state: HealthState,
    /// The reason.
    pub reason: Reason,
    /// When the state or the reason last changed.
    pub since: WallTime,
    /// Whether a guard answers in place of the runtime now.
    #[serde(default)]
    pub guarding: bool,
    /// Whether the guard has reached its limit.
    #[serde(default)]
    pub limit_reached: bool,
    /// The cause that a diagnosis has found, by its id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// At most five culprits: those with an id first, then those whose calls have been outstanding
    /// longest.
    #[serde(default)]
    pub culprits: Vec<Culprit>,
    /// The number of further culprits.
    #[serde(default)]
    pub more: usize,
}

/// A culprit, with its call that hangs.
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
    /// The summary of this report.
    pub(crate) fn of(report: &StatusReport) -> Self {
        let mut stuck: Vec<_> = report.stuck.iter().collect();
        let of_guard = report.guard.culprits.iter();
        stuck.extend(of_guard.filter(|call| !report.stuck.iter().any(|it| it.id == call.id)));
        // A call for a container precedes the lists that hang because of it.
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
            more: stuck.len().saturating_sub(MAX_CULPRITS),
            culprits: stuck
                .into_iter()
                .take(MAX_CULPRITS)
                .map(Culprit::of)
                .collect(),
        }
    }

    /// The reason of the condition that is written with this summary.
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
        let name = |name: &str| shortened(&pleg_text::escape::sentence(name), MAX_NAME_BYTES);
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

/// The text, shortened to at most `max_bytes` bytes.
pub(crate) fn shortened(text: &str, max_bytes: usize) -> String {
    const ELLIPSIS: &str = "…";
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let mut end = max_bytes - ELLIPSIS.len();
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{ELLIPSIS}", &text[..end])
}
