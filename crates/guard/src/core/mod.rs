//! Decides what the guard does with each call, and when. It is pure: no clock, no IO.
//!
//! ```text
//!   a caller --Called--> lists      passed on, or answered from the rows
//!                        reads      passed on and shared; a circuit breaker for each id
//!                        mutations  passed on; completed, or refused while an earlier one is overdue
//!                        node_calls passed on, or answered with the last answer of the same process
//!                        stats      passed on, or collected by id
//!                           |                 ^
//!                           v a call          | an answer
//!                         the runtime ------> rows: the known state of each id
//!                           ^                 ids:  whether every id is known
//!                           |                 |
//!                        prober: requests     v
//!                        the status of each   known: the rows that may be in an answer
//!                        id while a list        |--> lists, and shadow: compares the answer that
//!                        is overdue             |            the guard would have given
//!                                               \--> phase: how lists are handled now
//! ```
//!
//! **The guard never reports a state that could mislead a kubelet.** A list is answered from the rows
//! only if three conditions hold. The rows began with a complete list. Every answer that changes
//! something was applied before it was passed on. Each id was confirmed by a status since the list was
//! requested, or within the second before. An id whose status is stuck keeps the state that the runtime
//! reported last.
//!
//! ```
//! use bytes::Bytes;
//! use cri::Rpc;
//! use guard::core::{Action, CallId, Caller, Guard, Input, Mode, Settings};
//! use tokio::time::Instant;
//!
//! let now = Instant::now();
//! let mut guard = Guard::new(Settings::default(), Mode::Guard, now, 1_700_000_000_000_000_000);
//! let called = Input::Called {
//!     call: CallId(1),
//!     rpc: Rpc::ListContainers,
//!     request: Bytes::new(),
//!     from: Caller::Client,
//!     deadline: None,
//! };
//! let actions = guard.step(called, now);
//! let mut actions = actions.iter();
//! assert!(actions.any(|action| matches!(action, Action::Pass(_, CallId(1)))));
//! ```

mod answers;
mod figures;
mod ids;
mod known;
mod lists;
mod mutations;
mod node_calls;
mod phase;
mod prober;
mod reads;
mod rows;
mod saved;
mod settings;
mod shadow;
mod stats;
mod turn;
mod usual;

use std::collections::BTreeMap;

use base::id::Id;
use base::ledger::Key;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use crate::wire::Kind;
use crate::wire::filter::Filter;
use crate::wire::request::{Mutation, Target, id_of};
use figures::count;
use ids::Ids;
use lists::Lists;
use mutations::Mutations;
use node_calls::NodeCalls;
use prober::Prober;
use reads::{Reader, Reads};
use rows::Rows;
use saved::Saved;
use shadow::Shadow;
use stats::Stats;

pub use answers::{Failure, Reply};
pub use figures::Figures;
pub use settings::Settings;
pub use shadow::{Difference, Differences};
pub use turn::{
    Action, CallId, Caller, HostIds, Input, Mode, Outcome, Phase, RuntimeCallId, is_intercepted,
};

/// The purpose of an outstanding call to the runtime.
#[derive(Clone, Debug)]
enum Purpose {
    /// A list, for a caller or for the guard itself.
    List(Kind),
    /// The status of one id, for callers or for the guard itself.
    Read(Kind, Id),
    Mutation,
    NodeCall(Rpc),
    /// A list of statistics.
    StatsList,
    /// The statistics of one id.
    Stats(Kind, Id),
    /// `RestorePod`, passed on: it creates a sandbox with its containers.
    Restore(CallId),
    /// Any other call that is passed on.
    Other(CallId),
}

impl Purpose {
    /// The key under which the ledger tracks the call. The ledger tracks only calls that read.
    fn key(&self) -> Option<Key> {
        match self {
            Self::List(kind) => Some((kind.list(), None)),
            Self::Read(kind, id) => Some((kind.status(), Some(id.clone()))),
            Self::NodeCall(rpc) => Some((*rpc, None)),
            Self::Mutation
            | Self::StatsList
            | Self::Stats(..)
            | Self::Restore(_)
            | Self::Other(_) => None,
        }
    }

    /// Whether this is the key under which the ledger would track the call.
    fn has_key(&self, (call, id): &Key) -> bool {
        match self {
            Self::List(kind) => kind.list() == *call,
            Self::Read(kind, of) => kind.status() == *call && Some(of) == id.as_ref(),
            Self::NodeCall(rpc) => rpc == call,
            Self::Mutation
            | Self::StatsList
            | Self::Stats(..)
            | Self::Restore(_)
            | Self::Other(_) => false,
        }
    }
}

