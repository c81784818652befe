//! The processes of running containers: whoever dies gives a hint.
//!
//! ```text
//!   a container runs --> its pid (verbose ContainerStatus) --> opened --> live --dies-->
//!     dead: the runtime is asked, after a few milliseconds and then more, until it knows --> hint
//!        \-- it says for seconds that it runs: a contradiction, which is told, unless it
//!            tells another pid by then: it was started again under its id, as Docker does
//! ```
//!
//! The kernel knows of a death some 60 ms before the runtime says so, on any runtime, and
//! while neither lists nor events come.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

mod deaths;

use super::call::{Call, Purpose, Question};
use super::limits::{DEATH_PAUSE, LONGEST_UNSEEN, LONGEST_WITHHELD, PIDS, UNWATCHED};
use super::sweeper::about;
use crate::kernel::Unwatched;
use crate::model::id::{Id, PodRef};
use crate::out::status_report::{BirthsStatus, KernelStatus};
use crate::runtime::{About, CallError};

const PID_LOST: &str = "the connection to the runtime was lost when its PID was asked for";
const PIDS_LOST: &str =
    "the connection to the runtime was lost when it was asked for the PIDs of others";

/// The processes that are watched.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    on: bool,
    /// A process was found by the PID that the runtime had told.
    sees_pids: bool,
    watches: BTreeMap<Id, Watch>,
    /// Those whose pid is to be asked for, those that are dead, and those that were refused
    /// for a while: of ten thousand that live nothing is to be done.
    wanted: BTreeSet<Id>,
    dead: BTreeSet<Id>,
    refused: BTreeSet<Id>,
    /// Those that are not live, for whatever reason.
    unwatched: BTreeSet<Id>,
    /// Whose pid is being asked for, and of whose death the runtime is asked.
    asking_pids: BTreeSet<Id>,
    asking_deaths: BTreeSet<Id>,
}

#[derive(Debug)]
struct Watch {
    pod: PodRef,
    name: Arc<str>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// Its pid is to be asked for, the next time that there is room.
    Wanted { pause: Duration },
    /// Its pid is being asked for, or its process is being opened.
    Opening { pause: Duration, pid: Option<u32> },
    /// The kernel will tell of its death.
    Live { pid: u32 },
    /// The process is dead, and the runtime has not said so.
    Dead {
        pid: u32,
        since: Instant,
        next: Instant,
        pause: Duration,
        asking: bool,
        /// The runtime has said that it runs, after the death.
        denied: bool,
    },
    /// It cannot be watched; `retry` is when that may be otherwise, of one that is not visible by
    /// its `pid`.
    Refused {
        why: String,
        retry: Option<Instant>,
        pause: Duration,
        pid: Option<u32>,
    },
}

impl State {
    /// It is dead, as was found just now.
    fn dead(pid: u32, now: Instant) -> Self {
        Self::Dead {
            pid,
            since: now,
            next: now + DEATH_PAUSE,
            pause: DEATH_PAUSE,
            asking: false,
            denied: false,
        }
    }
}

/// A process to be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) pid: u32,
    /// Its pod, if an earlier process of the container is dead: it was started again.
    pub(crate) again: Option<PodRef>,
}

impl Processes {
    /// Watches nothing unless it is `on`.
    pub(crate) fn new(on: bool) -> Self {
        Self {
            on,
            ..Self::default()
        }
    }

    /// Wants the process of a container watched that runs.
    pub(crate) fn runs(&mut self, id: &Id, name: &Arc<str>, pod: &PodRef) {
        if self.on && !self.watches.contains_key(id) {
            let watch = Watch {
                pod: pod.clone(),
                name: name.clone(),
                state: State::Wanted { pause: UNWATCHED },
            };
            self.watches.insert(id.clone(), watch);
            self.wanted.insert(id.clone());
            self.unwatched.insert(id.clone());
        }
    }

    /// A container runs no more, or is no more; says whether it was watched.
    pub(crate) fn forget(&mut self, id: &Id) -> bool {
        for set in [
            &mut self.wanted,
            &mut self.dead,
            &mut self.refused,
            &mut self.unwatched,
        ] {
            set.remove(id);
        }
        if self.watches.remove(id).is_none() {
            return false;
        }
        self.asking_deaths.remove(id);
        true
    }

    /// Puts a watch into another state, and into the set of those in it.
    fn enter(&mut self, id: &Id, state: State) {
        let Some(watch) = self.watches.get_mut(id) else {
            return;
        };
        let sets = [
            (&mut self.wanted, matches!(state, State::Wanted { .. })),
            (&mut self.dead, matches!(state, State::Dead { .. })),
            (
                &mut self.refused,
                matches!(state, State::Refused { retry: Some(_), .. }),
            ),
            (&mut self.unwatched, !matches!(state, State::Live { .. })),
        ];
        for (set, is_in) in sets {
            match is_in {
                true => set.insert(id.clone()),
                false => set.remove(id),
            };
        }
        watch.state = state;
    }

