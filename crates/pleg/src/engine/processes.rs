//! The processes of running containers: the end of one is a hint.
//!
//! ```text
//!   a container runs --> its PID (verbose ContainerStatus) --> opened --> live --ends-->
//!     dead: its status is requested, after growing pauses, until it shows the exit --> hint
//!        \-- after 2 s the status still shows it as running: a contradiction, which is reported. If its
//!            PID is another one by then, it was restarted under its id, as Docker does
//!   the runtime does not list it any more --> watched for as long as its process runs, which is
//!     reported: a runtime that could not read its own records has lost it
//! ```
//!
//! On any runtime, the kernel knows of an exit some 60 ms before the runtime reports it, and also
//! while neither lists nor events arrive.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::ledger::Ledger;
use tokio::time::Instant;

mod deaths;

use super::call::{Call, Purpose, Request};
use super::limits::{FIRST_DEATH_PAUSE, FIRST_RETRY_PAUSE, MAX_WITHHELD_PAUSE};
use crate::kernel::Unwatched;
use crate::model::id::{Id, PodRef};
use crate::out::coverage::Failing;
use crate::out::failure::InspectError;
use crate::out::status_report::{BirthsStatus, KernelStatus};
use crate::records::just_after;
use crate::runtime::{About, CallError, Rpc};

const PIDS_UNREPORTED: &str = "the runtime does not report the PIDs of its containers";
const PID_LOST: &str = "the connection to the runtime was lost when its PID was requested";
const PIDS_LOST: &str =
    "the connection to the runtime was lost when the PIDs of others were requested";

/// The processes that are watched.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    is_enabled: bool,
    /// Whether any process could be opened by the PID that the runtime reported. If so, this process and
    /// the runtime use the same PID namespace.
    has_opened_process: bool,
    /// Boxed, because a map of large values leaves much of its memory unused.
    watches: BTreeMap<Id, Box<Watch>>,
    /// The ids whose PID is to be requested, each with the time at which that is due.
    wanted: BTreeSet<(Instant, Id)>,
    /// The ids whose process has ended. A live process needs no work, so its id is in neither set.
    dead: BTreeSet<Id>,
    /// How many containers could not be watched and wait for another attempt.
    failed: usize,
    /// The containers whose process runs although the runtime no longer lists them, and since when.
    unlisted: BTreeMap<Id, Instant>,
}

#[derive(Debug)]
struct Watch {
    pod: PodRef,
    name: Arc<str>,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The PID is to be requested at `at`, or later once there is room. `why` is why the process could
    /// not be watched before.
    Wanted {
        at: Instant,
        pause: Duration,
        why: Option<Cow<'static, str>>,
    },
    /// The call for the PID is outstanding, or the process is being opened.
    Opening { pause: Duration, pid: Option<u32> },
    /// The process is watched: the kernel will report its end.
    Live { pid: u32 },
    /// The process has ended, and the runtime does not report that yet.
    Dead {
        pid: u32,
        since: Instant,
        next: Instant,
        pause: Duration,
        /// Whether the runtime has reported the container as running after the exit.
        is_denied: bool,
    },
}

impl State {
    /// The state of a process that was just found to have ended.
    fn dead(pid: u32, now: Instant) -> Self {
        Self::Dead {
            pid,
            since: now,
            next: now + FIRST_DEATH_PAUSE,
            pause: FIRST_DEATH_PAUSE,
            is_denied: false,
        }
    }
}

impl Processes {
    /// Processes are watched only if `is_enabled`.
    pub(crate) fn new(is_enabled: bool) -> Self {
        Self {
            is_enabled,
            ..Self::default()
        }
    }

