//! The two lists: when they are due, and what they say.
//!
//! ```text
//!   Waiting --due--> AskingVersion (if nobody knows who answers) --> Asking (both lists at once)
//!      ^                                                                |
//!      \------ a pause: none after the first late one, ----- Listed: good, or why not
//!              longer while lists are slow
//! ```

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

mod asking;
mod availability;
mod ending;

pub(super) use asking::ListRow;
use asking::{OpenRelist, Reply, Rows};

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

/// Both lists, and when to ask for them.
#[derive(Debug)]
pub(crate) struct Relister {
    period: Duration,
    state: State,
    /// Who answered when it was last asked for.
    runtime: Option<RuntimeVersion>,
    /// Nobody knows who answers: not asked yet, or the connection was lost since.
    is_version_unknown: bool,
    /// That was asked and is not answered: the next relist does without.
    skips_version: bool,
    /// In the last relist the connection of one list was lost before the other one came.
    lost_one: bool,
    /// Those soon after a relist was begun.
    losses: Losses,
    /// Somebody wants a relist that is begun after this.
    requested: Option<Instant>,
    /// The one after that under way is wanted by then.
    hurried: Option<Instant>,
    history: ListHistory,
    /// The last good lists, by pod.
    grouping: Grouping,
    good: Good,
    /// Why the last relist could not ask: no connection, or not a runtime that can be asked.
    no_runtime: Option<CallError>,
    /// When a relist failed last.
    failed_at: Option<Instant>,
    /// How many rows belonged to no pod.
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
    /// When the last good relist was begun.
    last: Option<Instant>,
    /// The one before.
    before: Option<Instant>,
    /// The last one of which a kubelet could have received both lists.
    for_kubelet: Option<Instant>,
    /// How much the last ones showed.
    counts: Counts,
}

/// What is to be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    Version,
    Lists,
}

/// How a relist ended.
#[derive(Debug)]
pub(crate) enum Relisted {
    /// Both lists came.
    Good(Listed),
    /// They did not, after this time.
    Failed(Duration),
}

