//! What must hold of each answer that the guard gives in place of the runtime.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::{Rpc, v1};
use guard::Kind;
use guard::core::Outcome;
use prost::Message;

use super::World;
use crate::kubelet::Call;
use crate::runtime::{RUNNING, Thing, id_of};

/// How long until the host's directories show a container of another client.
const FOREIGN_KNOWN_AFTER: Duration = Duration::from_millis(2500);

/// A list that can be answered is answered within this time.
const MAX_WAIT: Duration = Duration::from_secs(9);

/// A row that was confirmed within this time before the request of a list may be in it.
const MAX_AGE: Duration = Duration::from_secs(1);

impl World {
    /// Checks that each list is answered in time while one container is stuck and another one exists.
    pub(super) fn check_wait(&self, call: &Call) {
        let waited = self.now - call.requested;
        let is_in_question = self.is_ordinary && !call.is_ours && call.rpc == Rpc::ListContainers;
        let hang = &self.runtime.statuses_hang;
        let mut others = self.runtime.alive().filter(|(id, thing)| {
            let is_old = thing.created() < call.requested;
            is_old && thing.kind == Kind::Container && !hang.contains(*id)
        });
        assert!(
            !is_in_question || waited < MAX_WAIT || others.next().is_none(),
            "a list is not answered for {waited:?}"
        );
    }

    /// Records an answer that the kubelet received, from the runtime or from the guard.
    pub(super) fn reported(&mut self, call: &Call, outcome: &Outcome) {
        let now = self.now;
        let id = id_of(&call.request);
        match (call.rpc, outcome) {
            (Rpc::ListContainers, Outcome::Messages(list)) => {
                let list = v1::ListContainersResponse::decode(list[0].clone()).unwrap();
                for row in list.containers {
                    self.note_state(&row.id, row.state);
                }
            }
            (Rpc::ListPodSandbox, Outcome::Messages(list)) => {
                let list = v1::ListPodSandboxResponse::decode(list[0].clone()).unwrap();
                for row in list.items {
                    self.note_state(&row.id, row.state);
                }
            }
            (Rpc::ContainerStatus, Outcome::Messages(status)) => {
                let read = v1::ContainerStatusResponse::decode(status[0].clone()).unwrap();
                self.note_state(&id, read.status.unwrap().state);
            }
            (Rpc::PodSandboxStatus, Outcome::Messages(status)) => {
                let read = v1::PodSandboxStatusResponse::decode(status[0].clone()).unwrap();
                self.note_state(&id, read.status.unwrap().state);
            }
            (Rpc::RunPodSandbox | Rpc::CreateContainer, Outcome::Messages(answer)) => {
                self.kubelet.of(&id_of(&answer[0])).there = Some(now);
            }
            (Rpc::StartContainer, Outcome::Messages(_)) => {
                self.kubelet.of(&id).started = Some(now);
            }
            (Rpc::RemoveContainer | Rpc::RemovePodSandbox, Outcome::Messages(_)) => {
                self.kubelet.of(&id).removed = Some(now);
            }
            _ => {}
        }
    }

    fn note_state(&mut self, id: &str, state: i32) {
        let now = self.now;
        let reported = self.kubelet.of(id);
        reported.there.get_or_insert(now);
        if reported.state.is_none_or(|(known, _)| state > known) {
            reported.state = Some((state, now));
        }
    }

    /// Checks an answer that the guard gave in place of the runtime.
    pub(super) fn check(&mut self, call: &Call, message: &Bytes) {
        let id = id_of(&call.request);
        match call.rpc {
            Rpc::ListContainers => {
                let list = v1::ListContainersResponse::decode(message.clone()).unwrap();
                let read = v1::ListContainersRequest::decode(call.request.clone()).unwrap();
                let filter = read.filter.unwrap_or_default();
                let rows = list
                    .containers
                    .iter()
                    .map(|row| (row.id.clone(), row.state));
                self.check_list(
                    Kind::Container,
                    call,
                    rows.collect(),
                    |id, thing| {
                        let labels = thing.labels();
                        let mut wanted = filter.label_selector.iter();
                        (filter.id.is_empty() || filter.id == id)
                            && (filter.pod_sandbox_id.is_empty()
                                || filter.pod_sandbox_id == thing.sandbox)
                            && wanted.all(|(key, value)| {
                                labels
                                    .iter()
                                    .any(|label| (&label.0, &label.1) == (key, value))
                            })
                    },
                    filter.state.map(|state| state.state),
                );
                for row in &list.containers {
                    let thing = &self.runtime.things[&row.id];
                    assert_eq!(row.pod_sandbox_id, thing.sandbox, "it is in its sandbox");
                    assert_eq!(row.labels, thing.labels().into(), "it has its labels");
                    let metadata = row.metadata.clone().unwrap();
                    assert_eq!(
                        (metadata.name, metadata.attempt),
                        (thing.name.clone(), thing.attempt)
                    );
                }
            }
            Rpc::ListPodSandbox => {
                let list = v1::ListPodSandboxResponse::decode(message.clone()).unwrap();
                let rows = list.items.iter().map(|row| (row.id.clone(), row.state));
                self.check_list(Kind::Sandbox, call, rows.collect(), |_, _| true, None);
            }
            Rpc::CreateContainer | Rpc::RunPodSandbox => {
                self.counts.completed += 1;
                let thing = &self.runtime.things[&id_of(message)];
                assert!(thing.created() >= call.requested, "it is what was made");
            }
            Rpc::StartContainer => {
                self.counts.completed += 1;
                assert!(
                    self.runtime.things[&id].state() >= RUNNING,
                    "it was started"
                );
            }
            Rpc::RemoveContainer | Rpc::RemovePodSandbox => {
                self.counts.completed += 1;
                let removed = self.runtime.things[&id].removed;
                assert!(removed.is_some(), "it is removed");
            }
            Rpc::Version => {}
            rpc => panic!("{rpc} is answered by the guard"),
        }
    }

