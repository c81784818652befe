//! Which calls are sent now: each component that wants calls is queried in a fixed order, and the
//! ledger admits them. No component sends a call itself.

use tokio::time::Instant;

use super::call::{Call, Purpose, Request};
use super::limits::{MAX_STATUS_OVERDUE, SUSPECT_AFTER};
use super::quarantine::Admission;
use super::state::{Action, Engine};
use crate::model::listed::ListedPod;
use crate::model::wall_time::Moment;
use crate::observer::Measurement;
use crate::out::record::Record;
use crate::runtime::{About, Rpc};

impl Engine {
    /// Sends all wanted calls that the ledger has room for. The loop ends, because each component
    /// hands out a call only once, whether it is sent or withheld, and a witness is chosen only if
    /// it can be sent.
    pub(super) fn send_calls(&mut self, now: Moment) {
        self.send_postponed(now.instant);
        while let Some((call, about)) = self.next_call(now) {
            self.send(call, about, now);
        }
        self.send_postponed(now.instant);
    }

    /// The next wanted call: first those that follow exits, then inspections, then sweeps, then births,
    /// of which many may be due at once, then PIDs, then a witness. Lists are last, because an inspection
    /// shows its pod sooner than they do.
    fn next_call(&mut self, now: Moment) -> Option<(Call, About)> {
        let instant = now.instant;
        let admits_pids = self.quarantine.admits_pids(instant);
        let ledger = &mut self.ledger;
        let processes = &mut self.sources.processes;
        processes
            .next_death(ledger, instant)
            .or_else(|| self.inspector.next_call(ledger, &mut self.records, instant))
            .or_else(|| self.sweeper.next_call(ledger, instant))
            .or_else(|| self.sources.births.next_call(ledger, instant))
            .or_else(|| admits_pids.then(|| processes.next_pid(ledger, instant))?)
            .or_else(|| self.next_witness(instant))
            .or_else(|| self.next_for_node(now))
    }

    /// A list that is due, or `Version`. `Version` is called before a list while the runtime is unknown,
    /// and as a heartbeat while a list is overdue or no other call is made. It waits for no lock of the
    /// runtime, so its answer distinguishes a list that one container blocks from an unresponsive runtime.
    fn next_for_node(&mut self, now: Moment) -> Option<(Call, About)> {
        let ages = self.ages(now.instant);
        if self.relister.is_version_suspect(ages) {
            self.relister.skip_version();
        }
        let next_heartbeat = self.probes.last_heartbeat + SUSPECT_AFTER;
        let is_quiet = self.quiet_until().is_some_and(|until| now.instant >= until);
        let needs_heartbeat =
            now.instant >= next_heartbeat && (is_quiet || self.relister.is_overdue(ages));
        let request = if needs_heartbeat && ages.version.is_none() {
            self.probes.last_heartbeat = now.instant;
            Request::Version
        } else {
            self.relister.next_call(ages.version.is_some(), now)?
        };
        if request != Request::Version
            && ages.oldest_list().is_none()
            && let Some(last) = self.relister.last_good()
        {
            let since = now.instant.duration_since(last);
            self.measure(Measurement::RelistBegan(since));
        }
        let about = About::node(request.key().0);
        let purpose = Purpose::Usual;
        Some((Call { request, purpose }, about))
    }

    /// When a heartbeat is due although no list is overdue: while the stream is trusted, lists are
    /// rare, and a quiet node causes no other calls. A kubelet is NotReady 30 s after its `Status`
    /// calls began to fail, and the call costs the runtime less than a list. `None` without a connection.
    pub(super) fn quiet_until(&self) -> Option<Instant> {
        let is_connected = !self.relister.needs_version();
        is_connected.then(|| self.ledger.last_answer() + MAX_STATUS_OVERDUE)
    }

    /// Sends the quarantined call whose turn it is. [`send_calls`](Self::send_calls) does this before
    /// other calls take the free places, and again when all calls that wait are known.
    fn send_postponed(&mut self, now: Instant) {
        if self.ledger.has_room()
            && let Some(call) = self.quarantine.take_next(now)
        {
            self.ledger.send_postponed(&call.request.key(), now);
            self.act(Action::Send(call));
        }
    }

    /// The next witness: a status call of another pod. It is needed while a status call is overdue
    /// and few calls of its kind were sent later. It is also needed while nothing is answered, as a
    /// sign that the runtime is back.
    fn next_witness(&mut self, now: Instant) -> Option<(Call, About)> {
        let witness = self.ledger.wants_witness(now);
        let kinds = match witness.filter(|_| self.ledger.has_room_for_witness()) {
            Some(kind) => vec![kind],
            None => self.ledger.wants_sign_of_life(now)?.into(),
        };
        let found = kinds
            .into_iter()
            .find_map(|kind| self.witness_of_kind(kind));
        let (about, request) = found?;
        self.probes.last_witness = about.pod.as_ref().map(|pod| pod.uid.clone());
        let purpose = Purpose::Witness;
        Some((Call { request, purpose }, about))
    }

    /// A status call of this kind that is not outstanding, of the next pod after that of the last
    /// witness.
    fn witness_of_kind(&self, kind: Rpc) -> Option<(About, Request)> {
        // A failing call is not used as a witness.
        let is_free = |request: &Request| {
            let key = request.key();
            !self.ledger.is_outstanding(&key)
                && !self.unobserved.failures.is_failing(&key)
                && self.quarantine.can_be_witness(request)
        };
        let last = self.probes.last_witness.as_ref();
        let is_next = |pod: &&ListedPod| Some(&pod.pod.uid) > last;
        let listed = || self.records.listed().map(AsRef::as_ref);
        let mut pods = listed()
            .filter(is_next)
            .chain(listed().filter(|pod| !is_next(pod)));
        pods.find_map(|pod| {
            let mut requests = Request::all_of(pod).filter(|request| request.key().0 == kind);
            let request = requests.find(&is_free)?;
            Some((request.about_in(pod), request))
        })
    }

    fn send(&mut self, call: Call, about: About, now: Moment) {
        let is_observation = call.purpose.is_observation();
        let instant = now.instant;
        match self.quarantine.admit(&call.request, instant) {
            Admission::Send => {
                self.ledger.begin_as(about, is_observation, instant);
                self.act(Action::Send(call));
            }
            Admission::Wait => {
                self.ledger.postpone(about, is_observation, instant);
                self.quarantine.wait(call);
            }
            Admission::Withhold => self.withhold(call, about, now),
        }
    }

    pub(super) fn act(&mut self, action: Action) {
        self.out.actions.push(action);
    }

    pub(super) fn measure(&mut self, measurement: Measurement) {
        self.act(Action::Measure(measurement));
    }

    pub(super) fn publish(&mut self, record: Record) {
        self.act(Action::Publish(record));
    }
}