/// What both lists said.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) snapshot: Snapshot,
    pub(crate) begun: Moment,
    /// They came so late that they tell how things were when they were asked for, at best.
    pub(crate) late: bool,
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
            lost_one: false,
            losses: Losses::new(MAX_LOSS_PAUSE),
        }
    }

    /// How each of the lists was answered.
    pub(crate) fn history(&self) -> &ListHistory {
        &self.history
    }

    /// When the next relist is due; `None` while one is under way.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { due } => Some(due),
            State::AwaitingVersion | State::OpenRelist(_) => None,
        }
    }

    /// Makes a relist due that is begun after `asked`; one that was begun since serves.
    pub(crate) fn request(&mut self, asked: Instant) {
        match &mut self.state {
            State::Waiting { .. } if self.good.last.is_some_and(|begun| begun > asked) => {}
            State::Waiting { due } => *due = asked.min(*due),
            State::AwaitingVersion | State::OpenRelist(_) => self.requested = Some(asked),
        }
    }

    /// Makes the next relist due at `time`, unless it is due before, or a list was too large: that is
    /// made for nothing each time.
    pub(crate) fn hurry(&mut self, time: Instant) {
        if !self.is_too_large() {
            self.make_due_by(time);
        }
    }

    /// The same although a list was too large: whether the runtime is there at all only lists tell.
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

    /// Who answered when it was last asked for.
    pub(crate) fn runtime(&self) -> Option<&RuntimeVersion> {
        self.runtime.as_ref()
    }

    pub(crate) fn runtime_is(&mut self, version: RuntimeVersion) {
        self.runtime = Some(version);
    }

    /// Whether nobody knows who answers, and the next relist asks for that first.
    pub(crate) fn needs_version(&self) -> bool {
        self.is_version_unknown && !self.skips_version
    }

    /// Begins a relist if one is due. Before anything else the runtime is asked who it is:
    /// that settles which version of CRI it is spoken to in. Both lists are asked for at
    /// once, so that one that hangs does not keep the other from being known.
    pub(crate) fn begin(&mut self, now: Moment) -> Option<Ask> {
        if self.due().is_none_or(|due| now.instant < due) {
            return None;
        }
        let needs_version = self.needs_version();
        self.skips_version = false;
        Some(if needs_version {
            self.state = State::AwaitingVersion;
            Ask::Version
        } else {
            self.begin_lists(now)
        })
    }

    fn begin_lists(&mut self, begun: Moment) -> Ask {
        self.state = State::OpenRelist(OpenRelist {
            begun,
            sandboxes: None,
            containers: None,
            largest: 0,
        });
        Ask::Lists
    }

    /// The runtime said who it is: then both lists are asked for, once nobody is asking for one.
    pub(crate) fn version_known(&mut self, now: Instant) {
        self.is_version_unknown = false;
        self.skips_version = false;
        if let State::AwaitingVersion = self.state {
            self.state = State::Waiting { due: now };
        }
    }

    /// Another runtime may be there.
    fn forget_version(&mut self) {
        self.is_version_unknown = true;
        self.skips_version = false;
    }

    /// The runtime does not say who it is: then it is asked for lists all the same, and before the
    /// next ones once more who it is.
    pub(crate) fn skip_version(&mut self, now: Instant) {
        self.skips_version = self.is_version_unknown;
        if let State::AwaitingVersion = self.state {
            self.state = State::Waiting { due: now };
        }
    }

    /// The runtime cannot be asked who it is: nor for lists, unless they were asked for meanwhile.
    pub(crate) fn version_failed(&mut self, error: CallError, now: Instant) -> Option<Relisted> {
        let State::AwaitingVersion = self.state else {
            return None;
        };
        Some(self.failed(error, now))
    }

    /// Takes in an answer; gives how the relist ended once both lists have answered.
    pub(crate) fn on_list<R: ListRow>(
        &mut self,
        answer: Result<Listing<R>, CallError>,
        now: Instant,
    ) -> Option<Relisted> {
        let State::OpenRelist(asking) = &mut self.state else {
            return None;
        };
        let answer = match answer {
            Ok(listing) => {
                let took = now.duration_since(asking.begun.instant);
                self.history.received(R::LIST, took);
                asking.largest = listing.bytes.max(asking.largest);
                Ok(listing.rows)
            }
            Err(error) => {
                self.history.failed(R::LIST, &error);
                Err(error)
            }
        };
        let is_lost = matches!(answer, Err(CallError::Unavailable(_)));
        *R::reply(asking) = Some(Reply {
            at: now,
            rows: answer,
        });
        self.end(is_lost, now)
    }

    /// A list that a sweep asked for failed. Says whether that is new.
    pub(crate) fn sweep_list_failed(&mut self, list: List, error: &CallError) -> bool {
        if !matches!(error, CallError::Unavailable(_)) {
            self.is_reachable();
        }
        self.history.failed_beside_a_sweep(list, error)
    }

    /// There is a connection again, and the next relist may be far away: it waits for the list that a
    /// sweep has asked for.
    pub(crate) fn is_reachable(&mut self) {
        self.no_runtime
            .take_if(|error| matches!(error, CallError::Unavailable(_)));
    }

    /// A list that a sweep asked for came after so long.
    pub(crate) fn sweep_list_received(&mut self, list: List, took: Duration) {
        self.is_reachable();
        self.history.received_beside_a_sweep(list, took);
    }

    /// All is known that this list shows, which was requested then.
    pub(crate) fn list_taken_in(&mut self, list: List, asked: Instant) {
        self.history.taken_in_as_of(list, asked);
    }

    /// What has come of this list and waits for the other one, unless as much is taken in.
    pub(crate) fn waiting<R: ListRow>(&mut self) -> Option<(Rows<R>, Interval)> {
        let State::OpenRelist(asking) = &mut self.state else {
            return None;
        };
        let begun = asking.begun.instant;
        let reply = R::reply(asking).as_ref()?;
        let rows = reply.rows.as_ref().ok()?;
        let interval = Interval {
            begun,
            ended: reply.at,
            source: Source::Sweep,
        };
        (self.history.taken_in(R::LIST) < Some(begun)).then(|| (Arc::clone(rows), interval))
    }

    /// Whether lists have ever come.
    pub(crate) fn has_listed(&self) -> bool {
        self.good.last.is_some()
    }

    /// How many pods and containers the last good lists showed.
    pub(crate) fn counts(&self) -> Counts {
        self.good.counts
    }

    /// When the last good relist was begun.
    pub(crate) fn last_good(&self) -> Option<Instant> {
        self.good.last
    }

    /// When the last good lists before `time` were asked for, if that is still known.
    pub(crate) fn good_before(&self, time: Instant) -> Option<Instant> {
        let good = [self.good.last, self.good.before];
        good.into_iter().flatten().find(|begun| *begun < time)
    }

    /// The last relist of which a kubelet could have received both lists.
    pub(crate) fn good_for_kubelet(&self) -> Option<Instant> {
        self.good.for_kubelet
    }
}
