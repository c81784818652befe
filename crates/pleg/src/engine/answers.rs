//! Where each answer goes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use tokio::time::Instant;

use super::call::{Answer, Answered, Call, Key, Purpose, Question};
use super::limits::LATE;
use super::processes::Found;
use super::relister::{ListRow, Relisted};
use super::standing::Missing;
use super::state::{Action, Engine};
use super::sweeper::Heard;
use super::unobserved::Why;
use crate::model::event::Source;
use crate::model::id::{HostId, Id, PodRef, PodUid};
use crate::model::listed::{ContainerState, ListedContainer, ListedSandbox};
use crate::model::status::{ContainerStatus, SandboxStatus, Status};
use crate::model::wall_time::Moment;
use crate::out::cache::Vouch;
use crate::out::coverage::LookKind;
use crate::records::{Hint, Look, Part};
use crate::runtime::{About, CallError, Listing, NoConnection, OutstandingCall, RuntimeVersion};

impl Engine {
    pub(super) fn on_answered(&mut self, answered: Answered, now: Moment) {
        let Answered {
            call,
            begun,
            answer,
        } = answered;
        let key = call.question.key();
        let lacked = self.lacked_by(&key);
        let about = match answer.error() {
            Some(CallError::Unavailable(why)) => {
                match why.cause {
                    NoConnection::Lost => self.quarantine.lost(&call.question, begun, now.instant),
                    _ => self.quarantine.not_sent(&call.question),
                }
                // What answers next may be another runtime, or have another configuration.
                self.sweeper.runtime_changed();
                self.rounds.give_up_all();
                let soon = now.instant + self.config.relist_period;
                self.relister.hurry_anyway(soon);
                self.ledger.lost(&key)
            }
            error => {
                self.quarantine.answered(&call.question, begun);
                match error {
                    Some(_) => self.ledger.failed(&key, now.instant),
                    None => self.ledger.answered(&key, now.instant),
                }
            }
        };
        let asked = about.as_ref().and_then(|about| about.pod.as_ref());
        let answer = match asked {
            Some(asked) => self.of_its_pod(asked, answer),
            None => answer,
        };
        let took = now.instant.duration_since(begun);
        self.observer.call_ended(key.0, took, answer.error());
        self.take_in(call, about, begun, answer, now);
        // What the pod has beside what was listed may be known now.
        if let Some(uid) = lacked {
            self.records.retry(&uid);
            self.take_step(&uid, now);
        }
    }

    /// The pod of a stuck status call of which only the host knows whose it is: what is known of the
    /// pod lacks what the call is about.
    fn lacked_by(&self, key: &Key) -> Option<PodUid> {
        if !self.ledger.is_stuck(key) {
            return None;
        }
        let mut stuck = self
            .stuck_statuses()
            .filter(|call| call.about.pod.is_none());
        let call = stuck.find(|call| (call.about.call, &call.about.id) == (key.0, &key.1))?;
        self.named_by_the_host(call).about.pod.map(|pod| pod.uid)
    }

    /// A call is not sent for now.
    pub(super) fn withhold(&mut self, call: Call, about: About, now: Moment) {
        let answer = call.question.failed(CallError::Withheld);
        self.take_in(call, Some(about), now.instant, answer, now);
    }

