//! A random world: a kubelet, the guard, a runtime, and time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::Rpc;
use fastrand::Rng;
use guard::core::{Action, CallId, Guard, Input, Mode, Outcome, Reply, RuntimeCallId, Settings};
use tokio::time::Instant;

use super::faults::Faults;
use super::kubelet::{Call, Kubelet};
use super::pods::{Acting, Want};
use super::runtime::{Runtime, RuntimeCall, id_of};

mod calls;
mod changes;
mod checks;

/// How often the guard answered in place of the runtime, and what was tried.
#[derive(Default)]
pub struct Counts {
    pub lists: u64,
    pub completed: u64,
    /// How many lists were compared in shadow mode.
    pub compared: u64,
    /// How many answers of the runtime lacked an id that exists.
    pub lacked: u64,
    /// How many containers the acting kubelet has started, and the volumes of how many pods it has
    /// released.
    pub started: u64,
    pub released: u64,
}

enum Event {
    /// The kubelet makes a random call.
    Calls,
    /// The acting kubelet relists.
    Relists,
    /// A fault begins or ends, or another client changes something.
    Changes,
    /// The runtime performs a call, or answers one.
    TakesUp(RuntimeCallId),
    Answers(RuntimeCallId),
    /// The acting kubelet makes this call.
    Acts(Rpc, Bytes, Want),
    HostIds,
    Saves,
    /// The kubelet cancels this call.
    Leaves(CallId),
    Alarm,
}

struct Outstanding {
    call: RuntimeCall,
    since: Instant,
    is_ours: bool,
    /// The answer, once the call is performed.
    answer: Option<Outcome>,
}

pub struct World {
    rng: Rng,
    speaks: bool,
    start: Instant,
    now: Instant,
    events: BTreeMap<(Instant, u64), Event>,
    last_event: u64,
    runtime: Runtime,
    guard: Guard,
    kubelet: Kubelet,
    calls: BTreeMap<CallId, Call>,
    last_call: u64,
    outstanding: BTreeMap<RuntimeCallId, Outstanding>,
    has_host_ids: bool,
    alarm: Option<Instant>,
    /// The saved state of the guard.
    saved: Option<Vec<u8>>,
    faults: Faults,
    /// When the guard was last killed.
    restarted: Instant,
    /// When all faults last ended.
    went_on: Instant,
    mode: Mode,
    /// A kubelet that acts on its answers, in place of one that makes random calls.
    acting: Option<Acting>,
    /// Whether the host's ids can be read and only one running container is ever stuck: then no list is
    /// refused.
    is_ordinary: bool,
    /// How many seconds a call takes at least and at most.
    takes: (f64, f64),
    counts: Counts,
}

fn settings() -> Settings {
    Settings {
        rehearse_every: Duration::from_secs(2),
        ..Settings::default()
    }
}

impl World {
    pub fn new(seed: u64, speaks: bool) -> Self {
        let mut rng = Rng::with_seed(seed);
        let start = Instant::now();
        let has_host_ids = rng.u8(0..4) > 0 || seed % 16 == 9;
        let mode = match seed % 8 {
            7 => Mode::Shadow,
            _ => Mode::Guard,
        };
        let mut world = Self {
            rng,
            speaks,
            start,
            now: start,
            events: BTreeMap::new(),
            last_event: 0,
            runtime: Runtime::default(),
            guard: Guard::new(settings(), mode, start, 0),
            kubelet: Kubelet::default(),
            calls: BTreeMap::new(),
            last_call: 0,
            outstanding: BTreeMap::new(),
            has_host_ids,
            alarm: None,
            saved: None,
            faults: Faults::default(),
            restarted: start,
            went_on: start,
            mode,
            acting: None,
            is_ordinary: seed % 16 == 9,
            takes: (0.0, 0.02),
            counts: Counts::default(),
        };
        world.runtime.is_dockerd = seed % 16 == 5;
        // Most nodes are small, so that one container is sometimes the only one.
        let most = match world.rng.u8(0..64) {
            0 => 40,
            _ => 6,
        };
        for _ in 0..world.rng.u32(0..most) {
            world.make_pod(false);
        }
        if world.rng.u8(0..8) == 0 && !world.is_ordinary {
            let least = world.rng.f64() * 3.0;
            world.takes = (least, least + world.rng.f64() * 4.0);
        }
        world.at(0.0, Event::Saves);
        match seed % 4 {
            2 => {
                let mut acting = Acting::default();
                for _ in 0..world.rng.u8(1..5) {
                    acting.wants_pod();
                }
                world.acting = Some(acting);
                world.at(0.0, Event::Relists);
            }
            _ => world.at(0.0, Event::Calls),
        }
        let first = world.rng.f64() * 6.0;
        world.at(first, Event::Changes);
        world
    }

    fn at(&mut self, seconds: f64, event: Event) {
        self.last_event += 1;
        let time = self.now + Duration::from_secs_f64(seconds);
        self.events.insert((time, self.last_event), event);
    }

    fn note(&self, what: impl FnOnce() -> String) {
        if self.speaks {
            let seconds = (self.now - self.start).as_secs_f64();
            eprintln!("{seconds:8.3} {}", what());
        }
    }