    /// The next call to be made.
    pub(crate) fn next_call(
        &mut self,
        ledger: &Ledger,
        admits_pids: bool,
        now: Instant,
    ) -> Option<(Call, About)> {
        if self.dead.is_empty() && self.wanted.is_empty() || !ledger.has_room() {
            return None;
        }
        let death = self.next_death(ledger, now);
        death.or_else(|| admits_pids.then(|| self.next_pid(ledger))?)
    }

    fn next_pid(&mut self, ledger: &Ledger) -> Option<(Call, About)> {
        if waited_for(&self.asking_pids, ledger) >= PIDS {
            return None;
        }
        let free = |id: &&Id| !ledger.is_outstanding(&Question::Pid((*id).clone()).key());
        let id = self.wanted.iter().find(free)?.clone();
        let watch = self.watches.get(&id)?;
        let call = watch.call(Question::Pid(id.clone()), Purpose::Pid);
        if let State::Wanted { pause } = watch.state {
            self.enter(&id, State::Opening { pause, pid: None });
        }
        self.wanted.remove(&id);
        self.asking_pids.insert(id);
        Some(call)
    }

    /// The pid came, or did not; gives the process that is to be opened.
    pub(crate) fn on_pid(
        &mut self,
        id: &Id,
        answer: Result<Option<u32>, CallError>,
        now: Instant,
    ) -> Option<Found> {
        self.asking_pids.remove(id);
        match answer {
            Ok(Some(pid)) => self.on_pid_told(id, pid),
            Ok(None) => {
                let why = "the runtime does not report the PIDs of its containers".to_owned();
                self.refuse(id, why, None, None);
                None
            }
            // Nobody asks for it again.
            Err(CallError::Withheld) => {
                tracing::warn!("container {id} is not watched by its process: {PID_LOST}");
                self.refuse(id, PID_LOST.to_owned(), None, None);
                None
            }
            Err(error) => {
                self.refuse(id, error.to_string(), Some(now), None);
                None
            }
        }
    }

    fn on_pid_told(&mut self, id: &Id, told: u32) -> Option<Found> {
        let watch = self.watches.get(id)?;
        let (pause, again) = match &watch.state {
            State::Opening { pause, .. } => (*pause, None),
            State::Dead { pid, .. } if *pid != told => (UNWATCHED, Some(watch.pod.clone())),
            _ => return None,
        };
        let pid = Some(told);
        self.enter(id, State::Opening { pause, pid });
        Some(Found { pid: told, again })
    }

    /// The process was opened, or could not be.
    pub(crate) fn on_opened(&mut self, id: &Id, opened: Result<(), Unwatched>, now: Instant) {
        let state = self.watches.get(id).map(|watch| &watch.state);
        match opened {
            Ok(()) => {
                if let Some(State::Opening { pid: Some(pid), .. }) = state {
                    let pid = *pid;
                    self.enter(id, State::Live { pid });
                }
                if !std::mem::replace(&mut self.sees_pids, true) {
                    self.retry_unseen(now);
                }
            }
            Err(Unwatched::Ended(pid)) => {
                if let Some(State::Opening { .. }) = state {
                    self.enter(id, State::dead(pid, now));
                }
            }
            Err(why) => {
                let (retry, pid) = match why {
                    Unwatched::TooMany(_) | Unwatched::Silent => (Some(now), None),
                    Unwatched::NotSeen(pid) | Unwatched::NotIts(pid) => (Some(now), Some(pid)),
                    Unwatched::Unsupported(_) | Unwatched::Ended(_) => (None, None),
                };
                self.refuse(id, why.to_string(), retry, pid);
            }
        }
    }

    /// That the PIDs are ours was not known when these were not visible: they may prove to have
    /// ended.
    fn retry_unseen(&mut self, now: Instant) {
        for id in &self.refused {
            if let Some(Watch { state, .. }) = self.watches.get_mut(id)
                && let State::Refused {
                    retry: Some(retry),
                    pid: Some(_),
                    ..
                } = state
            {
                *retry = now;
            }
        }
    }