    fn take_in(
        &mut self,
        call: Call,
        about: Option<About>,
        begun: Instant,
        answer: Answer,
        now: Moment,
    ) {
        let key = call.question.key();
        let error = answer.error();
        if let Some(about) = about.filter(|_| call.purpose.is_look()) {
            if let Some(pod) = &about.pod
                && !matches!(call.purpose, Purpose::Sweep(_))
            {
                let heard = match error {
                    None => Heard::Known,
                    // What a sandbox that is not found would have told, no sweep has heard.
                    Some(CallError::NotFound(_)) => Heard::Lost,
                    Some(_) => Heard::Nothing,
                };
                self.sweeper.heard_elsewhere(&key, &pod.uid, heard);
            }
            self.note_outcome(key, about, error, now.instant);
        }
        let look = Look {
            begun,
            ended: now.instant,
            source: Source::Sweep,
        };
        match (call.purpose, answer) {
            // Nobody else asks while a list hangs, and another runtime may be there since.
            (Purpose::Heartbeat, Answer::Version(Ok(version))) => {
                self.relister.is_reachable();
                if self.version.as_ref() != Some(&version) {
                    self.note_version(version);
                }
            }
            // That it came is all that these are asked for.
            (Purpose::Heartbeat | Purpose::Witness, _) => {}
            (_, Answer::Version(answer)) => self.on_version(answer, now),
            (purpose, Answer::Sandboxes(answer)) => self.on_list(&purpose, answer, look, now),
            (purpose, Answer::Containers(answer)) => self.on_list(&purpose, answer, look, now),
            (Purpose::Sweep(uid), Answer::Sandbox(answer)) => {
                if let (Some(_), Ok(status)) = (&uid, &answer) {
                    self.learn_containers(status, look);
                }
                self.on_swept(uid, &call.question, answer, look, now);
            }
            (Purpose::Sweep(uid), Answer::Container(answer)) => {
                self.on_swept(uid, &call.question, answer, look, now);
            }
            (Purpose::Inspect(uid, number), Answer::Sandbox(answer)) => {
                if let Ok(status) = &answer
                    && self.missing(now.instant).containers
                {
                    self.learn_containers(status, look);
                }
                let ended = self
                    .inspector
                    .on_status(&uid, number, &call.question, answer);
                self.on_inspection(ended, now);
            }
            (Purpose::Inspect(uid, number), Answer::Container(answer)) => {
                let ended = self
                    .inspector
                    .on_status(&uid, number, &call.question, answer);
                self.on_inspection(ended, now);
            }
            (Purpose::Death, Answer::Container(answer)) => {
                if let Question::Container(id) = &call.question {
                    self.on_death_asked(
                        id,
                        answer,
                        Look {
                            source: Source::Kernel,
                            ..look
                        },
                        now,
                    );
                }
            }
            (_, Answer::Pid(answer)) => {
                if let Question::Pid(id) = call.question {
                    self.on_pid(id, answer, now);
                }
            }
            (Purpose::Birth, Answer::Sandbox(answer)) => {
                self.on_sandbox_followed(&call.question, answer, now);
            }
            (Purpose::Birth, Answer::Container(answer)) => {
                self.on_container_followed(&call.question, answer, now);
            }
            // Of these nobody else asks.
            (_, Answer::Sandbox(_) | Answer::Container(_)) => {}
        }
    }

    /// The answer about an id of the pod it was `asked` for, as far as it is about that.
    fn of_its_pod(&self, asked: &PodRef, answer: Answer) -> Answer {
        match answer {
            Answer::Sandbox(Ok(status)) => Answer::Sandbox(self.unless_of_another(asked, status)),
            Answer::Container(Ok(mut status)) => {
                // Of one id that is listed in two pods, what is so in one is so in both.
                let lists_it = |pod: &PodRef| self.is_listed(&pod.uid, &status.id);
                if lists_it(asked) && status.pod.as_ref().is_some_and(lists_it) {
                    status.pod = Some(asked.clone());
                }
                Answer::Container(self.unless_of_another(asked, status))
            }
            other => other,
        }
    }

    /// The status of an id that is listed in the pod it was `asked` for, unless it bears the labels
    /// of another one: then nobody knows whose it is.
    fn unless_of_another<S: Status>(&self, asked: &PodRef, status: S) -> Result<S, CallError> {
        let other = status.pod().filter(|told| told.uid != asked.uid);
        let Some(told) = other.filter(|_| self.is_listed(&asked.uid, status.id())) else {
            return Ok(status);
        };
        let text = format!(
            "{} is listed in pod {asked}, and its status bears the labels of pod {told}",
            status.id()
        );
        Err(CallError::Malformed(text.into()))
    }

    /// Whether the pod is known to have this id.
    fn is_listed(&self, uid: &PodUid, id: &Id) -> bool {
        let listed = self.records.listed_as(uid);
        listed.is_some_and(|pod| pod.names(id))
    }

    fn on_list<R: ListRow + Part>(
        &mut self,
        purpose: &Purpose,
        answer: Result<Listing<R>, CallError>,
        look: Look,
        now: Moment,
    ) {
        match (purpose, answer) {
            (Purpose::SweepList, Ok(listing)) => {
                let took = now.instant.duration_since(look.begun);
                self.relister.sweep_list_came(R::LIST, took);
                self.take_in_alone(&listing.rows, look, now);
            }
            (Purpose::SweepList, Err(error)) => {
                self.sweeper.list_failed(R::LIST);
                if self.relister.sweep_list_failed(R::LIST, &error) {
                    // Whether it still fails, the next relist tells, which must not be far.
                    self.doubt_stream(now);
                    self.hurry(now);
                }
            }
            (_, answer) => {
                match &answer {
                    Ok(listing) => {
                        self.observer.list_received(R::LIST.rpc(), listing.bytes);
                        if self.sweeper.waits_for(R::LIST) || self.relister.is_failing() {
                            self.take_in_alone(&listing.rows, look, now);
                        }
                    }
                    Err(_) => self.take_in_what_waits(now),
                }
                let relisted = self.relister.on_list(answer, now.instant);
                self.on_relisted(relisted, now);
            }
        }
    }

