//! What was seen: the one value that health, readiness, the kubelet's view and the cache go
//! by. Nobody else defines *seen*.
//!
//! ```text
//!   a look (relist or sweep) --every pod inspected, failing or stuck--> Pass: as of when
//!                                                                        |
//!   who fails now, who is stuck now, what cannot be seen now ------> Coverage --> health
//! ```
//!
//! **A look counts only if somebody was seen by it**: one in which every pod failed or hung
//! has seen nothing, however complete it was.
//!
//! An [`Observer`](crate::Observer) is given each completed pass:
//!
//! ```
//! use pleg::Observer;
//! use pleg::model::snapshot::Counts;
//! use pleg::out::coverage::{Pass, PassKind};
//!
//! struct Sweeps;
//!
//! impl Observer for Sweeps {
//!     fn seen(&self, pass: &Pass, counts: Counts) {
//!         if pass.kind == PassKind::Sweep {
//!             println!("{} pods polled one by one in {:?}", counts.pods, pass.took);
//!         }
//!     }
//! }
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::model::id::{Id, PodRef};
use crate::model::wall_time::Moment;
use crate::out::failure::InspectError;
use crate::out::health::{Blind, INSPECTIONS_FAIL};
use crate::runtime::{CallError, OutstandingCall, Rpc};

/// How a look was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PassKind {
    /// With both lists.
    List,
    /// By id, in place of lists.
    Sweep,
}

impl PassKind {
    /// The name under which it is shown.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::List => "list",
            Self::Sweep => "sweep",
        }
    }
}

/// A look by which every pod that is known was inspected, or is named.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    /// When it was begun: what happened later may not have been seen.
    pub begun: Moment,
    /// How long it took, inspections included.
    pub took: Duration,
    /// How it was made.
    pub kind: PassKind,
}

/// A call about one pod that fails each time it is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failing {
    /// The container or sandbox.
    pub id: Id,
    /// Which call.
    pub call: Rpc,
    /// The container's name.
    pub container: Option<std::sync::Arc<str>>,
    /// The pod, where it is known.
    pub pod: Option<PodRef>,
    /// Why.
    pub error: InspectError,
    /// Since when.
    pub since: Instant,
    /// Since when its pod was not seen, which may be longer.
    pub unseen_since: Instant,
}

impl Failing {
    /// From when on the node is Degraded for it: what is tried again may be good the next time.
    pub fn counts_at(&self) -> Instant {
        match self.error.is_withheld() {
            true => self.since,
            false => self.unseen_since + INSPECTIONS_FAIL,
        }
    }
}

/// How it is with the lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Lists {
    /// They come.
    #[default]
    Good,
    /// One or both hang.
    Stuck,
    /// They came, and took so long; those that were asked for since are not in yet.
    Late(Duration),
    /// They come, and take so long each time.
    Slow(Duration),
    /// They fail.
    Failed(CallError),
    /// None is asked for: the runtime answers, and does not serve CRI.
    Unserved(CallError),
}

/// How it is with one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListState {
    /// It comes.
    #[default]
    Comes,
    /// It comes, and late each time.
    Slow,
    /// It hangs or fails, or did so when last heard of.
    Unavailable,
}

/// How the status calls are answered that nobody is to blame for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// In time.
    InTime,
    /// More pods wait for theirs than there is time for, until none has waited for long: they are
    /// counted, and not said to fail.
    TooSlow,
    /// One of them is late by itself.
    Late,
}

/// What was seen, and what was not.
#[derive(Clone, Debug)]
pub struct Coverage {
    /// When we began.
    pub started: Instant,
    /// The last look in which somebody was seen.
    pub look: Option<Pass>,
    /// The calls that hang: lists, and status calls while others are answered.
    pub stuck: Vec<OutstandingCall>,
    /// The calls about single pods that fail.
    pub failing: Vec<Failing>,
    /// How many pods are not inspected, because as many calls as may be outstanding hang.
    pub waiting_for_room: usize,
    /// How many other pods have no fresh status yet, although no call about them is stuck or
    /// fails any more.
    pub uninspected: usize,
    /// What cannot be seen at all.
    pub blind: Vec<Blind>,
    /// How it is with the lists.
    pub lists: Lists,
    /// How it is with the list of sandboxes.
    pub sandboxes: ListState,
    /// How it is with the list of containers.
    pub containers: ListState,
    /// When the last lists were asked for that a kubelet could have received.
    pub kubelet_listed: Option<Instant>,
    /// Whether a kubelet cannot list now.
    pub kubelet_cannot_list: bool,
    /// Since when calls hang that a kubelet makes in every relist, one for each pod.
    pub kubelet_waits: Vec<Instant>,
    /// How long a kubelet, which asks for one list after the other, would have waited for the
    /// last ones, and how much longer than we did.
    pub kubelet_lists_took: (Duration, Duration),
    /// Since when the runtime has answered nothing at all, where something was asked for
    /// long enough to tell.
    pub silent: Option<Instant>,
    /// How it is with the status calls.
    pub statuses: Statuses,
    /// During how many status calls the connection was lost whose answers are needed, and which are
    /// not in `failing`.
    pub lost: usize,
}

impl Coverage {
    /// Before anything was looked at.
    pub fn none(started: Instant) -> Self {
        Self {
            started,
            look: None,
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
            silent: None,
            statuses: Statuses::InTime,
            lost: 0,
        }
    }

    /// As of when what is known was seen.
    pub fn as_of(&self) -> Option<Moment> {
        self.look.map(|look| look.begun)
    }
}