    fn check_list(
        &mut self,
        kind: Kind,
        call: &Call,
        rows: BTreeMap<String, i32>,
        matches: impl Fn(&str, &Thing) -> bool,
        state: Option<i32>,
    ) {
        self.counts.lists += 1;
        let now = self.now;
        let since = call
            .requested
            .checked_sub(MAX_AGE)
            .unwrap_or(call.requested);
        let mut of_kind = self.runtime.things.iter().filter(|(_, it)| it.kind == kind);
        assert!(
            of_kind.any(|(id, _)| self.faults.have_shown(id, since)),
            "no row of its kind is confirmed"
        );
        for (id, thing) in self.runtime.things.iter().filter(|(_, it)| it.kind == kind) {
            let reported = self.kubelet.reported.get(id).cloned().unwrap_or_default();
            // A call that hung until now may not be answered yet.
            let hangs = self.runtime.statuses_hang.contains(id)
                || self.runtime.kinds_hang.contains(&kind)
                || now < self.went_on + Duration::from_millis(100);
            let Some(shown) = rows.get(id) else {
                let is_known = match thing.is_foreign {
                    true => {
                        self.has_host_ids && thing.created() + FOREIGN_KNOWN_AFTER < call.requested
                    }
                    false => reported.there.is_some_and(|there| there < call.requested),
                };
                let was_so = |time| {
                    let was = thing.state_at(time);
                    was.is_some() && state.is_none_or(|state| was == Some(state))
                };
                let since = call
                    .requested
                    .checked_sub(MAX_AGE)
                    .unwrap_or(call.requested);
                let changed = thing.states.iter().any(|(at, _)| *at > since && *at <= now);
                let is_wanted = was_so(now) && was_so(since.max(thing.created())) && !changed;
                let is_old = hangs && state.is_some() || self.faults.are_proof(id);
                assert!(
                    !(is_known && is_wanted && matches(id, thing)) || is_old,
                    "{id} is missing: {thing:?} {reported:?}"
                );
                continue;
            };
            assert!(matches(id, thing), "{id} was not requested");
            assert!(
                state.is_none_or(|state| state == *shown),
                "{id} has that state"
            );
            let removed = reported.removed.filter(|removed| *removed < call.requested);
            // A kubelet skips the container, because its status is not found.
            let is_forgotten = removed
                .is_some_and(|removed| hangs && removed < self.restarted && self.restarted < now);
            assert!(
                removed.is_none() || is_forgotten,
                "the removal of {id} was answered"
            );
            if let Some((known, when)) = reported.state {
                // A killed guard does not know what it had not saved of an id whose status hangs. It shows
                // that container as running for longer, which is harmless.
                let runs = *shown == RUNNING || kind == Kind::Sandbox;
                let is_forgotten = hangs && runs && when < self.restarted && self.restarted < now;
                assert!(
                    *shown >= known || when >= call.requested || is_forgotten,
                    "{id} is older than in an earlier answer"
                );
            }
            if let Some(started) = reported.started {
                assert!(
                    *shown >= RUNNING || started >= call.requested,
                    "{id} was started"
                );
            }
            assert!(*shown <= thing.state(), "{id} is {shown} before it is so");
            let since = call
                .requested
                .checked_sub(MAX_AGE)
                .unwrap_or(call.requested);
            let was = thing.state_at(since).or(thing.removed.map(|_| *shown));
            assert!(
                hangs || was.is_none_or(|was| *shown >= was),
                "{id} was not confirmed"
            );
        }
    }
}