    /// Takes in a list without the other one, beside a sweep.
    fn take_in_alone<R: ListRow + Part>(&mut self, rows: &[Arc<R>], look: Look, now: Moment) {
        self.records.observe_list(rows, look);
        self.relister.list_taken_in(R::LIST, look.begun);
        self.sweeper.list_answered(R::LIST, look.begun);
        self.settle(now);
    }

    /// Takes in the list that has come, and waits for the other one in vain.
    fn take_in_what_waits(&mut self, now: Moment) {
        self.take_in_waiting::<ListedSandbox>(now);
        self.take_in_waiting::<ListedContainer>(now);
    }

    fn take_in_waiting<R: ListRow + Part>(&mut self, now: Moment) {
        if let Some((rows, look)) = self.relister.waiting::<R>() {
            self.take_in_alone(&rows, look, now);
        }
    }

    fn note_version(&mut self, version: RuntimeVersion) {
        tracing::debug!("the runtime is {version}");
        self.version = Some(version);
        self.sweeper.runtime_changed();
    }

    fn on_version(&mut self, answer: Result<RuntimeVersion, CallError>, now: Moment) {
        match answer {
            Ok(version) => {
                self.note_version(version);
                self.streaming.runtime_answered(now.instant);
                self.relister.version_known(now.instant);
            }
            Err(
                error @ (CallError::Refused(_)
                | CallError::Malformed(_)
                | CallError::TooLarge(_)
                | CallError::NotFound(_)),
            ) => {
                tracing::debug!("the runtime does not say who it is: {error}");
                self.relister.go_on_without_version(now.instant);
            }
            Err(error) => {
                let relisted = self.relister.version_failed(error, now.instant);
                self.on_relisted(relisted, now);
            }
        }
    }

    fn on_relisted(&mut self, relisted: Option<Relisted>, now: Moment) {
        let listed = match relisted {
            None => return,
            Some(Relisted::Failed(took)) => {
                self.observer.relist_failed(took);
                return;
            }
            Some(Relisted::Good(listed)) => listed,
        };
        let begun = listed.begun;
        self.sweeper.forget_before(begun.instant);
        self.records
            .observe(&listed.snapshot, now.instant, Source::Relist);
        for id in self.dead_and_listed_running() {
            self.processes.found_running(&id, begun.instant);
        }
        self.forget_removed();
        // Who failed in a sweep, and is unchanged by the lists, is inspected all the same.
        for failing in self.unobserved.failures.iter() {
            if let Some(pod) = &failing.pod {
                self.records.retry(&pod.uid);
            }
        }
        let older = self.records.newest_ticket();
        self.settle(now);
        let mut pending = self.pending();
        self.unobserved.differing.keep(&pending, begun.instant);
        let records = &self.records;
        self.unobserved
            .failures
            .keep(&pending, begun.instant, |uid, id| {
                let listed = records.listed_as(uid);
                listed.is_some_and(|pod| pod.names(id))
            });
        self.review_suspects(&pending);
        // Which of both is so, the next status of them tells.
        pending.extend(self.doubts.awaiting_lists().cloned());
        self.cache.vouch(Vouch {
            begun,
            pending,
            unseen: BTreeSet::new(),
            sees_new_pods: true,
            sees_new_containers: true,
        });
        self.begin_round(begun, LookKind::List, older, now);
        if !listed.late
            && let Some(proof) = self.streaming.proof()
        {
            proof.relisted();
        }
        let period = self.period();
        self.relister.taken_in(&listed, period, now.instant);
    }

    /// The containers that are listed as running, and whose process is dead.
    fn dead_and_listed_running(&self) -> Vec<Id> {
        let dead = self.processes.dead().filter(|(id, pod)| {
            let listed = self.records.listed_as(&pod.uid);
            let mut rows = listed.into_iter().flat_map(|listed| &listed.containers);
            rows.any(|row| row.id == **id && row.state == ContainerState::Running)
        });
        dead.map(|(id, _)| id.clone()).collect()
    }

    /// A call may hang for longer than what it asks for is there: the rest of the pod does not
    /// wait for it then.
    fn forget_removed(&mut self) {
        let stuck: Vec<OutstandingCall> = self.stuck_statuses().collect();
        for OutstandingCall { about, .. } in stuck {
            if let (Some(pod), Some(id)) = (about.pod, about.id)
                && let Some(listed) = self.records.listed_as(&pod.uid)
                && !listed.names(&id)
            {
                self.inspector.forget(&pod.uid, &(about.call, Some(id)));
            }
        }
    }

