//! From rounds to what was seen: the coverage of this moment, and what is told of it.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tokio::time::Instant;

use super::call::List;
use super::governor::SMALLEST_WINDOW;
use super::reporter::Seen;
use super::rounds::{Awaited, Ended, LASTING};
use super::standing::{Ages, Missing};
use super::state::Engine;
use crate::model::id::{Id, PodRef, PodUid};
use crate::model::snapshot::Counts;
use crate::model::wall_time::Moment;
use crate::out::coverage::{Coverage, Failing, Lists, LookKind, Statuses};
use crate::out::failure::InspectError;
use crate::out::health::{Blind, HealthState, INSPECTIONS_FAIL};
use crate::out::told::Record;
use crate::runtime::{About, CallError, OutstandingCall, Rpc};

/// The target of log lines about our health, for those who show it in another way.
const HEALTH_LOG: &str = "pleg::health";

/// A pod that differs is inspected within this time, unless the runtime is slow.
const INSPECTED_WITHIN: Duration = Duration::from_secs(2);

/// How many pods are named that were not seen.
const MOST_NOT_SEEN: usize = 16;

/// One that it has waited for in vain is not waited for within this time.
const PROMPT: Duration = Duration::from_secs(60);

impl Engine {
    /// All pods have been looked at: what differs is being inspected; inspections up to `older`
    /// were planned before that.
    pub(super) fn begin_round(&mut self, begun: Moment, kind: LookKind, older: u64, now: Moment) {
        let (governor, records, unasked) = (&self.governor, &self.records, &self.unasked);
        let (lasting, failures) = (&self.lasting, &self.failures);
        self.rounds.begin(now.instant, begun, kind, older, || {
            // Who is named already is not waited for.
            let mut named = unasked.clone();
            named.extend(lasting.keys().cloned());
            let stuck = governor.stuck(|uid| records.knows(uid));
            named.extend(stuck.filter_map(|call| Some(call.about.pod?.uid)));
            let inspecting = records.inspecting();
            let waiting = inspecting - &named;
            Awaited {
                all_fail: waiting.iter().all(|uid| failures.of(uid).is_some()),
                given_up: inspecting & &named,
                waiting,
            }
        });
        let slow = self
            .lasting
            .keys()
            .filter(|uid| records.inspecting().contains(*uid));
        for uid in slow.cloned().collect::<Vec<_>>() {
            self.note_lasting(&uid, now);
        }
    }

    pub(super) fn complete_round(&mut self, now: Moment) {
        if !self.rounds.is_over() {
            return;
        }
        match self.rounds.complete(now.instant, self.seen_as_of(now)) {
            Ended::Nothing => {}
            Ended::Blind => {
                tracing::debug!("no pod was seen by this look");
                self.hurry(now);
            }
            Ended::Look {
                look,
                first,
                missed,
            } => {
                // And those that were not seen before, and are not yet.
                let unseen = self.differing.up_to(look.begun.instant);
                self.missed = missed;
                self.missed.extend(unseen.map(|(uid, _)| uid.clone()));
                let counts = match look.kind {
                    LookKind::List => self.counts,
                    LookKind::Sweep => Counts::of(self.records.listed().map(AsRef::as_ref)),
                };
                self.observer.seen(&look, counts);
                if first {
                    let synced = self.synced(now);
                    self.publish(&synced);
                }
            }
        }
    }

