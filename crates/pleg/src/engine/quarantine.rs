//! The status calls during which the connection to the runtime was lost: one of them may be why.
//!
//! ```text
//!   lost once --> lost again: quarantine --> lost alone twice: withheld for 1, 4, 16 ... 300 s
//!        \__________________\_________________________________\--> answered, or outstanding for a
//!                                                                  second: an ordinary call again
//! ```
//!
//! One loss is a restart, and most restarts have nothing to do with a call: all that was outstanding is
//! sent again side by side. What is lost twice in succession is in quarantine: of these one at a time is
//! outstanding, and the next one is sent as soon as it is answered. Calls that are not in quarantine go
//! on meanwhile: a quarantined call may hang for a second, and no other pod waits for it.
//!
//! A quarantined call that is lost was alone. Twice in succession is reported, and the call is withheld
//! with back-off. The report states only what was observed: the runtime may have ended for another
//! reason. So no call is given up, and the first answer clears it.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::call::{Call, Key, Request};
use super::limits::{CRASH_WITHIN, MAX_WITHHELD_PAUSE, RECONNECT_WITHIN};
use super::losses::Losses;
use crate::model::id::Id;
use crate::out::status_report::SuspectCall;

/// What is done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It is sent.
    Send,
    /// It is in quarantine, and waits for its turn.
    Wait,
    /// It is not sent for now.
    Withhold,
}

/// The calls during which the connection was lost, and those of them that wait for their turn.
#[derive(Debug)]
pub(crate) struct Quarantine {
    suspects: BTreeMap<Request, Suspect>,
    waiting: Vec<Call>,
    /// The quarantined call that is outstanding, and when it was sent.
    sent: Option<(Request, Instant)>,
    /// When the connection was last lost, until a call is answered that was sent since.
    lost_at: Option<Instant>,
    /// The losses of quarantined PID calls in succession, of any containers, and the last one.
    pids: Losses,
    pid_lost_at: Option<Instant>,
}

/// A call that was lost, and has not been answered since.
#[derive(Debug)]
struct Suspect {
    is_quarantined: bool,
    /// The losses while it was the only quarantined call that was outstanding.
    alone: Losses,
    alone_at: Option<Instant>,
    /// Its answer is needed, by the last lists.
    is_wanted: bool,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self {
            suspects: BTreeMap::new(),
            waiting: Vec::new(),
            sent: None,
            lost_at: None,
            pids: Losses::new(MAX_WITHHELD_PAUSE),
            pid_lost_at: None,
        }
    }
}

impl Suspect {
    fn new() -> Self {
        Self {
            is_quarantined: false,
            alone: Losses::new(MAX_WITHHELD_PAUSE),
            alone_at: None,
            is_wanted: true,
        }
    }

    fn is_withheld(&self, request: &Request, now: Instant) -> bool {
        match request {
            // Useful, and not worth another crash.
            Request::Pid(_) => !self.alone.is_none(),
            _ => self
                .alone_at
                .is_some_and(|at| now < at + self.alone.pause()),
        }
    }
}

impl Quarantine {
    /// The connection was lost before the answer to a call that was `sent` then.
    pub(crate) fn lost(&mut self, request: &Request, sent: Instant, now: Instant) {
        self.lost_at = Some(now);
        let was_alone = self.ended(request);
        if request.key().1.is_none() {
            return;
        }
        if now >= sent + CRASH_WITHIN {
            self.suspects.remove(request);
            return;
        }
        let Some(suspect) = self.suspects.get_mut(request) else {
            self.suspects.insert(request.clone(), Suspect::new());
            return;
        };
        suspect.is_quarantined = true;
        suspect.is_wanted = true;
        if was_alone {
            suspect.alone.count();
            suspect.alone_at = Some(now);
            if let Request::Pid(_) = request {
                self.pids.count();
                self.pid_lost_at = Some(now);
            }
        }
    }

    /// The runtime has answered a call that was `sent` then, perhaps by an error.
    pub(crate) fn answered(&mut self, request: &Request, sent: Instant) {
        self.ended(request);
        self.suspects.remove(request);
        if let Request::Pid(_) = request {
            self.pids.forget();
        }
        self.lost_at.take_if(|lost| sent > *lost);
    }

