//! Coverage: which pods are observed as of when, which are not, and why. Health, readiness, the
//! kubelet's view and the cache are read from this one value.
//!
//! ```text
//!   a relist or sweep --every pod inspected, failing or stuck--> Pass: as of when
//!                                                                 |
//!   failing and stuck calls, unseen parts ------------------> Coverage --> health
//! ```
//!
//! **A pass counts only if it observed a pod.** A pass in which the calls of every pod failed or were
//! stuck observed nothing.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::model::id::{Id, PodRef};
use crate::model::wall_time::Moment;
use crate::out::failure::InspectError;
use crate::out::health::{Blind, INSPECTIONS_FAIL};
use crate::runtime::{CallError, OutstandingCall, Rpc};

/// What kind of pass it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PassKind {
    /// A relist: with both lists.
    List,
    /// A sweep: by id, in place of lists.
    Sweep,
}

impl PassKind {
    /// The name in JSON and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Sweep => "sweep",
        }
    }
}

/// A relist or sweep in which every known pod was inspected, or is reported as failing or stuck.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// When the pass began: later changes may not have been observed.
    pub begun: Moment,
    /// How long the pass took, inspections included.
    pub took: Duration,
    /// Whether it was a relist or a sweep.
    pub kind: PassKind,
}

/// A call about one pod that fails each time it is sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The container or sandbox.
    pub id: Id,
    /// The method that fails.
    pub call: Rpc,
    /// The container's name.
    pub container: Option<Arc<str>>,
    /// The pod, where it is known.
    pub pod: Option<PodRef>,
    /// Why the call fails.
    pub error: InspectError,
    /// When the call began to fail.
    pub since: Instant,
    /// When the pod became unobserved, which may have been earlier.
    pub unobserved_since: Instant,
}

impl Failing {
    /// When the node becomes Degraded because of this call: at once if the call is withheld or its
    /// container is not listed; later in all other cases, because the call may succeed the next time.
    pub fn counts_at(&self) -> Instant {
        match self.error.is_withheld() || self.error.is_unlisted() {
            true => self.since,
            false => self.unobserved_since + INSPECTIONS_FAIL,
        }
    }
}

/// The state of both lists together.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// Both lists are answered in time.
    #[default]
    Good,
    /// One or both lists are stuck.
    Stuck,
    /// The last lists were slow and took this long; the lists that were requested since are
    /// outstanding.
    Late(Duration),
    /// The lists are answered, and take this long each time.
    Slow(Duration),
    /// The lists fail.
    Failed(CallError),
    /// Neither is requested, because the runtime answers that it does not serve CRI.
    Unserved(CallError),
}

/// The state of one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListState {
    /// The list is answered.
    #[default]
    Comes,
    /// The list is answered, but slowly each time.
    Slow,
    /// The list is stuck or fails, or did so when it was last requested.
    Unavailable,
}

/// How quickly status calls are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// Status calls are answered in time.
    InTime,
    /// The runtime is too slow for the number of pods that wait. They are counted, but not reported as
    /// failing.
    TooSlow,
    /// A status call is overdue.
    Late,
}

/// What is observed, and what is not.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// When the engine started.
    pub started: Instant,
    /// The last pass that observed a pod.
    pub last_pass: Option<Pass>,
    /// The stuck calls: lists, and status calls while others are answered.
    pub stuck: Vec<OutstandingCall>,
    /// The failing calls about single pods.
    pub failing: Vec<Failing>,
    /// How many pods are not inspected because no more calls may be outstanding.
    pub waiting_for_room: usize,
    /// How many other pods have no fresh status yet, although no call about them is stuck or failing.
    pub uninspected: usize,
    /// The unseen parts.
    pub blind: Vec<Blind>,
    /// The state of both lists together.
    pub lists: Lists,
    /// The state of the list of sandboxes.
    pub sandboxes: ListState,
    /// The state of the list of containers.
    pub containers: ListState,
    /// When the newest lists that a kubelet could have received were requested.
    pub kubelet_listed: Option<Instant>,
    /// Whether a kubelet cannot list now.
    pub kubelet_cannot_list: bool,
    /// For each pod with stuck calls that a kubelet sends too: when the first of them was sent.
    pub kubelet_waits: Vec<Instant>,
    /// How long a kubelet, which requests one list after the other, would have waited for the last
    /// lists, and how much longer that is than this process waited.
    pub kubelet_lists_took: (Duration, Duration),
    /// When the runtime became unresponsive, if it is.
    pub unresponsive_since: Option<Instant>,
    /// How quickly status calls are answered.
    pub statuses: Statuses,
    /// How many needed status calls were outstanding when the connection was lost, beside those in
    /// `failing`.
    pub lost: usize,
}

impl Coverage {
    /// The coverage before the first pass.
    pub fn none(started: Instant) -> Self {
        Self {
            started,
            last_pass: None,
            stuck: Vec::new(),
            failing: Vec::new(),
            waiting_for_room: 0,
            uninspected: 0,
            blind: Vec::new(),
            lists: Lists::Good,
            sandboxes: ListState::Comes,
            containers: ListState::Comes,
            kubelet_listed: None,
            kubelet_cannot_list: false,
            kubelet_waits: Vec::new(),
            kubelet_lists_took: (Duration::ZERO, Duration::ZERO),
            unresponsive_since: None,
            statuses: Statuses::InTime,
            lost: 0,
        }
    }

    /// The time as of which the known pods are observed.
    pub fn as_of(&self) -> Option<Moment> {
        self.last_pass.map(|pass| pass.begun)
    }
}