    /// As of when the round under way has seen somebody, if it has: now, or, where all pods wait for
    /// a slow runtime, as of the newest inspection.
    fn seen_as_of(&self, now: Moment) -> Option<Moment> {
        if self.records.listed().next().is_none() {
            // Only a list of sandboxes shows that there are none: a sweep asks for what is known.
            let blind = self.relister.blind(self.ages(now.instant));
            let is_list = self.rounds.kind() == Some(LookKind::List);
            return (is_list || !blind.sandboxes).then_some(now);
        }
        // One that was never inspected, or that only an event has named, was not seen. And who
        // came after the first lists does not make a look of them.
        let first = self.rounds.looks() == 0;
        if first && self.rounds.has_given_up_all() {
            return None;
        }
        let mut unseen = self.unseen_but_for_stuck(now.instant);
        // Lists show the pod although one of its calls hangs, unless it differs.
        let pending = match self.rounds.kind() {
            Some(LookKind::List) => Some(self.pending()),
            _ => None,
        };
        let needs_its_call = |uid: &PodUid| pending.as_ref().is_none_or(|it| it.contains(uid));
        let stuck = self.stuck_statuses().filter_map(|call| call.about.pod);
        let stuck = stuck.map(|pod| pod.uid).filter(needs_its_call);
        unseen.extend(stuck);
        let mut committed = self.records.committed();
        if committed.any(|pod| !unseen.contains(&pod.pod.uid)) {
            return Some(now);
        }
        let last = self.rounds.last()?.begun.instant;
        let mut failures = self.failures.iter();
        let is_slow = failures.any(|failing| failing.error.is_slowness());
        let newest = self.last_inspected.filter(|_| is_slow);
        newest.filter(|as_of| as_of.instant > last)
    }

    /// Lists that come again were asked for before the last sweep was begun: the next ones, which
    /// may be rare, are not waited for.
    fn request_owed_lists(&mut self, now: Instant) {
        if let Some(time) = self.owes_lists_since()
            && self.relister.trouble(self.ages(now)) == Lists::Good
        {
            self.relister.request(time);
        }
    }

    /// When something was last seen without lists, if no look by later lists has come since.
    fn owes_lists_since(&self) -> Option<Instant> {
        let behind = self.relister.standing().behind_since();
        self.rounds.swept_since_lists().max(behind)
    }

    /// Looks at how things are, and tells our health if it changed: between two rounds, too, of
    /// which one follows the other at once while something differs all the time.
    pub(super) fn review(&mut self, now: Moment) {
        self.review_once(now);
        if let Some(next) = self.rounds.take_next() {
            self.begin_round(next.begun, next.kind, next.older, now);
            self.review_once(now);
        }
    }

    fn review_once(&mut self, now: Moment) {
        self.complete_round(now);
        let looked = self.rounds.last().map(|look| look.begun.instant);
        if !self.settling.is_over(looked, now.instant) {
            return;
        }
        self.set_aside_unasked(now);
        self.set_aside_stuck(now);
        self.set_aside_lasting(now);
        self.complete_round(now);
        self.request_owed_lists(now.instant);
        self.update_coverage(now);
        let looked = self.rounds.last().map(|look| look.begun.instant);
        let mut lasting = self.lasting.keys();
        let is_settling = self.rounds.is_under_way()
            || self.relister.standing().is_catching_up()
            || self.coverage.uninspected > 0
            || self.misses_somebody(now.instant)
            || lasting.any(|uid| self.differing.since(uid).is_some());
        let seen = Seen {
            is_settled: !is_settling,
            has_missed: looked.is_some_and(|at| self.differing.up_to(at).next().is_some()),
            owes_a_look: self.rounds.owes_a_look() || self.relister.standing().behind().any(),
            owes_lists: self.owes_lists_since().is_some(),
            answered: self.governor.last_answer_of_pods(),
        };
        let report = self.reporter.review(&self.coverage, seen, now);
        if let Some(report) = report {
            let said = format!("{} ({}): {}", report.state, report.reason, report.message);
            match report.state {
                HealthState::Starting | HealthState::Healthy => {
                    tracing::info!(target: HEALTH_LOG, "{said}")
                }
                HealthState::Degraded | HealthState::Unhealthy => {
                    tracing::warn!(target: HEALTH_LOG, "{said}")
                }
            }
            self.publish(&Record::Health(report));
        }
    }

