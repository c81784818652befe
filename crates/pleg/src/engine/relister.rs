//! The relist: when both lists are requested, and what they show.
//!
//! ```text
//!   Waiting --due--> AwaitingVersion (if the runtime is unknown) --> OpenRelist (both lists at once)
//!      ^                                                                  |
//!      \---- a pause: none after the first late relist, --- Relisted: good or failed
//!            longer while lists are slow
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

mod availability;
mod ending;
mod open_relist;

pub(super) use open_relist::ListRow;
use open_relist::{OpenRelist, Reply, Rows};

use super::call::List;
use super::limits::{MAX_LOSS_PAUSE, TOO_LARGE_RETRY_PAUSE};
use super::list_history::ListHistory;
use super::losses::Losses;
use crate::config::Config;
use crate::model::event::Source;
use crate::model::grouping::Grouping;
use crate::model::snapshot::{Counts, Snapshot};
use crate::model::wall_time::Moment;
use crate::records::Interval;
use crate::runtime::{CallError, Listing, RuntimeVersion};

/// Both lists, and when they are requested.
#[derive(Debug)]
pub(crate) struct Relister {
    period: Duration,
    state: State,
    /// The last answer to `Version`.
    runtime: Option<RuntimeVersion>,
    /// Whether the runtime is unknown: `Version` was not answered yet, or the connection was lost
    /// since.
    is_version_unknown: bool,
    /// Whether the next relist proceeds without an answer to `Version`.
    skips_version: bool,
    /// Whether, in the last relist, the connection was lost for one list before the other one
    /// arrived.
    has_lost_one: bool,
    /// Lost connections soon after the beginning of a relist.
    losses: Losses,
    /// A relist that begins after this time was requested while another one was open.
    requested: Option<Instant>,
    /// The relist after the open one is wanted by this time.
    hurried: Option<Instant>,
    history: ListHistory,
    /// The last good lists, grouped by pod.
    grouping: Grouping,
    good: Good,
    /// Why the last relist could not request lists: there is no connection, or the server is no CRI
    /// runtime.
    no_runtime: Option<CallError>,
    /// When a relist last failed.
    failed_at: Option<Instant>,
    /// How many rows of the last lists belonged to no pod.
    orphaned: usize,
}

#[derive(Debug)]
enum State {
    Waiting { due: Instant },
    AwaitingVersion,
    OpenRelist(OpenRelist),
}

/// When lists were good.
#[derive(Clone, Copy, Debug, Default)]
struct Good {
    /// When the last good relist began.
    last: Option<Instant>,
    /// When the one before it began.
    before: Option<Instant>,
    /// When the last relist began whose lists a kubelet could have received.
    for_kubelet: Option<Instant>,
    /// How many pods and containers the last good lists showed.
    counts: Counts,
}

/// The calls with which a relist begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RelistCalls {
    Version,
    Lists,
}

/// The result of a relist.
#[derive(Debug)]
pub(crate) enum Relisted {
    /// Both lists were answered successfully.
    Good(Listed),
    /// A list failed; the relist took this long.
    Failed(Duration),
}

/// What both lists showed.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) snapshot: Snapshot,
    pub(crate) begun: Moment,
    /// Whether the lists arrived late. Their content may be as old as their request.
    pub(crate) are_late: bool,
}

impl Relister {
    pub(crate) fn new(config: &Config, now: Instant) -> Self {
        Self {
            period: config.relist_period,
            state: State::Waiting { due: now },
            runtime: None,
            is_version_unknown: true,
            requested: None,
            hurried: None,
            history: ListHistory::new(config.list_overdue),
            grouping: Grouping::new(now, Arc::new([]), Arc::new([])),
            good: Good::default(),
            no_runtime: None,
            failed_at: None,
            orphaned: 0,
            skips_version: false,
            has_lost_one: false,
            losses: Losses::new(MAX_LOSS_PAUSE),
        }
    }

    /// How each list was answered.
    pub(crate) fn history(&self) -> &ListHistory {
        &self.history
    }

