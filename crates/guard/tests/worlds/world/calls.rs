//! The calls of the kubelet to the guard, and the calls of the guard to the runtime.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::Rpc;
use guard::Kind;
use guard::core::{CallId, Caller, HostIds, Input, Mode, Outcome, RuntimeCallId};

use super::{Event, Outstanding, World, short};
use crate::kubelet::Call;
use crate::pods::Wanted;
use crate::runtime::{RUNNING, RuntimeCall, id_of};

impl World {
    pub(super) fn call_runtime(
        &mut self,
        runtime_call: RuntimeCallId,
        rpc: Rpc,
        request: Bytes,
        is_ours: bool,
    ) {
        let call = RuntimeCall { rpc, request };
        if is_ours {
            let same = |other: &&Outstanding| {
                other.is_ours
                    && other.call.rpc == rpc
                    && id_of(&other.call.request) == id_of(&call.request)
            };
            let twice = self.outstanding.values().find(same);
            assert!(
                twice.is_none(),
                "two {rpc} calls for one id are outstanding"
            );
        }
        let answer = None;
        let outstanding = Outstanding {
            call,
            since: self.now,
            is_ours,
            answer,
        };
        self.outstanding.insert(runtime_call, outstanding);
        let (least, most) = self.takes;
        let delay = least + self.rng.f64() * (most - least);
        self.at(delay, Event::TakesUp(runtime_call));
    }

    pub(super) fn take_up(&mut self, runtime_call: RuntimeCallId) {
        let Some(outstanding) = self.outstanding.get_mut(&runtime_call) else {
            return;
        };
        if self.runtime.holds(&outstanding.call) || outstanding.answer.is_some() {
            return;
        }
        let (call, since) = (outstanding.call.clone(), outstanding.since);
        // An acting kubelet rightly starts a container that the runtime itself does not show. So it must not
        // receive such an answer, and its calls may be shared with those of the guard.
        let is_untold = outstanding.is_ours && call.request.is_empty();
        let may_lack = self.mode == Mode::Guard && (self.acting.is_none() || is_untold);
        let hidden = match may_lack {
            true => self.faults.hides(&call, &self.runtime),
            false => None,
        };
        self.runtime.hidden = hidden.filter(|id| self.may_be_lacking(id));
        let answer = self.runtime.perform(&call, self.now);
        if let Some(id) = self.runtime.hidden.take() {
            self.note(|| format!("{} lacks {}", call.rpc, short(&id)));
            self.faults.lacked(id, since);
        }
        if let Some(outstanding) = self.outstanding.get_mut(&runtime_call) {
            outstanding.answer = Some(answer);
        }
        let doubled = self.runtime.doubled.take();
        assert!(
            doubled.is_none() || self.acting.is_none(),
            "a second copy of {doubled:?} is started"
        );
        let delay = self.rng.f64() * 0.02;
        self.at(delay, Event::Answers(runtime_call));
    }

    /// Whether an answer may lack this id. If no list has shown the id since the guard's start, or if it is
    /// being removed, one such answer would be enough for the guard.
    fn may_be_lacking(&self, id: &str) -> bool {
        let thing = &self.runtime.things[id];
        let removes = |it: &&Outstanding| {
            let of = id_of(&it.call.request);
            matches!(it.call.rpc, Rpc::RemoveContainer | Rpc::RemovePodSandbox)
                && (of == *id || of == thing.sandbox)
        };
        let is_proof = self.acting.is_some() && self.faults.have_lacked(id);
        let is_removed = self.outstanding.values().any(|it| removes(&it));
        !is_removed && !is_proof && self.faults.have_listed(id)
    }

    pub(super) fn answer(&mut self, runtime_call: RuntimeCallId) {
        let Some(outstanding) = self.outstanding.get(&runtime_call) else {
            return;
        };
        if self.runtime.holds_answer(&outstanding.call) {
            return;
        }
        let Some(Outstanding {
            answer: Some(outcome),
            call,
            since,
            ..
        }) = self.outstanding.remove(&runtime_call)
        else {
            return;
        };
        self.faults.answered(&call, &outcome, since);
        self.end(BTreeMap::from([(runtime_call, outcome)]));
    }

    pub(super) fn host(&mut self) {
        let host_ids = match self.has_host_ids {
            true if !self.is_ordinary && self.rng.u8(0..8) == 0 => HostIds::Unread,
            true => {
                let alive = self.runtime.alive().map(|(id, _)| id.clone());
                let all = alive.chain([self.runtime.next_id()]);
                HostIds::All(all.map(|id| id.as_str().into()).collect())
            }
            false => HostIds::Unavailable,
        };
        self.step(Input::HostIds(host_ids));
    }

    pub(super) fn call(&mut self) {
        let pause = self.rng.f64() * 0.3;
        self.at(pause, Event::Calls);
        let (rpc, request) = self.kubelet.next(&mut self.rng, &self.runtime);
        let reads = matches!(
            rpc,
            Rpc::ListContainers
                | Rpc::ListPodSandbox
                | Rpc::ContainerStatus
                | Rpc::PodSandboxStatus
                | Rpc::Version
        );
        let is_ours = reads && self.rng.u8(0..4) == 0;
        let timeout = match self.rng.u8(0..10) {
            0 => self.rng.f64() * 5.0,
            _ => 20.0,
        };
        self.make_call(rpc, request, is_ours, timeout);
    }

    pub(super) fn make_call(&mut self, rpc: Rpc, request: Bytes, is_ours: bool, timeout: f64) {
        self.last_call += 1;
        let call = CallId(self.last_call);
        self.note(|| format!("{call:?} {rpc} {}", short(&id_of(&request))));
        let requested = self.now;
        let of = Call {
            rpc,
            request: request.clone(),
            requested,
            is_ours,
        };
        self.calls.insert(call, of);
        self.at(timeout, Event::Leaves(call));
        self.step(Input::Called(guard::core::Call {
            id: call,
            rpc,
            request,
            from: match is_ours {
                true => Caller::Observer,
                false => Caller::Client,
            },
            deadline: Some(requested + Duration::from_secs_f64(timeout)),
        }));
    }

    /// Handles the end of a call of the acting kubelet.
    pub(super) fn ended(&mut self, call: CallId, outcome: Option<&Outcome>) {
        let now = self.now;
        let Some(acting) = &mut self.acting else {
            return;
        };
        let runtime = &self.runtime;
        let wanted = acting.on_end(call, outcome, now, |uid| {
            let mut things = runtime.alive().filter(|(_, thing)| thing.uid == *uid);
            let live =
                things.find(|(_, thing)| thing.kind == Kind::Container && thing.state() == RUNNING);
            assert!(live.is_none(), "the volumes of {live:?} are released");
        });
        self.act(wanted);
    }

    /// Schedules the calls of the acting kubelet.
    pub(super) fn act(&mut self, wanted: Vec<Wanted>) {
        for (rpc, request, want) in wanted {
            let delay = self.rng.f64() * 0.005;
            self.at(delay, Event::Acts(rpc, request, want));
        }
    }
}