/// A call that the runtime has not answered yet.
#[derive(Clone, Debug)]
struct Outstanding {
    purpose: Purpose,
    requested: Instant,
    /// The key, if the ledger tracks this call. Of the calls with one key it tracks one.
    tracked: Option<Key>,
}

/// The state of the guard: what is known of the runtime, and the outstanding calls.
#[derive(Clone, Debug)]
pub struct Guard {
    settings: Settings,
    mode: Mode,
    sandboxes: Rows,
    containers: Rows,
    lists: [Lists; 2],
    shadows: [Shadow; 2],
    reads: Reads,
    mutations: Mutations,
    node_calls: NodeCalls,
    stats: Stats,
    ids: Ids,
    prober: Prober,
    runtime_calls: BTreeMap<RuntimeCallId, Outstanding>,
    last_runtime_call: u64,
    figures: Figures,
    saved: Option<Saved>,
    started: (Instant, i64),
    actions: Vec<Action>,
}

impl Guard {
    /// A guard that knows nothing of the runtime. It passes calls on until it knows enough.
    /// `unix_nanos` is the wall-clock time at `now`, in nanoseconds since 1970.
    pub fn new(settings: Settings, mode: Mode, now: Instant, unix_nanos: i64) -> Self {
        Self {
            mode,
            sandboxes: Rows::new(Kind::Sandbox),
            containers: Rows::new(Kind::Container),
            lists: [Lists::new(), Lists::new()],
            shadows: [Shadow::new(now), Shadow::new(now)],
            reads: Reads::default(),
            mutations: Mutations::default(),
            node_calls: NodeCalls::default(),
            stats: Stats::default(),
            ids: Ids::new(now),
            prober: Prober::new(now),
            runtime_calls: BTreeMap::new(),
            last_runtime_call: 0,
            figures: Figures::default(),
            saved: None,
            started: (now, unix_nanos),
            actions: Vec::new(),
            settings,
        }
    }

    /// Handles one event, and returns the actions to perform, in this order.
    pub fn step(&mut self, input: Input, now: Instant) -> Vec<Action> {
        match input {
            Input::Called {
                call,
                rpc,
                request,
                from,
                deadline,
            } => self.on_called(call, rpc, request, from, deadline, now),
            Input::Abandoned(call) => self.on_abandoned(call, now),
            Input::Answered(runtime_call, outcome) => self.on_answered(runtime_call, &outcome, now),
            Input::HostIds(ids) => {
                let rows = [&self.sandboxes, &self.containers];
                self.ids.on_host_ids(ids, rows, now);
            }
            Input::Hint(id) => self.on_id_named(&id, now),
            Input::Disconnected => self.on_disconnected(now),
            Input::Mode(mode) => self.on_mode(mode, now),
            Input::Time => {}
        }
        self.advance(now);
        std::mem::take(&mut self.actions)
    }