    /// Which calls, during which the connection was lost, are needed: of pods that the lists show unchanged
    /// none is.
    fn review_suspects(&mut self, pending: &BTreeSet<PodUid>) {
        let suspects = self.quarantine.ids();
        if suspects.is_empty() {
            return;
        }
        let mut listed = BTreeMap::new();
        for pod in self.records.listed() {
            for id in pod.ids().filter(|id| suspects.contains(*id)) {
                let is_wanted = listed.entry(id.clone()).or_insert(false);
                *is_wanted |= pending.contains(&pod.pod.uid);
            }
        }
        self.quarantine.listed(&listed);
    }

    /// The pods of which the cache does not hold what is so.
    pub(super) fn pending(&self) -> BTreeSet<PodUid> {
        let mut pending = self.records.pending();
        pending.extend(self.records.gone_and_listed().iter().cloned());
        let contradicted = self.processes.dead();
        pending.extend(contradicted.map(|(_, pod)| pod.uid.clone()));
        pending
    }

    /// Does what the records want done about every pod that differs.
    fn settle(&mut self, now: Moment) {
        for uid in self.records.unsettled() {
            self.take_step(&uid, now);
        }
    }

    /// The host has said which ids it knows: a sweep begins, if there is anything to ask for.
    pub(super) fn begin_sweep(&mut self, ids: Option<Vec<HostId>>, now: Moment) {
        self.sweeper.on_host_ids(ids);
        self.unobserved
            .failures
            .keep_ids(|id| self.sweeper.host_knows(id));
        let missing = self.missing(now.instant);
        if !missing.any() || !self.can_sweep() {
            return;
        }
        self.take_in_what_waits(now);
        let ages = self.ages(now.instant);
        let standing = self.relister.standing();
        let beside = standing.beside_a_sweep(missing, ages, now.instant);
        let slow = standing.is_slow() && !standing.stuck(ages).any();
        let listed = self.records.listed().map(AsRef::as_ref);
        self.sweeper
            .begin(missing, beside, listed, slow, &self.ledger, now);
    }

    /// Whether there is anything to ask for in place of a list. Before the first lists only the host
    /// knows ids; without any there is nothing to poll.
    pub(super) fn can_sweep(&self) -> bool {
        self.relister.has_listed() || self.sweeper.knows_ids()
    }

    /// Whether a list that is outstanding, and not late, decides about this pod, whose status contradicts
    /// the last one.
    fn list_will_decide(&self, uid: Option<&PodUid>, now: Instant) -> bool {
        let ages = self.ages(now);
        let oldest = ages.sandboxes.max(ages.containers);
        uid.is_some_and(|uid| self.doubts.awaits_lists(uid)) && oldest.is_some_and(|age| age < LATE)
    }

    /// Takes in what a sweep was told of one id.
    fn on_swept<S>(
        &mut self,
        uid: Option<PodUid>,
        question: &Question,
        answer: Result<S, CallError>,
        look: Look,
        now: Moment,
    ) where
        S: Status<Listed: Part>,
    {
        let known = known_now(answer);
        let key = question.key();
        // Once may be a mistake: nobody is gone before that was said twice, or known since.
        let is_listed = matches!((&uid, &key.1), (Some(uid), Some(id)) if self.is_listed(uid, id));
        let is_lost = is_listed
            && matches!(known, Some(None))
            && (self.list_will_decide(uid.as_ref(), now.instant)
                || self.sweeper.lost(question, now.instant));
        let heard = match known {
            None => Heard::Nothing,
            Some(_) if is_lost => Heard::Lost,
            Some(_) => Heard::Known,
        };
        self.sweeper
            .answered(&key, uid.as_ref(), heard, now.instant);
        if let Some(uid) = uid.as_ref().filter(|_| is_lost) {
            // No sweep under way has seen it.
            let begun = self.sweeper.begun().unwrap_or(look.begun);
            self.unobserved
                .differing
                .note(uid, begun.min(look.begun), now.instant);
            return;
        }
        let (Some(known), (_, Some(id))) = (known, key.clone()) else {
            return;
        };
        if known.is_some()
            && self.sweeper.found(&key)
            && let Some(uid) = uid.as_ref().filter(|uid| !self.records.is_pending(uid))
        {
            self.unobserved.differing.remove(uid);
        }
        let uid = match (uid, known) {
            (Some(uid), status) => {
                let state = status.map(|status| status.state());
                let records = &mut self.records;
                records.observe_one::<S::Listed>(&uid, &id, state, look);
                uid
            }
            (None, Some(status)) => {
                let Some(pod) = status.pod().cloned() else {
                    return;
                };
                self.records.learn(&pod, status.into(), look);
                pod.uid
            }
            (None, None) => return,
        };
        self.take_step(&uid, now);
    }

