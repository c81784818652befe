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

use super::call::List;
use super::limits::{CRASH_WITHIN, LONGEST_LOST_PAUSE, LONGEST_RETRY, SLOW_PAUSE, TOO_LARGE_LEAST};
use super::losses::Losses;
use super::standing::{Ages, Missing, Pace, Standing, by_itself};
use crate::config::Config;
use crate::model::event::Source;
use crate::model::grouping::Grouping;
use crate::model::listed::{ListedContainer, ListedSandbox, Row};
use crate::model::snapshot::{Counts, Snapshot};
use crate::model::wall_time::Moment;
use crate::out::coverage::{ListState, Lists};
use crate::out::kubelet_view::REQUEST_TIMEOUT;
use crate::records::Look;
use crate::runtime::grpc::MAX_MESSAGE_SIZE;
use crate::runtime::{CallError, Listing, NoConnection};

/// Both lists, and when to ask for them.
#[derive(Debug)]
pub(crate) struct Relister {
    period: Duration,
    state: State,
    /// Nobody knows who answers: not asked yet, or the connection was lost since.
    ask_version: bool,
    /// That was asked and is not answered: the next relist does without.
    goes_on_without_version: bool,
    /// In the last relist the connection of one list was lost before the other one came.
    lost_one: bool,
    /// Those soon after a relist was begun.
    losses: Losses,
    /// Somebody wants a relist that is begun after this.
    requested: Option<Instant>,
    /// The one after that under way is wanted by then.
    hurried: Option<Instant>,
    standing: Standing,
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
    AskingVersion,
    Asking(Asking),
}

/// Both lists were asked for.
#[derive(Debug)]
pub(crate) struct Asking {
    begun: Moment,
    sandboxes: Asked<ListedSandbox>,
    containers: Asked<ListedContainer>,
    /// The larger of both lists, in bytes.
    largest: usize,
}

/// What a list has said in this relist; nothing yet if it is `None`.
type Asked<R> = Option<Said<R>>;

/// What a list has said, and when.
#[derive(Debug)]
pub(crate) struct Said<R> {
    at: Instant,
    rows: Result<Rows<R>, CallError>,
}

type Rows<R> = Arc<[Arc<R>]>;

/// The rows of one of the lists.
pub(crate) trait ListRow: Row {
    /// Which list that is.
    const LIST: List;

    /// What this list has said.
    fn asked(asking: &mut Asking) -> &mut Asked<Self>;
}

impl ListRow for ListedSandbox {
    const LIST: List = List::Sandboxes;

    fn asked(asking: &mut Asking) -> &mut Asked<Self> {
        &mut asking.sandboxes
    }
}

impl ListRow for ListedContainer {
    const LIST: List = List::Containers;

