//! What is done while a list does not come: sweeps by id in its place, one after the
//! other, until it does. The overdue list stays outstanding, alone.

use std::time::Duration;

use tokio::time::Instant;

use super::sweep::{Sweep, Target};
use super::{Generic, Message};
use crate::calls::About;
use crate::event::Source;
use crate::id::{Id, PodUid};
use crate::listed::{ListedContainer, ListedSandbox};
use crate::records::Look;
use crate::runtime::{Call, CallError, Listing, Runtime};
use crate::status::{ContainerStatus, SandboxStatus};

/// What a sweep was told.
pub(super) enum Swept {
    Sandboxes(Instant, Result<Listing<ListedSandbox>, CallError>),
    Containers(Instant, Result<Listing<ListedContainer>, CallError>),
    Sandbox(
        Option<PodUid>,
        Id,
        Instant,
        Result<SandboxStatus, CallError>,
    ),
    Container(
        Option<PodUid>,
        Id,
        Instant,
        Result<ContainerStatus, CallError>,
    ),
}

/// Which of the lists do not come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Missing {
    pub(super) sandboxes: bool,
    pub(super) containers: bool,
}

impl Missing {
    pub(super) fn any(self) -> bool {
        self.sandboxes || self.containers
    }

    /// What that means for who is seen.
    pub(super) fn sentence(self) -> Option<&'static str> {
        match (self.sandboxes, self.containers) {
            (false, false) => None,
            (true, false) => Some("sandboxes cannot be listed, and are seen one by one"),
            (false, true) => Some("containers cannot be listed, and are seen one by one"),
            (true, true) => {
                Some("nothing can be listed: known pods are seen one by one, new pods are not seen")
            }
        }
    }
}

impl<R: Runtime> Generic<R> {
    /// When the sweeps want to be woken.
    pub(super) fn sweep_alarm(&self) -> Option<Instant> {
        if !self.missing().any() {
            return None;
        }
        match &self.sweep {
            Some(sweep) if !sweep.is_asked() => sweep.due(),
            _ => Some(self.next_sweep),
        }
    }

    /// Before the first good lists there is no id to sweep by. A list that a sweep itself
    /// asked for can be held up as well as one of a relist.
    pub(super) fn missing(&self) -> Missing {
        if self.lists.last_good.is_none() && self.host_ids.is_empty() {
            return Missing::default();
        }
        self.not_to_be_had()
    }

    fn not_to_be_had(&self) -> Missing {
        let failed = self.lists.failed();
        let overdue = self.overdue();
        let hangs = |list| overdue.iter().any(|call| call.about.call == list);
        Missing {
            sandboxes: failed.sandboxes || hangs(Call::ListPodSandbox),
            containers: failed.containers || hangs(Call::ListContainers),
        }
    }

    /// Begins a sweep if one is due, and goes on with the one under way.
    pub(super) fn drive_sweep(&mut self) {
        let now = Instant::now();
        if self.not_to_be_had().any() && now >= self.next_sweep {
            // Where lists never came, this is all there is to begin with.
            self.host_ids = (self.environment.ids)().into_iter().collect();
            self.next_sweep = now;
        }
        let missing = self.missing();
        if !missing.any() {
            self.sweep = None;
            let pause = if self.not_to_be_had().any() {
                self.config.relist_period
            } else {
                Duration::ZERO
            };
            self.next_sweep = now + pause;
            return;
        }
        let idle = self.sweep.as_ref().is_none_or(Sweep::is_asked);
        if idle && now >= self.next_sweep {
            self.begin_sweep(missing, now);
        }
        while let Some(target) = self.sweep.as_mut().and_then(|sweep| sweep.take(now)) {
            self.next_sweep = now + self.config.relist_period;
            self.look_at(target);
        }
        let overdue = self.patience.with(Call::ContainerStatus);
        if let Some(sweep) = &mut self.sweep
            && sweep.completes(now, overdue)
        {
            let (begun, time) = (sweep.begun, sweep.time);
            let mut pending = self.records.pending();
            let silent = self.overdue().into_iter().filter_map(|call| call.about.pod);
            pending.extend(silent.map(|pod| pod.uid));
            self.cache.relisted(begun, pending);
            self.begin_round(begun, time, Source::Sweep);
        }
    }

    fn begin_sweep(&mut self, missing: Missing, now: Instant) {
        if self.sweep.is_none() {
            let sentence = missing.sentence().unwrap_or_default();
            tracing::info!("sweeping by id: {sentence}");
        }
        self.next_sweep = now + self.config.relist_period;
        let targets = self.targets(missing);
        let time = self.wall_time();
        self.sweep = Some(Sweep::new(self.sweep.take(), now, time, targets));
        let runtime = self.runtime.clone();
        let is_free = |call| !self.calls.is_outstanding(call, None);
        if !missing.sandboxes && is_free(Call::ListPodSandbox) {
            let list = async move { runtime.list_sandboxes().await };
            self.ask(Call::ListPodSandbox, list, move |answer| {
                Message::Swept(Swept::Sandboxes(now, answer))
            });
        } else if !missing.containers && is_free(Call::ListContainers) {
            let list = async move { runtime.list_containers().await };
            self.ask(Call::ListContainers, list, move |answer| {
                Message::Swept(Swept::Containers(now, answer))
            });
        }
    }

