//! What the guard does with each call, and when: pure, without a clock and without IO.
//!
//! ```text
//!   a caller --Called--> lists      pass, or answered from the rows
//!                        reads      pass, joined; a breaker for each id
//!                        mutations  pass; proved to be done, or refused while one is overdue
//!                        node_calls pass; the last answer of the same process
//!                        stats      pass; collected by id
//!                           |                 ^
//!                           v Ask             | Answered
//!                         the runtime ------> rows: what is known of every id
//!                           ^                 ids:  whether every id is known
//!                           |                 |
//!                        prober: asks for     v
//!                        each id while a      known: what may be told of them
//!                        list is overdue        |--> lists, and shadow: compares what would be
//!                                               |            answered, where nothing is
//!                                               \--> phase: what is done for lists now
//! ```
//!
//! **Never a dangerous lie.** A list is answered from the rows only when these began with a
//! complete list, every answer that changes something was applied before it went out, and each
//! id was confirmed by a status since the list was asked for, or within the second before. An
//! id whose status hangs while others are answered keeps the state that the runtime told last.
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
    Action, AskId, CallId, Caller, HostIds, Input, Mode, Outcome, Phase, is_intercepted,
};

/// What an outstanding call to the runtime is for.
#[derive(Clone, Debug)]
enum Purpose {
    /// A list, passed on or our own.
    List(Kind),
    /// The status of one id, the same.
    Read(Kind, Id),
    Mutation,
    NodeCall(Rpc),
    /// A list of statistics.
    StatsList,
    /// The statistics of one id.
    Stats(Kind, Id),
    /// A call that passes, and makes a sandbox with its containers.
    Restore(CallId),
    /// A call that passes, whatever it is.
    Other(CallId),
}

impl Purpose {
    /// By what the ledger knows it: only of what reads it is told.
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

    /// Whether the ledger would know it by this key.
    fn is_governed_by(&self, (call, id): &Key) -> bool {
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
    asked: Instant,
    /// The ledger counts it. Of those with one key it knows one.
    governed: Option<Key>,
}

/// All that is known, and all that goes on.
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
    asks: BTreeMap<AskId, Outstanding>,
    last_ask: u64,
    figures: Figures,
    saved: Option<Saved>,
    started: (Instant, i64),
    actions: Vec<Action>,
}