    /// Whom the last look has missed, and who differs for longer than an inspection takes, or at all
    /// while what has happened since the last lists is not seen yet.
    fn not_inspected(&self, now: Instant) -> impl Iterator<Item = &PodUid> {
        let missed = self.missed.iter();
        let missed = missed.filter(|uid| self.differing.since(uid).is_some());
        let since = match self.rounds.owes_a_look() {
            true => Some(now),
            false => now.checked_sub(INSPECTED_WITHIN),
        };
        let late = since.into_iter();
        let late = late.flat_map(|time| self.differing.up_to(time));
        missed.chain(late.map(|(uid, _)| uid))
    }

    /// Whether a pod is not inspected that neither fails nor hangs any more, whatever else is said of
    /// it: its inspection is under way.
    fn misses_somebody(&self, now: Instant) -> bool {
        let mut unseen = self.not_inspected(now).peekable();
        if unseen.peek().is_none() {
            return false;
        }
        let named = self.named();
        unseen.any(|uid| !self.unasked.contains(uid) && !named.contains(uid))
    }

    /// Calls became stuck: the round goes on without their pods, and whoever waits for the
    /// status of one is told why there is none.
    fn set_aside_stuck(&mut self, now: Moment) {
        let mut still = BTreeSet::new();
        let mut new = Vec::new();
        let mut lacking = BTreeSet::new();
        let mut overdue = BTreeMap::new();
        let is_polling = self.missing(now.instant).any();
        for call in self.stuck_statuses() {
            let is_named = call.about.pod.is_some();
            let call = self.named_by_the_host(call);
            let (Some(pod), Some(id)) = (call.about.pod, call.about.id) else {
                continue;
            };
            let asked = (call.about.call, Some(id.clone()));
            let is_polled = || is_polling && self.lists(&pod.uid, &id);
            if !is_named || is_polled() || self.inspector.awaits(&pod.uid, &asked) {
                let error = || InspectError::Overdue {
                    call: call.about.call,
                    id: id.clone(),
                };
                overdue.entry(pod.uid.clone()).or_insert_with(error);
            }
            if !is_named {
                lacking.insert(pod.uid.clone());
            }
            let key = (asked, pod.uid);
            if !self.set_aside.contains(&key) {
                new.push(key.1.clone());
            }
            still.insert(key);
        }
        self.set_aside = still;
        self.cache.set_overdue(overdue, now.instant);
        // What the pod has beside what was listed may be known now.
        let before = std::mem::replace(&mut self.lacking, lacking);
        for uid in before {
            if !self.lacking.contains(&uid) {
                self.records.retry(&uid);
                self.take_step(&uid, now);
            }
        }
        if !new.is_empty() {
            self.doubt_stream(now);
        }
        for uid in new {
            self.failures.named(&uid);
            self.rounds.give_up(&uid);
        }
    }

    /// Whether the pod is listed with this sandbox or container.
    fn lists(&self, uid: &PodUid, id: &Id) -> bool {
        let listed = self.records.listed_as(uid);
        listed.is_some_and(|listed| listed.names(id))
    }

    /// While no more calls can be made, for all that may be outstanding hang, nobody asks for
    /// the pods that wait: the round goes on without them too.
    fn set_aside_unasked(&mut self, now: Moment) {
        if self.governor.has_room() || self.governor.leaves_one_alone() {
            return;
        }
        let limit = self.config.status_overdue;
        for uid in self.inspector.unasked(now.instant, limit) {
            let error = InspectError::NotAsked;
            self.cache.set_error(&uid, error, now.instant);
            self.rounds.give_up(&uid);
            self.unasked.insert(uid);
        }
    }

    /// A pod of very many containers, or one that the runtime is slow for, holds up nobody else:
    /// it is named, and not waited for before it has been prompt for a while.
    fn set_aside_lasting(&mut self, now: Moment) {
        let instant = now.instant;
        self.lasting.retain(|_, named| instant < *named + PROMPT);
        let long_ago = instant.checked_sub(LASTING);
        for uid in self.rounds.waited_for_since(long_ago) {
            if self.inspector.is_active(&uid) {
                self.note_lasting(&uid, now);
                self.lasting.insert(uid, instant);
            }
        }
    }