    /// There was no connection on which to send it.
    pub(crate) fn not_sent(&mut self, request: &Request) {
        self.ended(request);
    }

    /// A call has ended; whether it was the quarantined one that was outstanding.
    fn ended(&mut self, request: &Request) -> bool {
        self.sent.take_if(|(sent, _)| sent == request).is_some()
    }

    /// Takes the quarantined call that has been outstanding for as long as a crash takes: the runtime
    /// is still there. The call may hang.
    pub(crate) fn take_survivor(&mut self, now: Instant) -> Option<Request> {
        let (request, _) = self.sent.take_if(|(_, sent)| now >= *sent + CRASH_WITHIN)?;
        self.suspects.remove(&request);
        Some(request)
    }

    /// What is done about this call now.
    pub(crate) fn admit(&self, request: &Request, now: Instant) -> Admission {
        match self.suspects.get(request) {
            Some(suspect) if suspect.is_withheld(request, now) => Admission::Withhold,
            Some(suspect) if suspect.is_quarantined => Admission::Wait,
            _ => Admission::Send,
        }
    }

    /// Whether PIDs are requested: a runtime may crash on that of each container.
    pub(crate) fn admits_pids(&self, now: Instant) -> bool {
        let until = self.pid_lost_at.map(|at| at + self.pids.pause());
        until.is_none_or(|until| now >= until)
    }

    /// A call waits for its turn.
    pub(crate) fn wait(&mut self, call: Call) {
        self.waiting.push(call);
    }

    /// Takes the call whose turn it is. One that was lost alone is sent after all others: a runtime that
    /// never stays for long loses another one each time.
    pub(crate) fn take_next(&mut self, now: Instant) -> Option<Call> {
        let is_back = self
            .lost_at
            .is_none_or(|lost| now >= lost + RECONNECT_WITHIN);
        if self.sent.is_some() || !is_back {
            return None;
        }
        let alone_at = |call: &Call| self.suspects.get(&call.request)?.alone_at;
        let places = self.waiting.iter().enumerate();
        let (place, _) = places.min_by_key(|(_, call)| alone_at(call))?;
        let call = self.waiting.remove(place);
        self.sent = Some((call.request.clone(), now));
        Some(call)
    }

    /// When time alone lets the next call be sent.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        let survives = self.sent.as_ref().map(|(_, sent)| *sent + CRASH_WITHIN);
        let back = self.lost_at.map(|lost| lost + RECONNECT_WITHIN);
        survives.or(back.filter(|_| !self.waiting.is_empty()))
    }

    /// Whether it may be called only to see whether the runtime answers it.
    pub(crate) fn may_be_witness(&self, request: &Request) -> bool {
        let suspect = self.suspects.get(request);
        suspect.is_none_or(|suspect| !suspect.is_quarantined)
    }

    /// Lists were answered: of the ids of suspects these exist, and the status of some is wanted.
    /// What was observed of the others is remembered, for they may be called again.
    pub(crate) fn listed(&mut self, is_wanted: &BTreeMap<Id, bool>) {
        self.suspects.retain(|request, suspect| {
            let listed = request.key().1.and_then(|id| is_wanted.get(&id));
            suspect.is_wanted = listed.copied().unwrap_or_default();
            listed.is_some()
        });
    }

    /// The ids of suspects.
    pub(crate) fn ids(&self) -> BTreeSet<Id> {
        let ids = self.suspects.keys().filter_map(|request| request.key().1);
        ids.collect()
    }

    /// Of how many needed status calls the answer was lost, of those that are not `reported` otherwise.
    pub(crate) fn lost_calls(&self, is_reported: impl Fn(&Key) -> bool) -> usize {
        let needed = self.needed();
        needed.filter(|key| !is_reported(key)).count()
    }

    /// All that are needed.
    pub(crate) fn calls(&self) -> impl Iterator<Item = SuspectCall> {
        self.needed()
            .filter_map(|(call, id)| Some(SuspectCall { call, id: id? }))
    }

    /// A call for a PID shows nothing of the same call without it.
    fn needed(&self) -> impl Iterator<Item = Key> {
        let needed = self
            .suspects
            .iter()
            .filter(|(request, suspect)| suspect.is_wanted && !matches!(request, Request::Pid(_)));
        needed.map(|(request, _)| request.key())
    }
}

#[cfg(test)]
mod tests;