    /// Everything known of what cannot be listed, and what the host and the stream know
    /// beyond that; but not what is being asked for already.
    fn targets(&mut self, missing: Missing) -> Vec<Target> {
        let mut unknown = self.host_ids.clone();
        unknown.append(&mut self.hinted_ids);
        let mut targets = Vec::new();
        for pod in self.records.listed() {
            let target = |call, id: &Id, container| Target {
                uid: Some(pod.pod.uid.clone()),
                id: id.clone(),
                about: About {
                    call,
                    id: Some(id.clone()),
                    container,
                    pod: Some(pod.pod.clone()),
                },
            };
            for row in &pod.sandboxes {
                unknown.remove(&row.id);
                if missing.sandboxes {
                    targets.push(target(Call::PodSandboxStatus, &row.id, None));
                }
            }
            for row in &pod.containers {
                unknown.remove(&row.id);
                if missing.containers {
                    let name = Some(row.name.clone());
                    targets.push(target(Call::ContainerStatus, &row.id, name));
                }
            }
        }
        for id in unknown {
            let calls = [
                (missing.sandboxes, Call::PodSandboxStatus),
                (missing.containers, Call::ContainerStatus),
            ];
            for (_, call) in calls.into_iter().filter(|(missing, _)| *missing) {
                targets.push(Target {
                    uid: None,
                    id: id.clone(),
                    about: About {
                        id: Some(id.clone()),
                        ..About::node(call)
                    },
                });
            }
        }
        targets.retain(|target| {
            !self
                .calls
                .is_outstanding(target.about.call, Some(&target.id))
        });
        targets
    }

    fn look_at(&mut self, target: Target) {
        let (runtime, calls) = (self.runtime.clone(), self.calls.clone());
        let (reports, begun) = (self.reports.clone(), Instant::now());
        let Target { uid, id, about } = target;
        self.tasks.spawn(async move {
            let swept = if about.call == Call::PodSandboxStatus {
                let answer = calls.run(about, runtime.sandbox_status(&id)).await;
                Swept::Sandbox(uid, id, begun, answer)
            } else {
                let answer = calls.run(about, runtime.container_status(&id)).await;
                Swept::Container(uid, id, begun, answer)
            };
            // Nobody listens any more when the generator stops.
            let _ = reports.send(Message::Swept(swept));
        });
    }

    pub(super) fn on_swept(&mut self, swept: Swept) {
        match swept {
            Swept::Sandboxes(begun, Ok(listing)) => {
                let look = looked(begun);
                self.records.observe_sandboxes(&listing.rows, look);
                self.swept_list();
            }
            Swept::Containers(begun, Ok(listing)) => {
                let look = looked(begun);
                self.records.observe_containers(&listing.rows, look);
                self.swept_list();
            }
            Swept::Sandboxes(_, Err(error)) => self.lists.sandboxes.fails(error),
            Swept::Containers(_, Err(error)) => self.lists.containers.fails(error),
            Swept::Sandbox(uid, id, begun, answer) => self.swept_sandbox(uid, &id, begun, answer),
            Swept::Container(uid, id, begun, answer) => {
                self.swept_container(uid, &id, begun, answer);
            }
        }
    }

    fn swept_sandbox(
        &mut self,
        uid: Option<PodUid>,
        id: &Id,
        begun: Instant,
        answer: Result<SandboxStatus, CallError>,
    ) {
        let look = looked(begun);
        match known_now(answer) {
            None => self.sweep_failed(id),
            Some(status) => {
                let uid = match (uid, status) {
                    (Some(uid), status) => {
                        let state = status.map(|status| status.state);
                        self.records.observe_sandbox(&uid, id, state, look);
                        Some(uid)
                    }
                    (None, Some(status)) => status.pod.clone().map(|pod| {
                        self.records.learn_sandbox(&pod, status.into(), look);
                        pod.uid
                    }),
                    // The id is a container's.
                    (None, None) => None,
                };
                self.swept_id(uid.as_ref(), id);
            }
        }
    }

    fn swept_container(
        &mut self,
        uid: Option<PodUid>,
        id: &Id,
        begun: Instant,
        answer: Result<ContainerStatus, CallError>,
    ) {
        let look = looked(begun);
        match known_now(answer) {
            None => self.sweep_failed(id),
            Some(status) => {
                let uid = match (uid, status) {
                    (Some(uid), status) => {
                        let state = status.map(|status| status.state);
                        self.records.observe_container(&uid, id, state, look);
                        Some(uid)
                    }
                    (None, Some(status)) => status.pod.clone().map(|pod| {
                        self.records.learn_container(&pod, status.into(), look);
                        pod.uid
                    }),
                    // The id is a sandbox's.
                    (None, None) => None,
                };
                self.swept_id(uid.as_ref(), id);
            }
        }
    }

    fn swept_list(&mut self) {
        if let Some(sweep) = &mut self.sweep {
            sweep.list_answered();
        }
        for uid in self.records.unsettled() {
            self.take_step(&uid);
        }
    }

    fn sweep_failed(&mut self, id: &Id) {
        if let Some(sweep) = &mut self.sweep {
            sweep.failed(id);
        }
    }

    fn swept_id(&mut self, uid: Option<&PodUid>, id: &Id) {
        if let Some(sweep) = &mut self.sweep {
            sweep.answered(id, Instant::now());
        }
        if let Some(uid) = uid {
            self.take_step(uid);
        }
    }
}

/// The look that was begun then and has just ended.
fn looked(begun: Instant) -> Look {
    Look {
        begun,
        ended: Instant::now(),
        source: Source::Sweep,
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
