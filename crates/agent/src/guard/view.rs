//! What a guard reported about itself, in this process's time and types.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base::{About, OutstandingCall};
use cri::Endpoint;
use guard_api::{Added, Status};
use pleg::model::id::PodRef;
use pleg::out::status_report::{Difference, GuardMode};
use pleg::runtime::Rpc;
use tokio::time::Instant;

/// The state of a guard, as it was last reported.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct View {
    /// When the guard started, in nanoseconds since 1970. This and `revision` order the states of
    /// guards.
    pub(super) started: u64,
    pub(super) revision: u64,
    pub(super) mode: GuardMode,
    pub(super) runtime: String,
    pub(super) socket: String,
    pub(super) phase: Phase,
    pub(super) stuck: Vec<OutstandingCall>,
    /// When a client last received both lists.
    pub(super) listed: Option<Instant>,
    /// When a client last requested both lists.
    pub(super) asked: Option<Instant>,
    /// When a client last requested both lists or, if none has, when the guard started.
    pub(super) idle: Instant,
    pub(super) answers: BTreeMap<Rpc, u64>,
    pub(super) given_up: BTreeMap<Rpc, u64>,
    pub(super) completed: BTreeMap<Rpc, u64>,
    pub(super) refused: BTreeMap<Rpc, u64>,
    pub(super) differences: u64,
    pub(super) compared: u64,
    pub(super) last_differences: Vec<Difference>,
    pub(super) added: Added,
}

/// What a guard does for lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Lists are passed to the runtime.
    Passing,
    /// Lists are overdue, and the guard has neither answered one nor given up since.
    Waiting { since: Instant },
    /// Lists are answered in place of the runtime.
    Guarding { since: Instant },
    /// Lists are overdue, and so is every other call.
    Silent { since: Instant },
    /// Lists are overdue, and the guard could not answer the last one.
    Refusing { since: Instant },
    /// Lists are passed to the runtime although they are overdue: the guard has reached its limit.
    LimitReached,
}

impl View {
    /// What a guard answered at `now`; `None` if its mode or phase is not known here.
    pub(super) fn of(status: Status, now: Instant) -> Option<Self> {
        let ago = |seconds: f64| {
            let ago = Duration::try_from_secs_f64(seconds).unwrap_or_default();
            now.checked_sub(ago).unwrap_or(now)
        };
        let since = ago(status.phase_seconds);
        let phase = match guard_api::Phase::try_from(status.phase).ok()? {
            guard_api::Phase::Passing => Phase::Passing,
            guard_api::Phase::Waiting => Phase::Waiting { since },
            guard_api::Phase::Guarding => Phase::Guarding { since },
            guard_api::Phase::Silent => Phase::Silent { since },
            guard_api::Phase::Refusing => Phase::Refusing { since },
            guard_api::Phase::LimitReached => Phase::LimitReached,
        };
        let mode = match guard_api::Mode::try_from(status.mode).ok()? {
            guard_api::Mode::Guard => GuardMode::Guard,
            guard_api::Mode::Shadow => GuardMode::Shadow,
            guard_api::Mode::Pass => GuardMode::Pass,
            guard_api::Mode::Unspecified => return None,
        };
        let stuck = status.stuck.into_iter();
        let differences = status.last_differences.into_iter();
        Some(Self {
            started: status.started,
            revision: status.revision,
            mode,
            runtime: status.runtime,
            socket: Endpoint::new(status.socket).to_string(),
            phase,
            stuck: stuck.filter_map(|call| outstanding(call, ago)).collect(),
            listed: status.listed_seconds.map(ago),
            asked: status.asked_seconds.map(ago),
            idle: ago(status.asked_seconds.unwrap_or(status.running_seconds)),
            answers: counts(&status.answered),
            given_up: counts(&status.given_up),
            completed: counts(&status.completed),
            refused: counts(&status.refused),
            differences: status.differences,
            compared: status.compared,
            last_differences: differences.filter_map(difference).collect(),
            added: status.added.unwrap_or_default(),
        })
    }

    /// Whether the guard is in front of the runtime that listens on this socket.
    ///
    /// The paths may differ: `/var/run` is `/run` on most systems.
    pub(super) fn guards(&self, runtime: &Path) -> bool {
        let guarded = Path::new(&self.runtime);
        let real = |path: &Path| path.canonicalize().ok();
        guarded == runtime || real(guarded).is_some_and(|path| real(runtime) == Some(path))
    }

    /// Whether this state replaces the known one: answers may arrive in any order.
    pub(super) fn is_newer_than(&self, known: &Self) -> bool {
        self.started != known.started || self.revision >= known.revision
    }
}

fn outstanding(
    call: guard_api::StuckCall,
    ago: impl Fn(f64) -> Instant,
) -> Option<OutstandingCall> {
    let about = About {
        id: Some(call.id.into()),
        container: call.container.map(Into::into),
        pod: call.pod.map(|pod| PodRef {
            uid: pod.uid.into(),
            namespace: pod.namespace.into(),
            name: pod.name.into(),
        }),
        ..About::node(call.method.parse().ok()?)
    };
    let since = ago(call.seconds);
    Some(OutstandingCall { about, since })
}

/// Counts by method, without the methods that are unknown here.
fn counts(of: &BTreeMap<String, u64>) -> BTreeMap<Rpc, u64> {
    let known = of.iter();
    known
        .filter_map(|(method, count)| Some((method.parse().ok()?, *count)))
        .collect()
}

fn difference(of: guard_api::Difference) -> Option<Difference> {
    Some(Difference {
        list: of.method.parse().ok()?,
        id: of.id.into(),
        shown: of.shown,
        listed: [of.before, of.after],
    })
}
