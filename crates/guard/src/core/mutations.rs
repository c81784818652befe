//! Calls that change something. They are passed on. If the answer is overdue but the runtime itself
//! shows that the change is done, the guard completes the call.
//!
//! ```text
//!   called --passed on--> answered: applied to the rows, then passed on
//!      |         \--not answered for 1 s: is the change done?--yes--> completed by the guard
//!      \--an earlier call for the same target is overdue--> Unavailable
//! ```
//!
//! containerd 1.7 performs a change under its status lock, and can hang after that, while it
//! generates the event for its stream.

use std::collections::BTreeMap;
use std::time::Duration;

use base::id::Id;
use bytes::Bytes;
use cri::Rpc;
use tokio::time::Instant;

use super::known::Interval;
use super::{
    Action, Call, CallId, Caller, Failure, Guard, Outcome, Purpose, Reply, RuntimeCallId, count,
};
use crate::wire::Kind;
use crate::wire::request::{Mutation, Target, of_id};
use crate::wire::row::{EXITED, READY, RUNNING};
use crate::wire::status::Status;

/// How often the guard checks whether an outstanding change is done.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// How long the guard waits for the second check of a removed id. One `NotFound` is not enough.
const REMOVAL_RECHECK_AFTER: Duration = Duration::from_millis(250);

/// How long after its request a call that does not use the network plugins is overdue.
const OVERDUE_AFTER: Duration = Duration::from_secs(5);

/// How long after its request a call that uses the network plugins is overdue.
const NETWORK_OVERDUE_AFTER: Duration = Duration::from_secs(30);

/// The outstanding changes.
#[derive(Clone, Debug, Default)]
pub(super) struct Mutations {
    running: BTreeMap<RuntimeCallId, Running>,
}

#[derive(Clone, Debug)]
struct Running {
    mutation: Mutation,
    requested: Instant,
    /// The call of the caller that waits; `None` once the guard has completed it.
    call: Option<Call>,
    next_check: Instant,
}

impl Running {
    fn overdue_at(&self) -> Instant {
        self.requested
            + match self.mutation.rpc {
                Rpc::RunPodSandbox | Rpc::StopPodSandbox | Rpc::RemovePodSandbox => {
                    NETWORK_OVERDUE_AFTER
                }
                // A grace period of a billion years would overflow the instant.
                _ => OVERDUE_AFTER + Duration::from_secs(self.mutation.grace_seconds.min(1 << 20)),
            }
    }
}

impl Mutations {
    /// Removes a change whose caller has cancelled its call. Returns the call to the runtime, and the
    /// change.
    pub(super) fn abandoned(&mut self, call: CallId) -> Option<(RuntimeCallId, Mutation)> {
        let is_its = |it: &Running| it.call.as_ref().is_some_and(|it| it.id == call);
        let (&runtime_call, _) = self.running.iter().find(|(_, it)| is_its(it))?;
        let it = self.running.remove(&runtime_call)?;
        Some((runtime_call, it.mutation))
    }

    pub(super) fn alarm(&self, now: Instant) -> Option<Instant> {
        let waiting = self.running.values().filter(|it| it.call.is_some());
        let times = waiting.map(|it| it.next_check);
        times.filter(|time| *time > now).min()
    }
}

impl Guard {
    pub(super) fn on_mutation_called(&mut self, mut mutation: Mutation, call: Call, now: Instant) {
        let prefix = match &mut mutation.target {
            Target::Existing(kind, id) => Some((*kind, id)),
            Target::NewContainer { sandbox, .. } => Some((Kind::Sandbox, sandbox)),
            Target::NewSandbox { .. } => None,
        };
        if let Some((kind, id)) = prefix {
            if let Some(whole) = self.rows[kind].only_one_that_begins(id) {
                *id = whole.clone();
            } else if self.rows[kind].is_as_long(id) {
                // The caller knows that the id exists.
                self.on_id_named(id, now);
            }
        }
        let mut running = self.mutations.running.values();
        let is_overdue = |it: &Running| {
            it.mutation.target == mutation.target && it.call.is_some() && now >= it.overdue_at()
        };
        if self.may_answer(call.from) && running.any(is_overdue) {
            count(&mut self.figures.refused, call.rpc);
            let reply = Reply::Failed(Failure::MutationOverdue);
            self.actions.push(Action::Reply(call.id, reply));
            return;
        }
        let runtime_call = self.pass_on(Purpose::Mutation, call.id, now);
        let running = Running {
            mutation,
            requested: now,
            call: Some(call),
            next_check: now + self.settings.check_completion_after,
        };
        self.mutations.running.insert(runtime_call, running);
    }

    pub(super) fn on_mutation_answered(
        &mut self,
        runtime_call: RuntimeCallId,
        outcome: &Outcome,
        interval: Interval,
    ) {
        let Some(it) = self.mutations.running.remove(&runtime_call) else {
            return;
        };
        match outcome {
            Outcome::Messages(messages) => {
                let message = messages.first().cloned().unwrap_or_default();
                self.apply(&it.mutation, &message, interval);
            }
            // The runtime reports that the change is not done, but the state of the id may have changed.
            Outcome::Failed | Outcome::NotFound => {
                if let Target::Existing(kind, id) = &it.mutation.target {
                    self.rows[*kind].changed(id, interval.1);
                }
            }
            Outcome::GivenUp | Outcome::Undecodable | Outcome::Lost => {
                self.on_unknown_end(&it.mutation, interval.1);
            }
        }
        if let Some(call) = it.call {
            self.actions.push(Action::Relay(runtime_call, call.id));
        }
    }

