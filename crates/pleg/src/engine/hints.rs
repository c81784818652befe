//! Hints of the runtime's event stream.

use super::limits::SLOW_AFTER;
use super::state::Engine;
use crate::config::Mode;
use crate::model::event::Source;
use crate::model::id::PodRef;
use crate::model::wall_time::Moment;
use crate::observer::Measurement;
use crate::records::{Hint, NamedId};
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
        self.measure(Measurement::StreamEvent(latency));
        self.sources.streaming.announced(&id, now.instant);
        let (pod, named) = match sandbox {
            None => (None, Vec::new()),
            Some(AnnouncedSandbox { id: sandbox, pod }) => {
                let container = (sandbox != id).then(|| NamedId::Container {
                    id: id.clone(),
                    sandbox: sandbox.clone(),
                });
                let named = [NamedId::Sandbox(sandbox)].into_iter().chain(container);
                (Some(pod), named.collect())
            }
        };
        if !self.sources.hint_budget.take(now.instant) {
            return self.list_soon(now);
        }
        // The pod is unknown. A list will show it.
        let Some(pod) = pod.or_else(|| self.records.pod_of(&id)) else {
            return self.hurry(now);
        };
        let hint = Hint {
            source: Source::Stream,
            at: now.instant,
            announced: created_at,
            named,
            removed: if is_removal { vec![id] } else { Vec::new() },
        };
        self.hint(&pod, hint, now);
    }

    /// Makes a relist due soon in place of hints that are not followed. It waits until a burst of events
    /// has usually ended.
    pub(super) fn list_soon(&mut self, now: Moment) {
        let soon = SLOW_AFTER.min(self.config.relist_period);
        self.relister.hurry(now.instant + soon);
    }

    pub(super) fn hint(&mut self, pod: &PodRef, hint: Hint, now: Moment) {
        self.records.hint(pod, hint);
        self.take_step(&pod.uid, now);
    }

    pub(super) fn stream_opened(&mut self, now: Moment) {
        if self.sources.streaming.mark_open() {
            self.measure(Measurement::StreamOpened);
            // Changes before this moment were not announced.
            self.relister.request(now.instant);
        }
    }

    pub(super) fn on_stream_ended(&mut self, result: Result<(), CallError>, now: Moment) {
        self.measure(Measurement::StreamFailed);
        self.sources.streaming.ended(&result, now.instant);
        let why = match result {
            Ok(()) => "the runtime ended it".to_owned(),
            Err(error) => error.to_string(),
        };
        if self.sources.streaming.is_unsupported() && self.config.mode == Mode::Evented {
            tracing::warn!("the runtime has no event stream, so pods are relisted: {why}");
        } else if let Some(time) = self.sources.streaming.withheld_for(now.instant) {
            tracing::warn!(
                "the connection to the runtime was lost again soon after the event stream was opened: it \
                 is opened again after {} s, and pods are relisted meanwhile: {why}",
                time.as_secs()
            );
        } else {
            tracing::debug!("the event stream ended: {why}");
        }
    }
}