    fn asked(asking: &mut Asking) -> &mut Asked<Self> {
        &mut asking.containers
    }
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
            ask_version: true,
            requested: None,
            hurried: None,
            standing: Standing::new(config.list_overdue),
            grouping: Grouping::new(now, Arc::new([]), Arc::new([])),
            good: Good::default(),
            no_runtime: None,
            failed_at: None,
            orphaned: 0,
            goes_on_without_version: false,
            lost_one: false,
            losses: Losses::new(LONGEST_LOST_PAUSE),
        }
    }

    /// How it is with each of the lists.
    pub(crate) fn standing(&self) -> &Standing {
        &self.standing
    }

    /// When the next relist is due; `None` while one is under way.
    pub(crate) fn due(&self) -> Option<Instant> {
        match self.state {
            State::Waiting { due } => Some(due),
            State::AskingVersion | State::Asking(_) => None,
        }
    }

    /// Makes a relist due that is begun after `asked`; one that was begun since serves.
    pub(crate) fn request(&mut self, asked: Instant) {
        match &mut self.state {
            State::Waiting { .. } if self.good.last.is_some_and(|begun| begun > asked) => {}
            State::Waiting { due } => *due = asked.min(*due),
            State::AskingVersion | State::Asking(_) => self.requested = Some(asked),
        }
    }

    /// Makes the next relist due at `time`, unless it is due before, or a list was too large: that is
    /// made for nothing each time.
    pub(crate) fn hurry(&mut self, time: Instant) {
        if !self.is_too_large() {
            self.ask_by(time);
        }
    }

    /// The same although a list was too large: whether the runtime is there at all only lists tell.
    pub(crate) fn hurry_anyway(&mut self, time: Instant) {
        let least = match self.is_too_large() {
            true => TOO_LARGE_LEAST,
            false => self.losses.pause(),
        };
        let least = self.failed_at.map(|failed| failed + least);
        self.ask_by(least.map_or(time, |least| time.max(least)));
    }

    fn is_too_large(&self) -> bool {
        matches!(self.failure(), Some(CallError::TooLarge(_)))
    }

    fn ask_by(&mut self, time: Instant) {
        match &mut self.state {
            State::Waiting { due } => *due = time.min(*due),
            State::AskingVersion | State::Asking(_) => {
                self.hurried = Some(self.hurried.map_or(time, |other| other.min(time)));
            }
        }
    }

    /// Whether nobody knows who answers, and the next relist asks for that first.
    pub(crate) fn needs_version(&self) -> bool {
        self.ask_version && !self.goes_on_without_version
    }

    /// Begins a relist if one is due. Before anything else the runtime is asked who it is:
    /// that settles which version of CRI it is spoken to in. Both lists are asked for at
    /// once, so that one that hangs does not keep the other from being known.
    pub(crate) fn begin(&mut self, now: Moment) -> Option<Ask> {
        if self.due().is_none_or(|due| now.instant < due) {
            return None;
        }
        let needs_version = self.needs_version();
        self.goes_on_without_version = false;
        Some(if needs_version {
            self.state = State::AskingVersion;
            Ask::Version
        } else {
            self.ask_lists(now)
        })
    }

    fn ask_lists(&mut self, begun: Moment) -> Ask {
        self.state = State::Asking(Asking {
            begun,
            sandboxes: None,
            containers: None,
            largest: 0,
        });
        Ask::Lists
    }

    /// The runtime said who it is: then both lists are asked for, once nobody is asking for one.
    pub(crate) fn version_known(&mut self, now: Instant) {
        self.ask_version = false;
        self.goes_on_without_version = false;
        if let State::AskingVersion = self.state {
            self.state = State::Waiting { due: now };
        }
    }

    /// Another runtime may be there.
    fn ask_version_again(&mut self) {
        self.ask_version = true;
        self.goes_on_without_version = false;
    }

    /// The runtime does not say who it is: then it is asked for lists all the same, and before the
    /// next ones once more who it is.
    pub(crate) fn go_on_without_version(&mut self, now: Instant) {
        self.goes_on_without_version = self.ask_version;
        if let State::AskingVersion = self.state {
            self.state = State::Waiting { due: now };
        }
    }

    /// The runtime cannot be asked who it is: nor for lists, unless they were asked for meanwhile.
    pub(crate) fn version_failed(&mut self, error: CallError, now: Instant) -> Option<Relisted> {
        let State::AskingVersion = self.state else {
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
        let State::Asking(asking) = &mut self.state else {
            return None;
        };
        let answer = match answer {
            Ok(listing) => {
                let took = now.duration_since(asking.begun.instant);
                self.standing.came(R::LIST, took);
                asking.largest = listing.bytes.max(asking.largest);
                Ok(listing.rows)
            }
            Err(error) => {
                self.standing.failed(R::LIST, &error);
                Err(error)
            }
        };
        let is_lost = matches!(answer, Err(CallError::Unavailable(_)));
        *R::asked(asking) = Some(Said {
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
        self.standing.failed_beside_a_sweep(list, error)
    }

    /// There is a connection again, and the next relist may be far away: it waits for the list that a
    /// sweep has asked for.
    pub(crate) fn is_reachable(&mut self) {
        self.no_runtime
            .take_if(|error| matches!(error, CallError::Unavailable(_)));
    }

    /// A list that a sweep asked for came after so long.
    pub(crate) fn sweep_list_came(&mut self, list: List, took: Duration) {
        self.is_reachable();
        self.standing.came_beside_a_sweep(list, took);
    }

    /// All is known that this list shows, which was requested then.
    pub(crate) fn list_taken_in(&mut self, list: List, asked: Instant) {
        self.standing.taken_in_as_of(list, asked);
    }

    /// Ends the relist if both lists have answered, the last of them by the loss of its connection if
    /// it `is_lost`.
    fn end(&mut self, is_lost: bool, now: Instant) -> Option<Relisted> {
        let State::Asking(Asking {
            begun,
            sandboxes: Some(sandboxes),
            containers: Some(containers),
            largest,
        }) = &self.state
        else {
            return None;
        };
        let (begun, largest) = (*begun, *largest);
        let (sandboxes, containers) = match (&sandboxes.rows, &containers.rows) {
            (Ok(sandboxes), Ok(containers)) => (sandboxes, containers),
            (one, other) => {
                // What a list was refused for holds no longer once it has come beside a sweep.
                let fails = self.standing.failed_by_themselves();
                let one = one.as_ref().err();
                let one = one.filter(|error| fails.sandboxes || !by_itself(error));
                let other = other.as_ref().err();
                let other = other.filter(|error| fails.containers || !by_itself(error));
                let errors = [one, other].into_iter().flatten().cloned();
                let (lost, others): (Vec<_>, Vec<_>) =
                    errors.partition(|error| matches!(error, CallError::Unavailable(_)));
                if lost.is_empty() {
                    self.losses.forget();
                }
                // What ended last is how it is now.
                let (last, earlier) = match is_lost {
                    true => (lost, others),
                    false => (others, lost),
                };
                return match (last.first(), earlier.first()) {
                    (Some(error), _) => Some(self.failed(error.clone(), now)),
                    // The other list has shown since that there is a connection again.
                    (None, Some(_)) if !self.lost_one && self.losses.is_none() => {
                        Some(self.lost_one_list(now))
                    }
                    (None, Some(error)) => Some(self.failed(error.clone(), now)),
                    (None, None) => Some(self.ask_again(now + self.period, now)),
                };
            }
        };
        let snapshot = self.grouping.update(begun.instant, sandboxes, containers);
        if snapshot.orphaned > self.orphaned {
            let orphaned = snapshot.orphaned;
            tracing::warn!("{orphaned} listed sandboxes or containers belong to no pod");
        }
        self.orphaned = snapshot.orphaned;
        self.no_runtime = None;
        self.lost_one = false;
        self.losses.forget();
        self.good.counts = snapshot.counts;
        self.good.before = self.good.last.replace(begun.instant);
        for list in [List::Sandboxes, List::Containers] {
            self.standing.taken_in_as_of(list, begun.instant);
        }
        if largest <= MAX_MESSAGE_SIZE && self.standing.longest() < REQUEST_TIMEOUT {
            self.good.for_kubelet = self.good.last;
        }
        Some(Relisted::Good(Listed {
            snapshot,
            begun,
            late: self.standing.slowest().is_some(),
        }))
    }

    /// One list came, and the connection of the other was lost before that: both are asked for again.
    fn lost_one_list(&mut self, now: Instant) -> Relisted {
        self.lost_one = true;
        self.ask_version_again();
        self.ask_again(now, now)
    }

    /// The relist has failed, and how it is with the lists only the `next` one tells.
    fn ask_again(&mut self, next: Instant, now: Instant) -> Relisted {
        let took = self.asking_took(now);
        self.no_runtime = None;
        self.rest(next, None);
        Relisted::Failed(took)
    }

    fn asking_took(&self, now: Instant) -> Duration {
        match &self.state {
            State::Asking(asking) => now.duration_since(asking.begun.instant),
            State::Waiting { .. } | State::AskingVersion => Duration::ZERO,
        }
    }

    fn failed(&mut self, error: CallError, now: Instant) -> Relisted {
        let error = self.count_lost(error, now);
        // The runtime that answers next may be another one.
        if matches!(
            error,
            CallError::Unavailable(_) | CallError::Unimplemented(_)
        ) {
            self.ask_version_again();
        }
        let mut pause = match error {
            // Made for nothing each time, at a great cost to the runtime.
            CallError::TooLarge(_) => LONGEST_RETRY.max(self.period),
            _ => self.period.max(self.losses.pause()),
        };
        let is_of_a_list = by_itself(&error) && !matches!(self.state, State::AskingVersion);
        if is_of_a_list {
            // The other one may have come, and late.
            self.standing.relist_ended();
            pause = pause.max(self.standing.slowest().unwrap_or_default() / SLOW_PAUSE);
        }
        if !is_of_a_list && self.no_runtime.as_ref() != Some(&error) {
            tracing::debug!("unable to list: {error}");
        }
        self.no_runtime = (!is_of_a_list).then_some(error);
        self.failed_at = Some(now);
        let took = self.asking_took(now);
        self.rest(now + pause, None);
        Relisted::Failed(took)
    }

    /// Counts relists in succession soon after whose begin the connection was lost. What it was lost for
    /// says more than how it was.
    fn count_lost(&mut self, error: CallError, now: Instant) -> CallError {
        let CallError::Unavailable(why) = &error else {
            return error;
        };
        if why.cause != NoConnection::Lost || self.asking_took(now) >= CRASH_WITHIN {
            return error;
        }
        self.losses.count();
        if !self.losses.are_no_chance() {
            return error;
        }
        let why = match self.state {
            State::AskingVersion => "the connection is lost each time it is asked for its version",
            State::Waiting { .. } | State::Asking(_) => {
                "the connection is lost each time it is asked for its lists"
            }
        };
        CallError::unavailable(NoConnection::Lost, why)
    }

    /// The relist has ended well and was taken in; `period` is the pause that it is due.
    pub(crate) fn taken_in(&mut self, listed: &Listed, period: Duration, now: Instant) {
        let pause = match (self.standing.slowest(), self.standing.pace()) {
            (None, _) if !listed.late => period,
            // What happened while they were late is asked for at once, one time.
            (None, _) | (Some(_), Pace::Quick) => Duration::ZERO,
            // Beside a stream their next good end is not waited for longer than they took.
            (Some(took), Pace::Late | Pace::Slow) => {
                period.min(self.period.max(took)).max(took / SLOW_PAUSE)
            }
        };
        self.standing.relist_ended();
        self.rest(now + pause, Some(listed.begun.instant));
    }

    fn rest(&mut self, next: Instant, begun: Option<Instant>) {
        let requested = self.requested.take();
        let requested = requested.filter(|asked| begun.is_none_or(|begun| *asked > begun));
        let wanted = [Some(next), requested, self.hurried.take()];
        let due = wanted.into_iter().flatten().min().unwrap_or(next);
        self.state = State::Waiting { due };
    }

    /// How it is with the lists.
    pub(crate) fn trouble(&self, ages: Ages) -> Lists {
        if self.standing.stuck(ages).any() {
            Lists::Stuck
        } else if let Some(error) = self.failure() {
            match (error, ages.version) {
                // There is a connection again, and nothing comes over it.
                (CallError::Unavailable(_), Some(age)) if age >= self.standing.overdue_after() => {
                    Lists::Stuck
                }
                _ if self.no_runtime.is_some() && by_itself(error) => {
                    Lists::Unserved(error.clone())
                }
                _ => Lists::Failed(error.clone()),
            }
        } else if self.standing.unavailable_since().any() {
            Lists::Stuck
        } else {
            self.standing.punctuality()
        }
    }

    /// Notes which lists are not taken in now. One that has come waits for the other one.
    pub(crate) fn note_blind(&mut self, ages: Ages) {
        let (sandboxes, containers) = match &self.state {
            State::Asking(asking) => (has_come(&asking.sandboxes), has_come(&asking.containers)),
            State::Waiting { .. } | State::AskingVersion => (false, false),
        };
        let blind = self.blind(ages);
        let lacking = Missing {
            sandboxes: blind.sandboxes && !sandboxes,
            containers: blind.containers && !containers,
        };
        let unavailable = self.unavailable(ages);
        self.standing.note_lacking(lacking, unavailable);
    }

    /// Without which lists what is new cannot be seen: beside one that is not to be had nobody waits
    /// for one that is slow each time.
    pub(crate) fn blind(&self, ages: Ages) -> Missing {
        let Missing {
            sandboxes,
            containers,
        } = self.unavailable(ages).or(self.standing.lacking());
        let slow = self.standing.slow();
        Missing {
            sandboxes: sandboxes || containers && slow.sandboxes,
            containers: containers || sandboxes && slow.containers,
        }
    }

    /// How it is with each list: that of the sandboxes, and that of the containers.
    pub(crate) fn each_list(&self, ages: Ages) -> (ListState, ListState) {
        let state = |is_unavailable, is_slow| match (is_unavailable, is_slow) {
            (true, _) => ListState::Unavailable,
            (false, true) => ListState::Slow,
            (false, false) => ListState::Comes,
        };
        let unavailable = self.unavailable(ages);
        let slow = self.standing.slow();
        (
            state(unavailable.sandboxes, slow.sandboxes),
            state(unavailable.containers, slow.containers),
        )
    }

    /// Which lists are not to be had: they hang or fail, or did so when last heard of.
    fn unavailable(&self, ages: Ages) -> Missing {
        // Then nothing is polled in place of a list either, until one is answered again and the
        // other is not.
        let unreachable = matches!(self.no_runtime, Some(CallError::Unavailable(_)));
        let answered = match &self.state {
            State::Asking(asking) => (asking.sandboxes.is_some(), asking.containers.is_some()),
            State::Waiting { .. } | State::AskingVersion => (false, false),
        };
        let stuck = self.standing.stuck(ages);
        // Before the first version is known no list is asked for.
        let is_waiting = ages
            .version
            .is_some_and(|age| age >= self.standing.overdue_after());
        let cannot = unreachable || is_waiting && matches!(self.state, State::AskingVersion);
        let cannot = Missing {
            sandboxes: cannot && !(answered.0 && stuck.containers),
            containers: cannot && !(answered.1 && stuck.sandboxes),
        };
        let failed = self.standing.failed_by_themselves();
        let since = self.standing.unavailable_since();
        cannot.or(failed).or(stuck).or(since)
    }

    /// Something was seen as of this time without these lists, since they are not to be had.
    pub(crate) fn did_without(&mut self, lists: Missing, time: Instant) {
        self.standing.did_without(lists, time);
    }

    /// Why lists are not to be had: none can be asked for, or one fails by itself.
    pub(crate) fn failure(&self) -> Option<&CallError> {
        let failure = self.no_runtime.as_ref();
        failure.or_else(|| self.standing.failure())
    }

    /// Whether a list has failed in the relist under way.
    pub(crate) fn is_failing(&self) -> bool {
        match &self.state {
            State::Asking(asking) => {
                has_failed(&asking.sandboxes) || has_failed(&asking.containers)
            }
            State::Waiting { .. } | State::AskingVersion => false,
        }
    }

    /// What has come of this list and waits for the other one, unless as much is taken in.
    pub(crate) fn waiting<R: ListRow>(&mut self) -> Option<(Rows<R>, Look)> {
        let State::Asking(asking) = &mut self.state else {
            return None;
        };
        let begun = asking.begun.instant;
        let said = R::asked(asking).as_ref()?;
        let rows = said.rows.as_ref().ok()?;
        let look = Look {
            begun,
            ended: said.at,
            source: Source::Sweep,
        };
        (self.standing.knows(R::LIST) < Some(begun)).then(|| (Arc::clone(rows), look))
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

    /// Whether a kubelet could not list when we last did.
    pub(crate) fn fails_kubelet(&self) -> bool {
        self.failure().is_some()
            || self.standing.lacking().any()
            || self.good.for_kubelet != self.good.last
    }
}

fn has_failed<R>(asked: &Asked<R>) -> bool {
    asked.as_ref().is_some_and(|said| said.rows.is_err())
}

fn has_come<R>(asked: &Asked<R>) -> bool {
    asked.as_ref().is_some_and(|said| said.rows.is_ok())
}