    pub fn run(mut self) -> Counts {
        let end = self.start + Duration::from_secs(40);
        while let Some(((time, _), event)) = self.events.pop_first() {
            if time > end {
                break;
            }
            self.now = time;
            match event {
                Event::Calls => self.call(),
                Event::Relists => {
                    self.at(1.0, Event::Relists);
                    let now = self.now;
                    let wanted = self.acting.as_mut().map(|acting| acting.relist(now));
                    self.act(wanted.unwrap_or_default());
                }
                Event::Changes => self.change(),
                Event::Acts(rpc, request, want) => {
                    let call = CallId(self.last_call + 1);
                    if let Some(acting) = &mut self.acting {
                        acting.made_call(call, want);
                    }
                    self.make_call(rpc, request, false, 60.0);
                }
                Event::TakesUp(runtime_call) => self.take_up(runtime_call),
                Event::Answers(runtime_call) => self.answer(runtime_call),
                Event::HostIds => self.host(),
                Event::Saves => {
                    self.saved = self.guard.to_save(self.now).or(self.saved.take());
                    self.at(0.5, Event::Saves);
                }
                Event::Leaves(call) => {
                    if let Some(of) = self.calls.remove(&call) {
                        self.note(|| format!("{call:?} is cancelled"));
                        self.check_wait(&of);
                        self.step(Input::Abandoned(call));
                        self.ended(call, None);
                    }
                }
                Event::Alarm => self.step(Input::Time),
            }
        }
        let differences = &self.guard.figures().differences;
        if let Some(acting) = &self.acting {
            self.counts.started += acting.started;
            self.counts.released += acting.released;
        }
        self.counts.compared += differences.compared;
        self.counts.lacked += self.faults.count;
        assert_eq!(differences.newest, [], "a difference was found");
        self.counts
    }

    fn step(&mut self, input: Input) {
        let actions = self.guard.step(input, self.now);
        let answered = BTreeMap::new();
        self.perform(actions, &answered);
        self.set_alarm();
    }

    fn set_alarm(&mut self) {
        let next = self.guard.alarm(self.now);
        if let Some(next) = next
            && self
                .alarm
                .is_none_or(|alarm| alarm <= self.now || next < alarm)
        {
            self.alarm = Some(next);
            let seconds = (next - self.now).as_secs_f64();
            self.at(seconds, Event::Alarm);
        }
    }

    fn perform(&mut self, actions: Vec<Action>, answered: &BTreeMap<RuntimeCallId, Outcome>) {
        for action in actions {
            match action {
                Action::Pass(runtime_call, call) => {
                    let of = &self.calls[&call];
                    let (rpc, request) = (of.rpc, of.request.clone());
                    self.call_runtime(runtime_call, rpc, request, false);
                }
                Action::Call(runtime_call, rpc, request) => {
                    self.call_runtime(runtime_call, rpc, request, true)
                }
                Action::Relay(runtime_call, call) => {
                    let id = call;
                    let call = self.calls.remove(&call).expect("each call ends once");
                    let outcome = answered
                        .get(&runtime_call)
                        .expect("it has just been answered");
                    if !call.is_ours {
                        self.reported(&call, outcome);
                    }
                    self.ended(id, Some(outcome));
                }
                Action::Reply(call, reply) => {
                    assert_eq!(self.mode, Mode::Guard, "the guard answers no call");
                    let id = call;
                    let call = self.calls.remove(&call).expect("each call ends once");
                    assert!(!call.is_ours, "an observer is answered by the runtime only");
                    self.note(|| format!("  replied to {} {:?}", call.rpc, reply_of(&reply)));
                    match reply {
                        Reply::Message(message) => {
                            match call.rpc {
                                Rpc::RunPodSandbox | Rpc::CreateContainer => {
                                    self.faults.shows(&id_of(&message), call.requested);
                                }
                                Rpc::StartContainer => {
                                    self.faults.shows(&id_of(&call.request), call.requested);
                                }
                                _ => {}
                            }
                            self.check(&call, &message);
                            let outcome = Outcome::Messages(vec![message]);
                            self.reported(&call, &outcome);
                            self.ended(id, Some(&outcome));
                        }
                        Reply::Failed(_) => {
                            let is_list =
                                matches!(call.rpc, Rpc::ListContainers | Rpc::ListPodSandbox);
                            assert!(!is_list, "a list is refused");
                            self.ended(id, Some(&Outcome::Failed));
                        }
                    }
                }
                Action::Cancel(runtime_call) => {
                    // The call may have been lost in the same step.
                    let was = self.outstanding.remove(&runtime_call);
                    assert!(
                        was.is_some() || answered.contains_key(&runtime_call),
                        "it has ended"
                    );
                }
                Action::ListHostIds => {
                    let delay = self.rng.f64() * 0.05;
                    self.at(delay, Event::HostIds);
                }
            }
        }
    }

    fn end(&mut self, answered: BTreeMap<RuntimeCallId, Outcome>) {
        for (runtime_call, outcome) in &answered {
            let actions = self
                .guard
                .step(Input::Answered(*runtime_call, outcome.clone()), self.now);
            self.perform(actions, &answered);
        }
        self.set_alarm();
    }
}

fn reply_of(reply: &Reply) -> String {
    match reply {
        Reply::Message(message) => format!("{} bytes", message.len()),
        Reply::Failed(failure) => format!("{failure:?}"),
    }
}

fn short(id: &str) -> &str {
    &id[id.len().saturating_sub(4)..]
}