    /// Whether a call of this pod hangs or fails, so that there is nothing to say of it as a whole.
    pub(super) fn is_call_named(&self, uid: &PodUid) -> bool {
        let mut stuck = self.stuck_statuses();
        let is_stuck = stuck.any(|call| call.about.pod.is_some_and(|pod| pod.uid == *uid));
        is_stuck || self.failures.names_a_call_of(uid)
    }

    pub(super) fn note_lasting(&mut self, uid: &PodUid, now: Moment) {
        let since = self.differing.since(uid).unwrap_or(now.instant);
        self.note_unseen(uid, InspectError::NotSeen, since, now);
    }

    fn update_coverage(&mut self, now: Moment) {
        let instant = now.instant;
        let ages = self.ages(instant);
        self.relister.note_blind(ages);
        let contradicted = self.contradicted(instant);
        let mut dead = BTreeMap::<PodUid, BTreeSet<Id>>::new();
        for failing in &contradicted {
            if let Some(pod) = &failing.pod {
                let ids = dead.entry(pod.uid.clone()).or_default();
                ids.insert(failing.id.clone());
            }
        }
        self.cache.set_dead(dead, instant);
        let mut failing: Vec<Failing> = self
            .failures
            .iter()
            .cloned()
            .chain(contradicted)
            .chain(self.doubts.failing())
            .collect();
        let overdue = self.relister.standing().is_overdue(ages);
        let silent = self.governor.silent_since();
        let silent = silent.filter(|since| overdue && instant >= *since + self.silent_after());
        let mut stuck = self.stuck(ages);
        if silent.is_some() {
            // Who was stuck before everybody fell silent may not be any more.
            stuck.retain(|call| call.about.id.is_none());
        }
        let is_late = self.governor.is_status_late(instant);
        let lists = self.relister.trouble(ages);
        let (sandboxes, containers) = self.relister.each_list(ages);
        let is_away = matches!(lists, Lists::Failed(CallError::Unavailable(_)));
        let cannot_list = stuck.iter().any(|call| call.about.call.is_list());
        let named = stuck.iter().map(|call| &call.about.pod);
        let named = named.chain(failing.iter().map(|failing| &failing.pod));
        let named: BTreeSet<PodUid> = named.flatten().map(|pod| pod.uid.clone()).collect();
        let is_told = |uid: &PodUid| named.contains(uid) || self.unasked.contains(uid);
        let unseen = self.not_inspected(instant);
        // Of those that are dead the runtime has not said so yet.
        let dead = self.processes.dead().map(|(_, pod)| &pod.uid);
        let unseen = unseen.chain(dead);
        let unseen: BTreeSet<&PodUid> = unseen.filter(|uid| !is_told(uid)).collect();
        let failed = |uid: &PodUid| !is_told(uid) && !unseen.contains(uid);
        let mut uninspected = unseen.len() + self.reader.count_failed(failed);
        if !cannot_list && !is_late && !is_away {
            let unseen = self.not_seen(&named, instant);
            let pods = unseen.iter().filter_map(|failing| failing.pod.as_ref());
            let pods = pods.map(|pod| (pod.uid.clone(), instant));
            self.lasting.extend(pods);
            failing.extend(unseen);
        }
        let is_slow = |failing: &Failing| failing.error.is_slowness();
        let slow = failing.iter().filter(|failing| is_slow(failing)).count();
        let wait = slow + self.unasked.len();
        if wait > SMALLEST_WINDOW || wait > 0 && self.governor.is_slow_for_most(instant) {
            self.too_slow = Some(instant);
        }
        // The last of them are no more to blame than the others were.
        let is_too_slow = self.too_slow.is_some_and(|last| instant < last + PROMPT);
        let statuses = match is_late {
            true => Statuses::Late,
            false if wait > 0 && is_too_slow => Statuses::TooSlow,
            false => Statuses::InTime,
        };
        if wait > 0 && is_too_slow {
            failing.retain(|failing| !is_slow(failing));
            uninspected += slow;
        }
        let kubelet_waits = self.kubelet_waits(&stuck);
        let blind = self.blind(ages);
        self.cache.set_blind(!blind.is_empty());
        self.coverage = Coverage {
            started: self.coverage.started,
            look: self.rounds.last(),
            stuck,
            failing,
            unasked: self.unasked.len(),
            uninspected,
            blind,
            lists,
            sandboxes,
            containers,
            kubelet_listed: self.relister.good_for_kubelet(),
            kubelet_cannot_list: self.relister.fails_kubelet() || cannot_list,
            kubelet_waits,
            kubelet_lists_took: self.relister.standing().for_kubelet_took(),
            silent,
            statuses,
            lost: self.suspects.lost(|key| self.failures.fails(key)),
        };
    }

