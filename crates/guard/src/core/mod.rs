//! Decides what the guard does with each call, and when. It is pure: no clock, no IO.
//!
//! ```text
//!   a caller --Called--> lists      passed on, or answered from the rows
//!                        reads      passed on and shared; ended with an error once stuck
//!                        mutations  passed on; completed, or refused while an earlier one is overdue
//!                        node_calls passed on, or answered with the last answer of the same process
//!                        stats      passed on, or collected by id
//!                           |                 ^
//!                           v a call          | an answer
//!                         the runtime ------> rows: the known state of each id
//!                           ^                 ids:  whether every id is known
//!                           |                 |
//!                        prober: requests     v
//!                        the status of each   answerable: the rows that may be in an answer
//!                        id while a list        |--> lists, and shadow: compares the answer that
//!                        is overdue             |            the guard would have given
//!                                               \--> phase: how lists are handled now
//!
//!   calls    the outstanding calls to the runtime, and which of them the ledger tracks
//!   learn    applies each answer to rows and ids
//!   fault    whether lists of one kind are answered from the rows
//!   served   when callers requested and received lists
//! ```
//!
//! **The guard never reports a state that could mislead a kubelet.** A list is answered from the rows
//! only if three conditions hold. The rows began with a complete list. Every answer that changes
//! something was applied before it was passed on. Each id was confirmed by a status since the list was
//! requested, or within the second before; or its status is stuck or failing, and then it keeps the
//! state that the runtime reported last.
//!
//! ```
//! use bytes::Bytes;
//! use cri::Rpc;
//! use guard::core::{Action, Call, CallId, Caller, Guard, Input, Mode, Settings};
//! use tokio::time::Instant;
//!
//! let now = Instant::now();
//! let mut guard = Guard::new(Settings::default(), Mode::Guard, now, 1_700_000_000_000_000_000);
//! let call = Call {
//!     id: CallId(1),
//!     rpc: Rpc::ListContainers,
//!     request: Bytes::new(),
//!     from: Caller::Client,
//!     deadline: None,
//! };
//! let actions = guard.step(Input::Called(call), now);
//! let mut actions = actions.iter();
//! assert!(actions.any(|action| matches!(action, Action::Pass(_, CallId(1)))));
//! ```

mod answerable;
mod calls;
mod fault;
mod figures;
mod ids;
mod known;
mod learn;
mod lists;
mod method;
mod mutations;
mod node_calls;
mod per_kind;
mod phase;
mod prober;
mod reads;
mod reply;
mod rows;
mod saved;
mod served;
mod settings;
mod shadow;
mod stats;
mod turn;
mod usual;

use std::collections::BTreeMap;

use tokio::time::Instant;

use crate::wire::Kind;
use crate::wire::filter::Filter;
use crate::wire::request::{Mutation, id_of};
use calls::{Outstanding, Purpose};
use figures::count;
use ids::Ids;
use lists::Lists;
use method::Method;
use mutations::Mutations;
use node_calls::NodeCalls;
use per_kind::PerKind;
use prober::Prober;
use reads::Reads;
use rows::Rows;
use saved::Saved;
use shadow::Shadow;
use stats::Stats;

pub use figures::Figures;
pub use method::is_intercepted;
pub use reply::{Failure, Reply};
pub use settings::Settings;
pub use shadow::{Difference, Differences};
pub use turn::{Action, Call, CallId, Caller, HostIds, Input, Mode, Outcome, Phase, RuntimeCallId};

/// The state of the guard: what is known of the runtime, and the outstanding calls.
#[derive(Clone, Debug)]
pub struct Guard {
    settings: Settings,
    mode: Mode,
    rows: PerKind<Rows>,
    lists: PerKind<Lists>,
    shadows: PerKind<Shadow>,
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
            rows: PerKind::new(Rows::new),
            lists: PerKind::default(),
            shadows: PerKind::new(|_| Shadow::new(now)),
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
            Input::Called(call) => self.on_called(call, now),
            Input::Abandoned(call) => self.on_abandoned(call, now),
            Input::Answered(runtime_call, outcome) => self.on_answered(runtime_call, &outcome, now),
            Input::HostIds(ids) => self.ids.on_host_ids(ids, &self.rows, now),
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

    fn on_called(&mut self, call: Call, now: Instant) {
        let method = Method::of(call.rpc);
        match method {
            Some(Method::List(kind)) => {
                self.lists[kind].served.note_request(call.from, now);
                if let Some(filter) = Filter::read(kind, &call.request) {
                    return self.on_list_called(kind, call, filter, now);
                }
            }
            Some(Method::Status(kind)) => {
                if let Some(id) = id_of(&call.request) {
                    return self.on_read_called(kind, id, call, now);
                }
            }
            Some(Method::Node) => return self.on_node_called(call, now),
            Some(Method::Stats) => return self.on_stats_called(call, now),
            Some(Method::Mutation) => {
                if let Some(mutation) = Mutation::read(call.rpc, &call.request) {
                    return self.on_mutation_called(mutation, call, now);
                }
            }
            Some(Method::Restore) | None => {}
        }
        let purpose = match method {
            Some(Method::Restore) => Purpose::Restore(call.id),
            // Only the runtime can read this request.
            _ => Purpose::Other(call.id),
        };
        self.pass_on(purpose, call.id, now);
    }

    fn reply(&mut self, call: &Call, reply: Reply) {
        let figure = match reply {
            Reply::Message(_) => &mut self.figures.answered,
            Reply::Failed(_) => &mut self.figures.given_up,
        };
        count(figure, call.rpc);
        self.actions.push(Action::Reply(call.id, reply));
    }

    /// The next connection may be to another runtime process, with other sandboxes and containers.
    fn on_disconnected(&mut self, now: Instant) {
        self.node_calls.forget();
        self.ids.note_all_unshown(now);
        for kind in Kind::BOTH {
            self.lists[kind].forget_fault();
        }
    }

    fn on_mode(&mut self, mode: Mode, now: Instant) {
        for kind in Kind::BOTH {
            let shadow = &mut self.shadows[kind];
            if !shadow.is_idle() {
                // The lists of this rehearsal were not applied to the rows.
                self.ids.note_unshown(kind, now);
            }
            if mode != self.mode {
                *shadow = Shadow::new(now);
            }
        }
        self.mode = mode;
    }

    /// Performs what is due at `now`.
    fn advance(&mut self, now: Instant) {
        self.prober.ledger.advance(now);
        self.advance_reads(now);
        self.advance_node_calls(now);
        for kind in Kind::BOTH {
            self.advance_list(kind, now);
        }
        self.probe(now);
        self.advance_mutations(now);
        self.advance_stats(now);
        for kind in Kind::BOTH {
            self.answer_lists(kind, now);
            self.advance_shadow(kind, now);
        }
    }

    /// When to call [`Self::step`] with [`Input::Time`], if nothing happens before.
    pub fn alarm(&self, now: Instant) -> Option<Instant> {
        let lists = self.lists.iter();
        lists
            .filter_map(|lists| lists.alarm(&self.settings, now))
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