impl Guard {
    /// Knows nothing yet, and passes everything until it does. `unix_nanos` is the time of day
    /// at `now`.
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
            asks: BTreeMap::new(),
            last_ask: 0,
            figures: Figures::default(),
            saved: None,
            started: (now, unix_nanos),
            actions: Vec::new(),
            settings,
        }
    }

    /// One turn: takes in what has happened, and gives what is to be done.
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
            Input::Answered(ask, outcome) => self.on_answered(ask, &outcome, now),
            Input::HostIds(ids) => {
                let rows = [&self.sandboxes, &self.containers];
                self.ids.on_host_ids(ids, rows, now);
            }
            Input::Announced(id) => self.on_met(&id, now),
            Input::Disconnected => self.on_disconnected(now),
            Input::Mode(mode) => self.on_mode(mode, now),
            Input::Time => {}
        }
        self.pass(now);
        std::mem::take(&mut self.actions)
    }

    /// What it does.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// How often what was done.
    pub fn figures(&self) -> &Figures {
        &self.figures
    }

    fn unix_nanos(&self, now: Instant) -> i64 {
        let (started, at) = self.started;
        at + now.saturating_duration_since(started).as_nanos() as i64
    }

    /// Whether anything is done in the runtime's place.
    fn acts(&self) -> bool {
        self.mode == Mode::Guard && !self.is_given_up()
    }

    /// Whether this caller may be answered in the runtime's place.
    fn answers(&self, from: Caller) -> bool {
        self.acts() && from == Caller::Client
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
            self.lists[kind as usize].told.asked = Some(now);
        }
        if let Some(kind) = list_of(rpc)
            && let Some(filter) = Filter::read(kind, &request)
        {
            let call = lists::Called {
                call,
                rpc,
                filter,
                asked: now,
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

    /// Passes a call on to the runtime.
    fn pass_on(&mut self, purpose: Purpose, call: CallId, now: Instant) -> AskId {
        let ask = self.next_ask(purpose, now);
        self.actions.push(Action::Pass(ask, call));
        ask
    }

    /// Asks the runtime something ourselves.
    fn ask(&mut self, purpose: Purpose, rpc: Rpc, request: Bytes, now: Instant) -> AskId {
        let ask = self.next_ask(purpose, now);
        self.actions.push(Action::Ask(ask, rpc, request));
        ask
    }

    fn next_ask(&mut self, purpose: Purpose, now: Instant) -> AskId {
        self.last_ask += 1;
        let ask = AskId(self.last_ask);
        let outstanding = Outstanding {
            governed: purpose.key().filter(|key| self.prober.begin(key, now)),
            purpose,
            asked: now,
        };
        self.asks.insert(ask, outstanding);
        ask
    }

    fn cancel(&mut self, ask: AskId, now: Instant) {
        if let Some(outstanding) = self.asks.remove(&ask) {
            if let Some(key) = outstanding.governed {
                self.prober.ledger.lost(&key);
                self.hand_on(&key, now);
            }
            self.actions.push(Action::Cancel(ask));
        }
    }

    /// A call that the ledger knew by this key has ended: it goes on with the oldest one that is
    /// still outstanding, which may be stuck.
    fn hand_on(&mut self, key: &Key, now: Instant) {
        let mut asks = self.asks.values_mut();
        let other = asks.find(|it| it.governed.is_none() && it.purpose.is_governed_by(key));
        if let Some(other) = other {
            other.governed = Some(key.clone());
            let about = prober::about(key);
            self.prober.ledger.take_over(about, other.asked, now);
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
            if let Some(ask) = self.lists[kind as usize].abandoned(call, &self.settings, now) {
                self.cancel(ask, now);
            }
        }
        let unwanted = self.reads.abandoned(call);
        if let Some(ask) = unwanted.or_else(|| self.node_calls.abandoned(call)) {
            self.cancel(ask, now);
        }
        if let Some(ask) = self.stats.abandoned(call, now) {
            self.cancel(ask, now);
        }
        if let Some((ask, mutation)) = self.mutations.abandoned(call) {
            self.cancel(ask, now);
            self.on_unknown_end(&mutation, now);
        }
        let is_its = |it: &Outstanding| match it.purpose {
            Purpose::Other(of) | Purpose::Restore(of) => of == call,
            _ => false,
        };
        let other = self.asks.iter().find(|(_, it)| is_its(it));
        if let Some((&ask, it)) = other {
            if let Purpose::Restore(_) = it.purpose {
                self.on_restored(now);
            }
            self.cancel(ask, now);
        }
    }

    /// A pod was restored, or may have been: which containers it has only the runtime knows.
    fn on_restored(&mut self, now: Instant) {
        for kind in [Kind::Sandbox, Kind::Container] {
            self.ids.may_have_missed(kind, now);
        }
    }

    /// A mutation was given up by its caller, or lost: whether it is done is not known.
    fn on_unknown_end(&mut self, mutation: &Mutation, now: Instant) {
        match &mutation.target {
            Target::NewSandbox { .. } => self.ids.may_have_missed(Kind::Sandbox, now),
            Target::NewContainer { .. } => self.ids.may_have_missed(Kind::Container, now),
            Target::Existing(_, id) if mutation.starts => self.containers.started(id, now),
            Target::Existing(kind, id) => self.rows_mut(*kind).changed(id, now),
        }
    }

    /// Somebody spoke of this id.
    fn on_met(&mut self, id: &Id, now: Instant) {
        let rows = [&self.sandboxes, &self.containers];
        self.ids.on_met(id, rows, now);
    }

    /// The next connection may be to another runtime, which has others.
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
                // Lists that passed since have taught nothing.
                self.ids.may_have_missed(kind, now);
            }
            if mode != self.mode {
                *shadow = Shadow::new(now);
            }
        }
        self.mode = mode;
    }

    fn on_answered(&mut self, ask: AskId, outcome: &Outcome, now: Instant) {
        let Some(outstanding) = self.asks.remove(&ask) else {
            return;
        };
        if let Some(key) = outstanding.governed {
            self.prober.ended(&key, outcome, now);
            self.hand_on(&key, now);
        }
        if let Outcome::Lost = outcome {
            self.node_calls.forget();
        }
        let asked = (outstanding.asked, now);
        match outstanding.purpose {
            Purpose::List(kind) => self.on_list_answered(kind, ask, outcome, asked),
            Purpose::Read(..) => self.on_read_answered(ask, outcome, asked),
            Purpose::Mutation => self.on_mutation_answered(ask, outcome, asked),
            Purpose::NodeCall(_) => self.on_node_answered(ask, outcome),
            Purpose::StatsList => self.on_stats_listed(ask, outcome, asked),
            Purpose::Stats(kind, id) => self.on_stats_answered(kind, &id, outcome),
            Purpose::Restore(call) => {
                self.on_restored(now);
                self.actions.push(Action::Relay(ask, call));
            }
            Purpose::Other(call) => self.actions.push(Action::Relay(ask, call)),
        }
    }

    /// Does what is due.
    fn pass(&mut self, now: Instant) {
        self.prober.ledger.pass(now);
        self.pass_reads(now);
        self.pass_node_calls(now);
        for kind in [Kind::Sandbox, Kind::Container] {
            self.pass_list(kind, now);
        }
        self.probe(now);
        self.pass_mutations(now);
        self.pass_stats(now);
        for kind in [Kind::Sandbox, Kind::Container] {
            self.answer_lists(kind, now);
            self.pass_shadow(kind, now);
        }
    }

    /// When something is to be done although nothing happens.
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

/// Of which kind a list is.
fn list_of(rpc: Rpc) -> Option<Kind> {
    match rpc {
        Rpc::ListPodSandbox | Rpc::StreamPodSandboxes => Some(Kind::Sandbox),
        Rpc::ListContainers | Rpc::StreamContainers => Some(Kind::Container),
        _ => None,
    }
}

/// Whether it is one of the calls that a kubelet makes to decide whom to evict.
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