    /// Watches the process of a running container.
    pub(crate) fn watch(&mut self, id: &Id, name: &Arc<str>, pod: &PodRef, now: Instant) {
        self.unlisted.remove(id);
        if self.is_enabled && !self.watches.contains_key(id) {
            let watch = Watch {
                pod: pod.clone(),
                name: name.clone(),
                state: State::Wanted {
                    at: now,
                    pause: FIRST_RETRY_PAUSE,
                    why: None,
                },
            };
            self.watches.insert(id.clone(), Box::new(watch));
            self.wanted.insert((now, id.clone()));
        }
    }

    /// Records that a container is no longer listed. Returns whether its process runs and stays watched.
    pub(crate) fn unlist(&mut self, id: &Id, now: Instant) -> bool {
        let is_live = matches!(self.state(id), Some(State::Live { .. }));
        if is_live {
            self.unlisted.entry(id.clone()).or_insert(now);
        }
        is_live
    }

    /// Forgets a container that has ended or was removed. Returns whether its process was watched or
    /// to be watched.
    pub(crate) fn forget(&mut self, id: &Id) -> bool {
        self.take_from_sets(id);
        self.unlisted.remove(id);
        self.watches.remove(id).is_some()
    }

    fn state(&self, id: &Id) -> Option<&State> {
        self.watches.get(id).map(|watch| &watch.state)
    }

    /// Changes the state of a watch, and updates the sets.
    fn enter(&mut self, id: &Id, state: State) {
        self.take_from_sets(id);
        let Some(watch) = self.watches.get_mut(id) else {
            return;
        };
        match &state {
            State::Wanted { at, why, .. } => {
                self.failed += usize::from(why.is_some());
                self.wanted.insert((*at, id.clone()));
            }
            State::Dead { .. } => {
                self.dead.insert(id.clone());
            }
            State::Opening { .. } | State::Live { .. } => {}
        }
        watch.state = state;
    }

    fn take_from_sets(&mut self, id: &Id) {
        match self.watches.get(id).map(|watch| &watch.state) {
            Some(State::Wanted { at, why, .. }) => {
                self.failed -= usize::from(why.is_some());
                self.wanted.remove(&(*at, id.clone()));
            }
            Some(State::Dead { .. }) => {
                self.dead.remove(id);
                // While the runtime reports the container as running, its PID is requested again, so the
                // id may be in `wanted` too.
                self.wanted.retain(|(_, wanted)| wanted != id);
            }
            _ => {}
        }
    }

    /// The next call for a PID, if one is due.
    pub(crate) fn next_pid(&mut self, ledger: &Ledger, now: Instant) -> Option<(Call, About)> {
        if !ledger.has_room() {
            return None;
        }
        let is_free = |id: &Id| !ledger.is_outstanding(&Request::Pid(id.clone()).key());
        let mut due = self.wanted.iter().take_while(|(at, _)| *at <= now);
        let wanted = due.find(|(_, id)| is_free(id))?.clone();
        self.wanted.remove(&wanted);
        let (_, id) = wanted;
        let watch = self.watches.get(&id)?;
        let call = watch.call(Request::Pid(id.clone()), Purpose::Usual);
        if let State::Wanted { pause, .. } = watch.state {
            self.enter(&id, State::Opening { pause, pid: None });
        }
        Some(call)
    }

    /// Takes in the answer to a PID call. Returns the PID of the process to open.
    pub(crate) fn on_pid(
        &mut self,
        id: &Id,
        answer: Result<Option<u32>, CallError>,
        now: Instant,
    ) -> Option<u32> {
        let why = match answer {
            Ok(Some(pid)) => return self.open(id, pid),
            Ok(None) => PIDS_UNREPORTED.into(),
            Err(CallError::Withheld) => {
                tracing::warn!("the process of container {id} is not watched: {PID_LOST}");
                PID_LOST.into()
            }
            Err(error) => error.to_string().into(),
        };
        self.retry(id, why, now);
        None
    }

    fn open(&mut self, id: &Id, reported: u32) -> Option<u32> {
        let pause = match *self.state(id)? {
            State::Opening { pause, .. } => pause,
            // The container was restarted under its id.
            State::Dead { pid, .. } if pid != reported => FIRST_RETRY_PAUSE,
            _ => return None,
        };
        let pid = Some(reported);
        self.enter(id, State::Opening { pause, pid });
        pid
    }