    /// Notes why a process is not watched; with a time, it is tried again some time after that.
    fn refuse(&mut self, id: &Id, why: String, now: Option<Instant>, pid: Option<u32>) {
        let watch = self.watches.get(id);
        let Some(State::Opening { pause, .. }) = watch.map(|watch| &watch.state) else {
            return;
        };
        let pause = *pause;
        tracing::debug!("{id} is not watched: {why}");
        let longest = match pid {
            Some(_) => LONGEST_UNSEEN,
            None => LONGEST_WITHHELD,
        };
        // That the PIDs are ours may have been found while this one was looked for.
        let was_early = pid.is_some() && self.sees_pids && pause == UNWATCHED;
        let wait = match was_early {
            true => Duration::ZERO,
            false => pause,
        };
        let refused = State::Refused {
            why,
            retry: now.map(|now| now + wait),
            pause: (pause * 2).min(longest),
            pid,
        };
        self.enter(id, refused);
    }

    /// Lets time pass: what was refused for a while is wanted again; gives whose processes are to
    /// be opened again.
    pub(crate) fn pass(&mut self, now: Instant) -> Vec<(Id, u32)> {
        let again = self.refused.iter().filter_map(|id| {
            match self.watches.get(id).map(|watch| &watch.state) {
                Some(State::Refused {
                    retry: Some(retry),
                    pause,
                    pid,
                    ..
                }) if now >= *retry => Some((id.clone(), *pause, *pid)),
                _ => None,
            }
        });
        let mut unseen = Vec::new();
        for (id, pause, pid) in again.collect::<Vec<_>>() {
            match pid {
                Some(told) => {
                    self.enter(&id, State::Opening { pause, pid });
                    unseen.push((id, told));
                }
                None => self.enter(&id, State::Wanted { pause }),
            }
        }
        unseen
    }

    /// When something is to be done by time alone.
    pub(crate) fn alarm(&self, now: Instant) -> Option<Instant> {
        let timed = self.dead.iter().chain(&self.refused);
        let timed = timed.filter_map(|id| self.watches.get(id));
        let alarms = timed.filter_map(|watch| match watch.state {
            State::Dead {
                asking: false,
                next,
                ..
            } => Some(next),
            State::Refused { retry, .. } => retry,
            _ => None,
        });
        // What is due and was not asked waits for room, which an answer makes, and not time.
        alarms.filter(|time| *time > now).min()
    }

    /// Whether the process of each container that is known to run is watched.
    pub(crate) fn are_all_watched(&self) -> bool {
        self.on && self.unwatched.is_empty()
    }

    /// Whether the kernel has reported the death of this container, or will.
    pub(crate) fn reports_death(&self, id: &Id) -> bool {
        let state = self.watches.get(id).map(|watch| &watch.state);
        matches!(state, Some(State::Live { .. } | State::Dead { .. }))
    }

    /// Whether the process of this container cannot be watched.
    pub(crate) fn is_refused(&self, id: &Id) -> bool {
        let state = self.watches.get(id).map(|watch| &watch.state);
        matches!(state, Some(State::Refused { .. }))
    }

    /// How it is with the watches, given whether PIDs may be asked for.
    pub(crate) fn status(&self, admits_pids: bool, births: BirthsStatus) -> KernelStatus {
        let live = |watch: &&Watch| matches!(watch.state, State::Live { .. } | State::Dead { .. });
        let watched = self.watches.values().filter(live).count();
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for watch in self.watches.values() {
            let why = match &watch.state {
                State::Refused { why, .. } => why,
                State::Wanted { .. } if !admits_pids => PIDS_LOST,
                _ => continue,
            };
            *reasons.entry(why).or_default() += 1;
        }
        let state = match (self.on, reasons.is_empty()) {
            (false, _) => "off",
            (true, false) if watched == 0 => "unavailable",
            (true, _) => "live",
        };
        let all: usize = reasons.values().sum();
        let most = reasons.iter().max_by_key(|(_, count)| **count);
        let why = most.map(|(why, count)| match (all, *count) {
            (1, _) => format!("1 container is not watched: {why}"),
            (all, count) if count == all => format!("{all} containers are not watched: {why}"),
            (all, count) => format!("{all} containers are not watched; {count} of them: {why}"),
        });
        KernelStatus {
            state: state.to_owned(),
            watched,
            why,
            births,
        }
    }
}

/// Of those that are asked about, how many may still answer: one that is stuck takes no
/// place from the others.
fn waited_for(asking: &BTreeSet<Id>, ledger: &Ledger) -> usize {
    let stuck = |id: &&Id| !ledger.is_stuck(&Question::Pid((*id).clone()).key());
    asking.iter().filter(stuck).count()
}

impl Watch {
    fn call(&self, question: Question, purpose: Purpose) -> (Call, About) {
        let about = about(&question, Some(&self.name), Some(&self.pod));
        (Call { question, purpose }, about)
    }
}