    /// The outstanding changes that the guard may complete at `now`.
    fn completable(&self, now: Instant) -> impl Iterator<Item = (RuntimeCallId, &Running)> {
        let running = self.mutations.running.iter();
        let completable = running.filter(move |(_, it)| {
            let from = it.call.as_ref().map(|call| call.from);
            let is_due = now >= it.requested + self.settings.check_completion_after;
            is_due && from.is_some_and(|from| self.may_answer(from))
        });
        completable.map(|(runtime_call, it)| (*runtime_call, it))
    }

    /// Completes creations whose sandbox or container is in the rows now. Of a sandbox with a network,
    /// requests the status instead, which shows whether the network is set up.
    pub(super) fn complete_creations(&mut self, now: Instant) {
        let created = self.completable(now).filter_map(|(runtime_call, it)| {
            let id = self.created_id(it)?.clone();
            Some((runtime_call, id, it.mutation.has_network))
        });
        for (runtime_call, id, has_network) in created.collect::<Vec<_>>() {
            match has_network {
                // cri-dockerd lists a sandbox as ready before its network is set up.
                true => self.start_read(Kind::Sandbox, &id, now),
                false => self.complete(runtime_call, of_id(&id), now),
            }
        }
    }

    /// The id that the call has created, if there is one: a new row, and ready if it is a sandbox.
    fn created_id(&self, it: &Running) -> Option<&Id> {
        let kind = it.mutation.target.created()?;
        let mut rows = self.rows[kind].iter();
        let created = rows.find(|(_, known)| {
            let is_ready = kind == Kind::Container || known.row.state == READY;
            known.is_new_since(it.requested) && is_ready && it.mutation.has_created(&known.row)
        });
        created.map(|(id, _)| id)
    }

    /// Completes the calls that a status answer shows to be done. `status` is `None` if the runtime has no
    /// such id.
    pub(super) fn complete_by_status(
        &mut self,
        kind: Kind,
        id: &Id,
        status: Option<&Status>,
        (requested, answered): Interval,
    ) {
        let target = Target::Existing(kind, id.clone());
        let is_done = |it: &Running| match (it.mutation.rpc, status) {
            // The status of a sandbox with a network has an address once the network is set up.
            (Rpc::RunPodSandbox, Some(status)) => {
                status.has_address && it.mutation.has_network && self.created_id(it) == Some(id)
            }
            _ if it.requested > requested || it.mutation.target != target => false,
            (Rpc::StartContainer, Some(status)) => {
                status.state == RUNNING || status.state == EXITED && status.was_started
            }
            (Rpc::RemoveContainer | Rpc::RemovePodSandbox, None) => true,
            _ => false,
        };
        let done = self.completable(answered).filter(|(_, it)| is_done(it));
        let done = done.map(|(runtime_call, it)| match it.mutation.target.created() {
            Some(_) => (runtime_call, of_id(id)),
            None => (runtime_call, Bytes::new()),
        });
        for (runtime_call, answer) in done.collect::<Vec<_>>() {
            self.complete(runtime_call, answer, answered);
        }
    }

    /// Lets a removal of this id be checked again soon: the runtime has reported once that it has no such
    /// id.
    pub(super) fn check_removal_soon(&mut self, kind: Kind, id: &Id, now: Instant) {
        let target = Target::Existing(kind, id.clone());
        let check_completion_after = self.settings.check_completion_after;
        for it in self.mutations.running.values_mut() {
            if it.mutation.target == target {
                let soon = (now + REMOVAL_RECHECK_AFTER).max(it.requested + check_completion_after);
                it.next_check = it.next_check.min(soon);
            }
        }
    }

    /// Completes a call. The call to the runtime stays outstanding until it ends by itself.
    fn complete(&mut self, runtime_call: RuntimeCallId, answer: Bytes, now: Instant) {
        if let Some(it) = self.mutations.running.get_mut(&runtime_call)
            && let Some(call) = it.call.take()
        {
            let (mutation, interval) = (it.mutation.clone(), (it.requested, now));
            count(&mut self.figures.completed, call.rpc);
            self.apply(&mutation, &answer, interval);
            let reply = Reply::Message(answer);
            self.actions.push(Action::Reply(call.id, reply));
        }
    }

    /// Checks whether outstanding changes are done.
    pub(super) fn advance_mutations(&mut self, now: Instant) {
        if !self.is_active() {
            return;
        }
        let running = self.mutations.running.values_mut();
        let due = running.filter_map(|it| {
            let call = it.call.as_ref();
            let is_of_client = call.is_some_and(|call| call.from == Caller::Client);
            (is_of_client && now >= it.next_check).then(|| {
                it.next_check = now + CHECK_INTERVAL;
                (it.mutation.rpc, it.mutation.target.clone())
            })
        });
        let due: Vec<(Rpc, Target)> = due.collect();
        if !due.is_empty() {
            // The row may have appeared before completion was allowed.
            self.complete_creations(now);
        }
        for (rpc, target) in due {
            if let Some(kind) = target.created() {
                self.request_complete_list(kind, now);
                self.ids.request_host_ids_soon();
            }
            if let Target::Existing(kind, id) = target
                && matches!(
                    rpc,
                    Rpc::StartContainer | Rpc::RemoveContainer | Rpc::RemovePodSandbox
                )
            {
                self.start_read(kind, &id, now);
            }
        }
    }
}