    /// The current mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The counters.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    fn unix_nanos(&self, now: Instant) -> i64 {
        let (started, at) = self.started;
        at + now.saturating_duration_since(started).as_nanos() as i64
    }

    /// Whether the guard may answer calls in place of the runtime.
    fn is_active(&self) -> bool {
        self.mode == Mode::Guard && !self.is_limit_reached()
    }

    /// Whether the guard may answer this caller in place of the runtime.
    fn may_answer(&self, from: Caller) -> bool {
        self.is_active() && from == Caller::Client
    }

    fn rows(&self, kind: Kind) -> &Rows {
        match kind {
            Kind::Sandbox => &self.sandboxes,
            Kind::Container => &self.containers,
        }
    }

    fn rows_mut(&mut self, kind: Kind) -> &mut Rows {
        match kind {
            Kind::Sandbox => &mut self.sandboxes,
            Kind::Container => &mut self.containers,
        }
    }

    fn on_called(
        &mut self,
        call: CallId,
        rpc: Rpc,
        request: Bytes,
        from: Caller,
        deadline: Option<Instant>,
        now: Instant,
    ) {
        if let Some(kind) = list_of(rpc).filter(|_| from == Caller::Client) {
            self.lists[kind as usize].served.requested = Some(now);
        }
        if let Some(kind) = list_of(rpc)
            && let Some(filter) = Filter::read(kind, &request)
        {
            let call = lists::Called {
                call,
                rpc,
                filter,
                requested: now,
                from,
            };
            return self.on_list_called(kind, call, now);
        }
        if let Some(kind) = status_of(rpc)
            && let Some(id) = id_of(&request)
        {
            let reader = Reader {
                call,
                from,
                request,
                until: deadline,
            };
            return self.on_read_called(kind, id, reader, now);
        }
        if matches!(rpc, Rpc::Version | Rpc::RuntimeConfig) {
            return self.on_node_called(rpc, call, from, now);
        }
        if is_stats_list(rpc) {
            return self.on_stats_called(rpc, request, call, from, deadline, now);
        }
        if let Some(mutation) = Mutation::read(rpc, &request) {
            return self.on_mutation_called(rpc, mutation, call, from, now);
        }
        let purpose = match rpc {
            Rpc::RestorePod => Purpose::Restore(call),
            _ => Purpose::Other(call),
        };
        self.pass_on(purpose, call, now);
    }

    /// Passes a caller's call on to the runtime.
    fn pass_on(&mut self, purpose: Purpose, call: CallId, now: Instant) -> RuntimeCallId {
        let runtime_call = self.next_runtime_call(purpose, now);
        self.actions.push(Action::Pass(runtime_call, call));
        runtime_call
    }

    /// Sends a call of the guard's own to the runtime.
    fn call_runtime(
        &mut self,
        purpose: Purpose,
        rpc: Rpc,
        request: Bytes,
        now: Instant,
    ) -> RuntimeCallId {
        let runtime_call = self.next_runtime_call(purpose, now);
        self.actions.push(Action::Call(runtime_call, rpc, request));
        runtime_call
    }

    fn next_runtime_call(&mut self, purpose: Purpose, now: Instant) -> RuntimeCallId {
        self.last_runtime_call += 1;
        let runtime_call = RuntimeCallId(self.last_runtime_call);
        let outstanding = Outstanding {
            tracked: purpose.key().filter(|key| self.prober.begin(key, now)),
            purpose,
            requested: now,
        };
        self.runtime_calls.insert(runtime_call, outstanding);
        runtime_call
    }

    fn cancel(&mut self, runtime_call: RuntimeCallId, now: Instant) {
        if let Some(outstanding) = self.runtime_calls.remove(&runtime_call) {
            if let Some(key) = outstanding.tracked {
                self.prober.ledger.lost(&key);
                self.track_next(&key, now);
            }
            self.actions.push(Action::Cancel(runtime_call));
        }
    }

    /// The call that the ledger tracked under this key has ended. The ledger continues with the oldest
    /// one that is still outstanding, which may be stuck.
    fn track_next(&mut self, key: &Key, now: Instant) {
        let mut outstanding = self.runtime_calls.values_mut();
        let other = outstanding.find(|it| it.tracked.is_none() && it.purpose.has_key(key));
        if let Some(other) = other {
            other.tracked = Some(key.clone());
            let about = prober::about(key);
            self.prober.ledger.take_over(about, other.requested, now);
        }
    }

    fn reply(&mut self, call: CallId, rpc: Rpc, reply: Reply) {
        match reply {
            Reply::Message(_) => count(&mut self.figures.answered, rpc),
            Reply::Failed(_) => count(&mut self.figures.given_up, rpc),
        }
        self.actions.push(Action::Reply(call, reply));
    }

    fn on_abandoned(&mut self, call: CallId, now: Instant) {
        for kind in [Kind::Sandbox, Kind::Container] {
            if let Some(runtime_call) =
                self.lists[kind as usize].abandoned(call, &self.settings, now)
            {
                self.cancel(runtime_call, now);
            }
        }
        let unneeded = self.reads.abandoned(call);
        if let Some(runtime_call) = unneeded.or_else(|| self.node_calls.abandoned(call)) {
            self.cancel(runtime_call, now);
        }
        if let Some(runtime_call) = self.stats.abandoned(call, now) {
            self.cancel(runtime_call, now);
        }
        if let Some((runtime_call, mutation)) = self.mutations.abandoned(call) {
            self.cancel(runtime_call, now);
            self.on_unknown_end(&mutation, now);
        }
        let is_of_call = |it: &Outstanding| match it.purpose {
            Purpose::Other(of) | Purpose::Restore(of) => of == call,
            _ => false,
        };
        let other = self.runtime_calls.iter().find(|(_, it)| is_of_call(it));
        if let Some((&runtime_call, it)) = other {
            if let Purpose::Restore(_) = it.purpose {
                self.on_restored(now);
            }
            self.cancel(runtime_call, now);
        }
    }

    /// A pod was restored, or may have been. Only a list shows which containers it has.
    fn on_restored(&mut self, now: Instant) {
        for kind in [Kind::Sandbox, Kind::Container] {
            self.ids.may_have_missed(kind, now);
        }
    }

    /// A mutation was cancelled by its caller, or its connection was lost: it may be done or not.
    fn on_unknown_end(&mut self, mutation: &Mutation, now: Instant) {
        match &mutation.target {
            Target::NewSandbox { .. } => self.ids.may_have_missed(Kind::Sandbox, now),
            Target::NewContainer { .. } => self.ids.may_have_missed(Kind::Container, now),
            Target::Existing(_, id) if mutation.starts => self.containers.started(id, now),
            Target::Existing(kind, id) => self.rows_mut(*kind).changed(id, now),
        }
    }

    /// An event or a call named this id.
    fn on_id_named(&mut self, id: &Id, now: Instant) {
        let rows = [&self.sandboxes, &self.containers];
        self.ids.on_id_named(id, rows, now);
    }

    /// The next connection may be to another runtime process, with other sandboxes and containers.
    fn on_disconnected(&mut self, now: Instant) {
        self.node_calls.forget();
        for kind in [Kind::Sandbox, Kind::Container] {
            self.ids.may_have_missed(kind, now);
            self.lists[kind as usize].forget_fault();
        }
    }

    fn on_mode(&mut self, mode: Mode, now: Instant) {
        for kind in [Kind::Sandbox, Kind::Container] {
            let shadow = &mut self.shadows[kind as usize];
            if !shadow.is_idle() {
                // The lists of this rehearsal were not applied to the rows.
                self.ids.may_have_missed(kind, now);
            }
            if mode != self.mode {
                *shadow = Shadow::new(now);
            }
        }
        self.mode = mode;
    }

    fn on_answered(&mut self, runtime_call: RuntimeCallId, outcome: &Outcome, now: Instant) {
        let Some(outstanding) = self.runtime_calls.remove(&runtime_call) else {
            return;
        };
        if let Some(key) = outstanding.tracked {
            self.prober.ended(&key, outcome, now);
            self.track_next(&key, now);
        }
        if let Outcome::Lost = outcome {
            self.node_calls.forget();
        }
        let interval = (outstanding.requested, now);
        match outstanding.purpose {
            Purpose::List(kind) => self.on_list_answered(kind, runtime_call, outcome, interval),
            Purpose::Read(..) => self.on_read_answered(runtime_call, outcome, interval),
            Purpose::Mutation => self.on_mutation_answered(runtime_call, outcome, interval),
            Purpose::NodeCall(_) => self.on_node_answered(runtime_call, outcome),
            Purpose::StatsList => self.on_stats_listed(runtime_call, outcome, interval),
            Purpose::Stats(kind, id) => self.on_stats_answered(kind, &id, outcome),
            Purpose::Restore(call) => {
                self.on_restored(now);
                self.actions.push(Action::Relay(runtime_call, call));
            }
            Purpose::Other(call) => self.actions.push(Action::Relay(runtime_call, call)),
        }
    }

    /// Performs what is due at `now`.
    fn advance(&mut self, now: Instant) {
        self.prober.ledger.pass(now);
        self.advance_reads(now);
        self.advance_node_calls(now);
        for kind in [Kind::Sandbox, Kind::Container] {
            self.advance_list(kind, now);
        }
        self.probe(now);
        self.advance_mutations(now);
        self.advance_stats(now);
        for kind in [Kind::Sandbox, Kind::Container] {
            self.answer_lists(kind, now);
            self.advance_shadow(kind, now);
        }
    }

    /// When to call [`Self::step`] with [`Input::Time`], if nothing happens before.
    pub fn alarm(&self, now: Instant) -> Option<Instant> {
        let lists = self.lists.iter();
        let lists = lists.filter_map(|lists| lists.alarm(&self.settings, now));
        lists
            .chain(self.reads.alarm(&self.settings, now))
            .chain(self.node_calls.alarm(now))
            .chain(self.mutations.alarm(now))
            .chain(self.stats.alarm(now))
            .chain(self.prober.alarm(now))
            .chain(self.ids.alarm(self.prober.ledger.has_room()))
            .chain(self.shadows.iter().filter_map(Shadow::alarm))
            .filter(|time| *time > now)
            .min()
    }
}

/// The kind that this method lists, if it is a list.
fn list_of(rpc: Rpc) -> Option<Kind> {
    match rpc {
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => Some(Kind::Sandbox),
        Rpc::ListContainers | Rpc::StreamContainers => Some(Kind::Container),
        _ => None,
    }
}

/// Whether a kubelet uses this call to decide which pods to evict.
fn is_stats_list(rpc: Rpc) -> bool {
    matches!(
        rpc,
        Rpc::ListContainerStats
            | Rpc::StreamContainerStats
            | Rpc::ListPodSandboxStats
            | Rpc::StreamPodSandboxStats
            | Rpc::ListPodSandboxMetrics
            | Rpc::StreamPodSandboxMetrics
            | Rpc::ImageFsInfo
    )
}

fn status_of(rpc: Rpc) -> Option<Kind> {
    match rpc {
        Rpc::PodSandboxStatus => Some(Kind::Sandbox),
        Rpc::ContainerStatus => Some(Kind::Container),
        _ => None,
    }
}
