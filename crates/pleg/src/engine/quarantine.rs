//! Suspects are status calls during which the connection to the runtime was lost: one of them may have
//! crashed the runtime. A call that is lost twice in succession is quarantined.
//!
//! ```text
//!   lost once --> lost again: quarantine --> lost alone twice: withheld for 1, 4, 16 ... 300 s
//!        \__________________\________________________________\--> answered, or outstanding for a
//!                                                                 second: an ordinary call again
//! ```
//!
//! A single loss usually means that the runtime was restarted, which has nothing to do with a call, so all
//! outstanding calls are sent again concurrently. At most one quarantined call is outstanding, and the
//! next one is sent as soon as it is answered. Ordinary calls continue meanwhile: a quarantined call may
//! be outstanding for a second, and no other pod waits for it.
//!
//! A quarantined call is sent *alone*: no other quarantined call is outstanding, although ordinary calls
//! may be. A call that was lost alone twice in succession is reported and withheld, with back-off. The
//! report states only what was observed, because the runtime may have ended for another reason. The call
//! is always tried again, and its first answer ends the quarantine. A call for a PID is different: after
//! one loss in quarantine it is not sent again.

use std::collections::{BTreeMap, BTreeSet};

use tokio::time::Instant;

use super::call::{Call, Request};
use super::limits::{MAX_WITHHELD_PAUSE, RECONNECT_WITHIN, SUSPECT_AFTER};
use super::losses::Losses;
use crate::model::id::Id;
use crate::out::status_report::SuspectCall;

/// What to do with a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Send it.
    Send,
    /// It is quarantined: send it when it is its turn.
    Wait,
    /// Do not send it now.
    Withhold,
}

/// The suspect calls, and those of them that wait for their turn.
#[derive(Debug)]
pub(crate) struct Quarantine {
    suspects: BTreeMap<Request, Suspect>,
    waiting: Vec<Call>,
    /// The quarantined call that is outstanding, and when it was sent.
    sent: Option<(Request, Instant)>,
    /// When the connection was last lost; `None` once a call that was sent later is answered.
    lost_at: Option<Instant>,
    /// The consecutive losses of quarantined PID calls, of any container.
    pids: Losses,
}

/// A call that was lost, and has not been answered since.
#[derive(Debug)]
struct Suspect {
    is_quarantined: bool,
    /// The losses while it was the only outstanding quarantined call.
    alone: Losses,
}

impl Default for Quarantine {
    fn default() -> Self {
        Self {
            suspects: BTreeMap::new(),
            waiting: Vec::new(),
            sent: None,
            lost_at: None,
            pids: Losses::new(MAX_WITHHELD_PAUSE),
        }
    }
}

impl Suspect {
    fn is_withheld(&self, request: &Request, now: Instant) -> bool {
        match request {
            // A PID is useful, but not worth another crash.
            Request::Pid(_) => !self.alone.is_none(),
            _ => self.alone.until() > Some(now),
        }
    }
}

impl Quarantine {
    /// Records that the connection was lost before the answer to this call, which was `sent` then.
    pub(crate) fn lost(&mut self, request: &Request, sent: Instant, now: Instant) {
        self.lost_at = Some(now);
        let was_alone = self.ended(request);
        if request.id().is_none() {
            return;
        }
        if now >= sent + SUSPECT_AFTER {
            self.suspects.remove(request);
            return;
        }
        let Some(suspect) = self.suspects.get_mut(request) else {
            let suspect = Suspect {
                is_quarantined: false,
                alone: Losses::new(MAX_WITHHELD_PAUSE),
            };
            self.suspects.insert(request.clone(), suspect);
            return;
        };
        suspect.is_quarantined = true;
        if was_alone {
            suspect.alone.count(now);
            if let Request::Pid(_) = request {
                self.pids.count(now);
            }
        }
    }