    /// When the next relist is due; `None` while one is open.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { due } => Some(due),
            State::AwaitingVersion | State::OpenRelist(_) => None,
        }
    }

    /// Makes a relist due that begins after `after`. A good relist that began since is enough.
    pub(crate) fn request(&mut self, after: Instant) {
        match &mut self.state {
            State::Waiting { .. } if self.good.last.is_some_and(|begun| begun > after) => {}
            State::Waiting { due } => *due = after.min(*due),
            State::AwaitingVersion | State::OpenRelist(_) => self.requested = Some(after),
        }
    }

    /// Makes the next relist due by `time`. After a list that was too large this does nothing,
    /// because the runtime would produce it for nothing each time.
    pub(crate) fn hurry(&mut self, time: Instant) {
        if !self.is_too_large() {
            self.make_due_by(time);
        }
    }

    /// The same, even after a list that was too large: only lists show whether the runtime is
    /// reachable at all.
    pub(crate) fn hurry_anyway(&mut self, time: Instant) {
        let least = match self.is_too_large() {
            true => TOO_LARGE_RETRY_PAUSE,
            false => self.losses.pause(),
        };
        let least = self.failed_at.map(|failed| failed + least);
        self.make_due_by(least.map_or(time, |least| time.max(least)));
    }

    fn is_too_large(&self) -> bool {
        matches!(self.failure(), Some(CallError::TooLarge(_)))
    }

    fn make_due_by(&mut self, time: Instant) {
        match &mut self.state {
            State::Waiting { due } => *due = time.min(*due),
            State::AwaitingVersion | State::OpenRelist(_) => {
                self.hurried = Some(self.hurried.map_or(time, |other| other.min(time)));
            }
        }
    }

    /// The last answer to `Version`.
    pub(crate) fn runtime(&self) -> Option<&RuntimeVersion> {
        self.runtime.as_ref()
    }

    pub(crate) fn set_runtime(&mut self, version: RuntimeVersion) {
        self.runtime = Some(version);
    }

    /// Whether the runtime is unknown, so that the next relist first sends `Version`.
    pub(crate) fn needs_version(&self) -> bool {
        self.is_version_unknown && !self.skips_version
    }

    /// Begins a relist if one is due. `Version` is sent first if the runtime is unknown, because
    /// its answer decides which version of CRI is used. Both lists are requested at once, so that a
    /// stuck list does not delay the other one.
    pub(crate) fn begin(&mut self, now: Moment) -> Option<RelistCalls> {
        if self.due().is_none_or(|due| now.instant < due) {
            return None;
        }
        let needs_version = self.needs_version();
        self.skips_version = false;
        Some(if needs_version {
            self.state = State::AwaitingVersion;
            RelistCalls::Version
        } else {
            self.begin_lists(now)
        })
    }

    fn begin_lists(&mut self, begun: Moment) -> RelistCalls {
        self.state = State::OpenRelist(OpenRelist {
            begun,
            sandboxes: None,
            containers: None,
            largest: 0,
        });
        RelistCalls::Lists
    }

    /// `Version` was answered: lists are requested next.
    pub(crate) fn version_known(&mut self, now: Instant) {
        self.is_version_unknown = false;
        self.skips_version = false;
        if let State::AwaitingVersion = self.state {
            self.state = State::Waiting { due: now };
        }
    }

    /// Another runtime may be listening now.
    fn forget_version(&mut self) {
        self.is_version_unknown = true;
        self.skips_version = false;
    }

    /// Requests lists without an answer to `Version`. The relist after that one sends `Version`
    /// again.
    pub(crate) fn skip_version(&mut self, now: Instant) {
        self.skips_version = self.is_version_unknown;
        if let State::AwaitingVersion = self.state {
            self.state = State::Waiting { due: now };
        }
    }

    /// `Version` failed. Ends the relist, unless lists were requested meanwhile.
    pub(crate) fn version_failed(&mut self, error: CallError, now: Instant) -> Option<Relisted> {
        let State::AwaitingVersion = self.state else {
            return None;
        };
        Some(self.failed(error, now))
    }

    /// Takes in the answer to a list. Returns the result of the relist once both lists have ended.
    pub(crate) fn on_list<R: ListRow>(
        &mut self,
        answer: Result<Listing<R>, CallError>,
        now: Instant,
    ) -> Option<Relisted> {
        let State::OpenRelist(open_relist) = &mut self.state else {
            return None;
        };
        let answer = match answer {
            Ok(listing) => {
                let took = now.duration_since(open_relist.begun.instant);
                self.history.received(R::LIST, took);
                open_relist.largest = listing.bytes.max(open_relist.largest);
                Ok(listing.rows)
            }
            Err(error) => {
                self.history.failed(R::LIST, &error);
                Err(error)
            }
        };
        let is_lost = matches!(answer, Err(CallError::Unavailable(_)));
        *R::reply(open_relist) = Some(Reply {
            at: now,
            rows: answer,
        });
        self.end(is_lost, now)
    }

    /// A list of a sweep failed. Returns whether that is new.
    pub(crate) fn sweep_list_failed(&mut self, list: List, error: &CallError) -> bool {
        if !matches!(error, CallError::Unavailable(_)) {
            self.note_reachable();
        }
        self.history.failed_beside_a_sweep(list, error)
    }

    /// There is a connection again. The next relist, which would show it, may be far away: it waits
    /// for a list of a sweep.
    pub(crate) fn note_reachable(&mut self) {
        self.no_runtime
            .take_if(|error| matches!(error, CallError::Unavailable(_)));
    }

    /// A list of a sweep arrived after `took`.
    pub(crate) fn sweep_list_received(&mut self, list: List, took: Duration) {
        self.note_reachable();
        self.history.received_beside_a_sweep(list, took);
    }

    /// A list that was requested at `requested` has been taken in.
    pub(crate) fn list_taken_in(&mut self, list: List, requested: Instant) {
        self.history.taken_in_as_of(list, requested);
    }

    /// The rows of this list in the open relist, if they wait for the other list and nothing as new
    /// is taken in.
    pub(crate) fn waiting<R: ListRow>(&mut self) -> Option<(Rows<R>, Interval)> {
        let State::OpenRelist(open_relist) = &mut self.state else {
            return None;
        };
        let begun = open_relist.begun.instant;
        let reply = R::reply(open_relist).as_ref()?;
        let rows = reply.rows.as_ref().ok()?;
        let interval = Interval {
            begun,
            ended: reply.at,
            source: Source::Sweep,
        };
        (self.history.taken_in(R::LIST) < Some(begun)).then(|| (Arc::clone(rows), interval))
    }

    /// Whether a relist was ever good.
    pub(crate) fn has_listed(&self) -> bool {
        self.good.last.is_some()
    }

    /// How many pods and containers the last good lists showed.
    pub(crate) fn counts(&self) -> Counts {
        self.good.counts
    }

    /// When the last good relist began.
    pub(crate) fn last_good(&self) -> Option<Instant> {
        self.good.last
    }

    /// When the newest good relist before `time` began. Only two relists are remembered.
    pub(crate) fn good_before(&self, time: Instant) -> Option<Instant> {
        let good = [self.good.last, self.good.before];
        good.into_iter().flatten().find(|begun| *begun < time)
    }

    /// When the last relist began whose lists a kubelet could have received.
    pub(crate) fn good_for_kubelet(&self) -> Option<Instant> {
        self.good.for_kubelet
    }
}