    /// The containers whose process is dead and which the runtime reports as running.
    fn contradicted(&self, now: Instant) -> Vec<Failing> {
        let contradictions = self.processes.contradictions(now);
        let contradictions = contradictions.map(|contradiction| Failing {
            call: Rpc::ContainerStatus,
            container: Some(contradiction.container),
            pod: Some(contradiction.pod),
            error: InspectError::Contradicted {
                id: contradiction.id.clone(),
            },
            id: contradiction.id,
            since: contradiction.since,
            unseen_since: contradiction.since,
        });
        contradictions.collect()
    }

    /// The first pods that were not seen for long, although nothing says why: they are not
    /// `named`, and are asked for.
    fn not_seen(&self, named: &BTreeSet<PodUid>, now: Instant) -> Vec<Failing> {
        let Some(long_ago) = now.checked_sub(INSPECTIONS_FAIL) else {
            return Vec::new();
        };
        let is_known = |uid: &PodUid| self.differing.noted(uid).is_some_and(|at| at <= long_ago);
        let pods = self.differing.up_to(long_ago);
        let pods = pods.filter(|(uid, _)| is_known(uid));
        let pods = pods.filter(|(uid, _)| !named.contains(*uid) && !self.unasked.contains(*uid));
        let pods = pods
            .filter_map(|(uid, since)| self.unseen_pod(uid, InspectError::NotSeen, since, since));
        pods.take(MOST_NOT_SEEN).collect()
    }

    /// The calls that hang: first those for the whole node.
    fn stuck(&self, ages: Ages) -> Vec<OutstandingCall> {
        let stuck = self.relister.standing().stuck(ages);
        let overdue = self.relister.standing().version_overdue_after();
        let lists = ages.sandboxes.max(ages.containers);
        let version = ages.version.filter(|age| {
            // After a list that hangs it is only asked for to see whether the runtime lives.
            *age >= overdue && (!stuck.any() || Some(*age) > lists)
        });
        let node = [
            (Rpc::Version, version.is_some()),
            (Rpc::ListPodSandbox, stuck.sandboxes),
            (Rpc::ListContainers, stuck.containers),
        ];
        let node = node.into_iter().filter_map(|(call, is_stuck)| {
            Some(OutstandingCall {
                about: About::node(call),
                since: self.governor.node_call(call).filter(|_| is_stuck)?,
            })
        });
        let statuses = self.stuck_statuses();
        let statuses = statuses.map(|call| self.named_by_the_host(call));
        node.chain(statuses).collect()
    }