    /// Records that this call, which was `sent` then, was answered, perhaps with an error. So it is no
    /// longer a suspect.
    pub(crate) fn answered(&mut self, request: &Request, sent: Instant) {
        self.ended(request);
        self.suspects.remove(request);
        if let Request::Pid(_) = request {
            self.pids.forget();
        }
        self.lost_at.take_if(|lost| sent > *lost);
    }

    /// Gives up the turn of a call that could not be sent, because there was no connection.
    pub(crate) fn not_sent(&mut self, request: &Request) {
        self.ended(request);
    }

    /// Ends the turn of a call. Returns whether the call was the outstanding quarantined one.
    fn ended(&mut self, request: &Request) -> bool {
        self.sent.take_if(|(sent, _)| sent == request).is_some()
    }

    /// Takes the quarantined call that has been outstanding for as long as a crash takes. It did
    /// not crash the runtime, but it may be stuck.
    pub(crate) fn take_survivor(&mut self, now: Instant) -> Option<Request> {
        let (request, _) = self
            .sent
            .take_if(|(_, sent)| now >= *sent + SUSPECT_AFTER)?;
        self.suspects.remove(&request);
        Some(request)
    }

    /// What to do with this call now.
    pub(crate) fn admit(&self, request: &Request, now: Instant) -> Admission {
        match self.suspects.get(request) {
            Some(suspect) if suspect.is_withheld(request, now) => Admission::Withhold,
            Some(suspect) if suspect.is_quarantined => Admission::Wait,
            _ => Admission::Send,
        }
    }

    /// Whether PIDs may be requested. A runtime may crash on the PID of any container.
    pub(crate) fn admits_pids(&self, now: Instant) -> bool {
        self.pids.until() <= Some(now)
    }

    /// Adds a call to those that wait for their turn.
    pub(crate) fn wait(&mut self, call: Call) {
        self.waiting.push(call);
    }

    /// Takes the call whose turn it is. A call that was lost alone is sent last. So if the runtime crashes
    /// for another reason, a different call is lost each time, and none is withheld.
    pub(crate) fn take_next(&mut self, now: Instant) -> Option<Call> {
        let lost_at = self.lost_at;
        if self.sent.is_some() || lost_at.is_some_and(|lost| now < lost + RECONNECT_WITHIN) {
            return None;
        }
        let lost_alone = |call: &Call| self.suspects.get(&call.request)?.alone.until();
        let places = self.waiting.iter().enumerate();
        let (place, _) = places.min_by_key(|(_, call)| lost_alone(call))?;
        let call = self.waiting.remove(place);
        self.sent = Some((call.request.clone(), now));
        Some(call)
    }

    /// When the next call may be sent if no call ends.
    pub(crate) fn alarm(&self) -> Option<Instant> {
        let survives = self.sent.as_ref().map(|(_, sent)| *sent + SUSPECT_AFTER);
        let back = self.lost_at.map(|lost| lost + RECONNECT_WITHIN);
        survives.or(back.filter(|_| !self.waiting.is_empty()))
    }

    /// Whether this call may be used as a witness.
    pub(crate) fn can_be_witness(&self, request: &Request) -> bool {
        let suspect = self.suspects.get(request);
        suspect.is_none_or(|suspect| !suspect.is_quarantined)
    }

    /// The ids of the suspect calls.
    pub(crate) fn ids(&self) -> BTreeSet<Id> {
        let ids = self.suspects.keys().filter_map(Request::id);
        ids.cloned().collect()
    }

    /// Lists were taken in: forgets the calls about ids that are not `listed`.
    pub(crate) fn keep(&mut self, listed: &BTreeSet<Id>) {
        self.suspects
            .retain(|request, _| request.id().is_some_and(|id| listed.contains(id)));
    }

    /// The suspect calls. A PID call is left out: it is no evidence about the same call without the PID.
    pub(crate) fn calls(&self) -> impl Iterator<Item = SuspectCall> {
        let suspects = self.suspects.keys();
        let calls = suspects.filter(|request| !matches!(request, Request::Pid(_)));
        calls.filter_map(|request| match request.key() {
            (call, Some(id)) => Some(SuspectCall { call, id }),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests;