    /// Takes in the containers that a sandbox's status tells.
    fn learn_containers(&mut self, sandbox: &SandboxStatus, look: Look) {
        let Some(pod) = &sandbox.pod else { return };
        let has_some = self.records.has_container_in(&pod.uid, &sandbox.id);
        self.sweeper
            .sandbox_told_containers(!sandbox.containers.is_empty(), has_some);
        for container in &sandbox.containers {
            let row = ListedContainer {
                sandbox_id: sandbox.id.clone(),
                ..container.clone().into()
            };
            self.records.learn(pod, row, look);
        }
    }

    /// A sweep in which everybody was asked is a look.
    pub(super) fn end_sweep(&mut self, now: Moment) {
        let Some(swept) = self.sweeper.complete(&self.ledger) else {
            return;
        };
        // Who answered may be an id that is nobody's.
        let listed = || self.records.listed().map(|pod| &pod.pod.uid);
        let sees = |uid: &PodUid| !swept.unseen.contains(uid) || swept.partly.contains(uid);
        let sees_somebody = listed().next().is_none() || listed().any(sees);
        // What it could not see must have been said. It is not of a list that is only suspected, nor
        // of one that is slow each time: that one will show what is new, and is the look.
        let blind = self.relister.blind(self.ages(now.instant));
        let is_new_seen = (swept.sandboxes_listed || blind.sandboxes)
            && (swept.sees_new_containers || blind.containers);
        if !is_new_seen {
            return;
        }
        let without = Missing {
            sandboxes: !swept.sandboxes_listed,
            containers: !swept.sees_new_containers,
        };
        self.relister.did_without(without, swept.begun.instant);
        let mut unseen = self.unobserved_for(&Why::ALL, now.instant);
        unseen.extend(swept.unseen);
        // Of an id that no list has shown, and that hangs, the host may know whose it is: then not
        // all of that pod is known.
        let hung = self
            .stuck_statuses()
            .map(|call| self.named_by_the_host(call));
        unseen.extend(hung.filter_map(|call| Some(call.about.pod?.uid)));
        let mut pending = self.pending();
        pending.extend(unseen.iter().cloned());
        self.cache.vouch(Vouch {
            begun: swept.begun,
            pending,
            unseen,
            sees_new_pods: swept.sandboxes_listed,
            sees_new_containers: swept.sees_new_containers,
        });
        if sees_somebody {
            let older = self.records.newest_ticket();
            self.begin_round(swept.begun, LookKind::Sweep, older, now);
            self.complete_round(now);
        }
    }

    /// There is a process to be watched. What was known of an earlier one says nothing of it.
    pub(super) fn on_process(&mut self, id: Id, found: Found, now: Moment) {
        let Found { pid, again } = found;
        self.act(Action::Watch { id, pid });
        if let Some(pod) = again {
            self.hint(&pod, Hint::of_kernel(now.instant), now);
        }
    }

    fn on_death_asked(
        &mut self,
        id: &Id,
        answer: Result<ContainerStatus, CallError>,
        look: Look,
        now: Moment,
    ) {
        if let Err(CallError::NotFound(_)) = answer {
            // That it is removed, only the list or an event says.
            self.hurry(now);
        }
        let is_gone = matches!(answer, Err(CallError::NotFound(_)));
        let status = answer.ok();
        // While it is listed, that there is no status does not say that it has ended.
        let runs = match &status {
            Some(status) => Some(status.state == ContainerState::Running),
            None => is_gone.then_some(true),
        };
        let Some(pod) = self.processes.on_asked(id, runs, now.instant) else {
            return;
        };
        if let Some(status) = status.filter(|status| status.state == ContainerState::Exited) {
            self.commit_exit(&pod.uid, status, look, now);
        }
        self.hint(&pod, Hint::of_kernel(now.instant), now);
    }
}

/// What an answer says: the status, or that there is none any more. An error says nothing.
fn known_now<T>(answer: Result<T, CallError>) -> Option<Option<T>> {
    match answer {
        Ok(status) => Some(Some(status)),
        Err(CallError::NotFound(_)) => Some(None),
        Err(_) => None,
    }
}