    /// The same call for people to read: of an id that no list has shown yet, the host may know
    /// whose it is. An event tells the pod of a container, and not the container's name.
    pub(super) fn named_by_the_host(&self, call: OutstandingCall) -> OutstandingCall {
        let about = &call.about;
        let is_named = about.pod.is_some()
            && (about.container.is_some() || about.call != Rpc::ContainerStatus);
        let owner = about.id.as_ref().filter(|_| !is_named);
        let Some(owner) = owner.and_then(|id| self.sweeper.owner(id)) else {
            return call;
        };
        // A host that tells no UID (containerd 1.6) tells the name of a pod that is listed.
        let is_it =
            |pod: &&PodRef| (&pod.namespace, &pod.name) == (&owner.pod.namespace, &owner.pod.name);
        let mut listed = self.records.listed().map(|listed| &listed.pod);
        let listed = listed.find(is_it).filter(|_| owner.pod.uid.is_empty());
        let pod = about.pod.as_ref().or(listed).unwrap_or(&owner.pod);
        let about = About {
            pod: Some(pod.clone()),
            container: about.container.clone().or_else(|| owner.container.clone()),
            ..call.about
        };
        OutstandingCall { about, ..call }
    }

    /// Since when calls hang that a kubelet makes too: it inspects what has changed, as it is
    /// listed now.
    fn kubelet_waits(&self, stuck: &[OutstandingCall]) -> Vec<Instant> {
        let mut pods = BTreeMap::<&PodUid, Instant>::new();
        for call in stuck {
            let (Some(pod), Some(id)) = (&call.about.pod, &call.about.id) else {
                continue;
            };
            let listed = self.records.listed_as(&pod.uid);
            if listed.is_some_and(|pod| pod.names(id)) && self.records.differs(&pod.uid) {
                let since = pods.entry(&pod.uid).or_insert(call.since);
                *since = call.since.min(*since);
            }
        }
        pods.into_values().collect()
    }

    /// What cannot be seen now.
    pub(super) fn cannot_see(&self, now: Instant) -> Vec<Blind> {
        self.blind_without(self.relister.blind(self.ages(now)))
    }

    /// A pod was inspected well as of `begun`, whatever else is to be known of it by now.
    pub(super) fn note_inspected(&mut self, begun: Moment, now: Instant) {
        let pods_known = match self.cannot_see(now).contains(&Blind::NewPods) {
            true => Some(begun.instant),
            false => self.relister.standing().knows(List::Sandboxes),
        };
        if let Some(known) = pods_known {
            let as_of = begun.back_at(known.min(begun.instant));
            let last = self.last_inspected.take();
            let newer = last.filter(|last| last.instant > as_of.instant);
            self.last_inspected = Some(newer.unwrap_or(as_of));
        }
    }

    /// Something was seen as of `time` without the lists that are not to be had now.
    pub(super) fn did_without_lists(&mut self, time: Instant, now: Instant) {
        let blind = self.relister.blind(self.ages(now));
        // Without a sweep, one list alone is not used.
        let either = Missing {
            sandboxes: !self.can_sweep(),
            containers: !self.can_sweep(),
        };
        self.relister.did_without(blind.or(either), time);
    }

    /// What cannot be seen, or could not be when something was last seen.
    pub(super) fn blind(&self, ages: Ages) -> Vec<Blind> {
        let blind = self.relister.blind(ages);
        self.blind_without(blind.or(self.relister.standing().behind()))
    }

    /// What cannot be seen without these lists.
    fn blind_without(&self, blind: Missing) -> Vec<Blind> {
        // Without a sweep, one list alone is not used.
        let either = !self.can_sweep() && (blind.sandboxes || blind.containers);
        let containers =
            blind.containers && (blind.sandboxes || !self.sweeper.sees_new_containers());
        let blind = [
            (Blind::NewPods, blind.sandboxes || either),
            (Blind::NewContainers, containers || either),
        ];
        let blind = blind.into_iter().filter(|(_, is_blind)| *is_blind);
        blind.map(|(what, _)| what).collect()
    }

    pub(super) fn synced(&self, now: Moment) -> Record {
        let committed = self.records.committed();
        let (pods, containers) = committed.fold((0, 0), |(pods, containers), pod| {
            (pods + 1, containers + pod.containers.len())
        });
        Record::Synced {
            time: now.wall,
            pods,
            containers,
        }
    }
}