    /// Takes in whether the process of a container is watched now.
    pub(crate) fn on_opened(&mut self, id: &Id, opened: Result<(), Unwatched>, now: Instant) {
        let state = self.state(id);
        match opened {
            Ok(()) => {
                if let Some(&State::Opening { pid: Some(pid), .. }) = state {
                    self.enter(id, State::Live { pid });
                }
                if !std::mem::replace(&mut self.has_opened_process, true) {
                    self.retry_all(now);
                }
            }
            Err(Unwatched::Ended(pid)) => {
                if let Some(State::Opening { .. }) = state {
                    self.enter(id, State::dead(pid, now));
                }
            }
            Err(why) => self.retry(id, why.to_string().into(), now),
        }
    }

    /// Requests all wanted PIDs again now. PIDs are known to be visible, so a process that was not
    /// visible before may have ended.
    fn retry_all(&mut self, now: Instant) {
        for (_, id) in std::mem::take(&mut self.wanted) {
            let watch = self.watches.get_mut(&id);
            if let Some(State::Wanted { at, .. }) = watch.map(|watch| &mut watch.state) {
                *at = now;
                self.wanted.insert((now, id));
            }
        }
    }

    /// Records why a process is not watched, and tries again after a pause.
    fn retry(&mut self, id: &Id, why: Cow<'static, str>, now: Instant) {
        let Some(&State::Opening { pause, .. }) = self.state(id) else {
            return;
        };
        tracing::debug!("the process of container {id} is not watched: {why}");
        let wanted = State::Wanted {
            at: now + pause,
            pause: (pause * 2).min(MAX_WITHHELD_PAUSE),
            why: Some(why),
        };
        self.enter(id, wanted);
    }

    /// When something is next due if no call ends.
    pub(crate) fn alarm(&self, now: Instant) -> Option<Instant> {
        let dead = self.dead.iter().filter_map(|id| match self.state(id)? {
            State::Dead { next, .. } => Some(*next),
            _ => None,
        });
        // What is already due waits for an answer, not for a time.
        let mut wanted = self.wanted.range((just_after(now), Id::from(""))..);
        let wanted = wanted.next().map(|(at, _)| *at);
        dead.filter(|time| *time > now).chain(wanted).min()
    }

    /// Whether each process is watched, or will be soon.
    pub(crate) fn are_all_watched(&self) -> bool {
        self.is_enabled && self.failed == 0
    }

    /// The state of the watches. `admits_pids` is whether PIDs may be requested now.
    pub(crate) fn status(&self, admits_pids: bool, births: BirthsStatus) -> KernelStatus {
        let states = self.watches.values().map(|watch| &watch.state);
        let is_live = |state: &&State| matches!(state, State::Live { .. } | State::Dead { .. });
        let watched = states.filter(is_live).count();
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for watch in self.watches.values() {
            let why = match &watch.state {
                State::Wanted { why: Some(why), .. } => why,
                State::Wanted { .. } if !admits_pids => PIDS_LOST,
                _ => continue,
            };
            *reasons.entry(why).or_default() += 1;
        }
        let state = match (self.is_enabled, reasons.is_empty()) {
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

impl Watch {
    fn call(&self, request: Request, purpose: Purpose) -> (Call, About) {
        let about = request.about(Some(&self.name), Some(&self.pod));
        (Call { request, purpose }, about)
    }

    /// A report that the kernel and the runtime disagree about this container.
    fn failing(&self, id: &Id, error: InspectError, since: Instant) -> Failing {
        Failing {
            id: id.clone(),
            call: Rpc::ContainerStatus,
            container: Some(self.name.clone()),
            pod: Some(self.pod.clone()),
            error,
            since,
            unobserved_since: since,
        }
    }
}
