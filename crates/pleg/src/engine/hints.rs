//! Hints of the runtime's event stream, and how many of them are followed.

use super::limits::{RELIST_FOR_HINTS_WITHIN, UNKNOWN_POD_COST, UNNAMED_POD_COST};
use super::state::Engine;
use crate::config::Mode;
use crate::model::event::Source;
use crate::model::id::PodRef;
use crate::model::wall_time::Moment;
use crate::records::{Hint, Met};
use crate::runtime::{Announced, AnnouncedSandbox, CallError};

impl Engine {
    pub(super) fn on_announced(&mut self, announced: Announced, now: Moment) {
        self.stream_opened(now);
        let Announced {
            id,
            created_at,
            sandbox,
            is_removal,
        } = announced;
        let latency = created_at.map(|created| now.wall.since(created));
        self.out.observer.stream_event(latency);
        self.sources.streaming.announced(&id, now.instant);
        let cost = match &sandbox {
            Some(sandbox) => self.cost_of(&sandbox.pod),
            None => UNNAMED_POD_COST,
        };
        if !self.sources.budget.take(cost, now.instant) {
            // Where lists do not come, a sweep asks for it.
            self.sweeper.remember(id, now.instant);
            self.on_flooded(now);
            return;
        }
        let pod = match &sandbox {
            Some(sandbox) => Some(sandbox.pod.clone()),
            None => {
                let pod = self.records.pod_of(&id);
                let cost = pod.as_ref().map_or(0, |pod| self.cost_of(pod));
                self.sources.budget.spend(cost);
                pod
            }
        };
        let met = match sandbox {
            Some(AnnouncedSandbox { id: sandbox, .. }) if sandbox == id => {
                vec![Met::Sandbox(sandbox)]
            }
            Some(AnnouncedSandbox { id: sandbox, .. }) => {
                let container = Met::Container {
                    id: id.clone(),
                    sandbox: sandbox.clone(),
                };
                vec![Met::Sandbox(sandbox), container]
            }
            None => Vec::new(),
        };
        match pod {
            Some(pod) => {
                let hint = Hint {
                    source: Source::Stream,
                    at: now.instant,
                    announced: created_at,
                    met,
                    removed: if is_removal { vec![id] } else { Vec::new() },
                };
                self.hint(&pod, hint, now);
            }
            // Nobody knows whose it is: the list does, or the sweep asks for it.
            None => {
                self.sweeper.remember(id, now.instant);
                self.hurry(now);
            }
        }
    }

    /// How many status calls a look at the pod takes.
    fn cost_of(&self, pod: &PodRef) -> u32 {
        match self.records.listed_as(&pod.uid) {
            None => UNKNOWN_POD_COST,
            Some(pod) => (pod.sandboxes.len() + pod.containers.len()) as u32,
        }
    }

    /// What cannot be followed one by one is one relist, soon.
    pub(super) fn on_flooded(&mut self, now: Moment) {
        self.doubt_stream(now);
        self.list_soon(now);
    }

    /// A relist takes the place of hints that were lost.
    pub(super) fn list_soon(&mut self, now: Moment) {
        let soon = RELIST_FOR_HINTS_WITHIN.min(self.config.relist_period);
        self.relister.hurry(now.instant + soon);
    }

    pub(super) fn hint(&mut self, pod: &PodRef, hint: Hint, now: Moment) {
        self.records.hint(pod, hint);
        self.take_step(&pod.uid, now);
    }

    pub(super) fn stream_opened(&mut self, now: Moment) {
        if self.sources.streaming.opened() {
            self.out.observer.stream_opened();
            // Whatever happened while nobody announced it.
            self.relister.request(now.instant);
        }
    }

    pub(super) fn on_stream_ended(&mut self, result: Result<(), CallError>, now: Moment) {
        self.out.observer.stream_failed();
        let was_live = self.sources.streaming.ended(&result, now.instant);
        let why = match result {
            Ok(()) => "the runtime ended it".to_owned(),
            Err(error) => error.to_string(),
        };
        if self.sources.streaming.is_unsupported() && self.config.mode == Mode::Evented {
            tracing::warn!("the runtime has no event stream, so pods are relisted: {why}");
        } else if let Some(time) = self.sources.streaming.held(now.instant) {
            tracing::warn!(
                "the connection to the runtime was lost again soon after the event stream was opened: it \
                 is opened again after {} s, and pods are relisted meanwhile: {why}",
                time.as_secs()
            );
        } else {
            tracing::debug!("the event stream ended: {why}");
        }
        if was_live {
            self.hurry(now);
        }
    }

    /// Nothing that the stream did counts any more, and the next relist is soon.
    pub(super) fn doubt_stream(&mut self, now: Moment) {
        if let Some(proof) = self.sources.streaming.proof() {
            proof.doubt();
            self.hurry(now);
        }
    }
}
