//! A random world: a kubelet, the guard, a runtime, and time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::{Rpc, v1};
use fastrand::Rng;
use guard::Kind;
use guard::core::{
    Action, CallId, Caller, Guard, HostIds, Input, Mode, Outcome, Reply, RuntimeCallId, Settings,
};
use prost::Message;
use tokio::time::Instant;

use super::faults::Faults;
use super::kubelet::{Call, Kubelet};
use super::pods::{Acting, Want, Wanted};
use super::runtime::{EXITED, RUNNING, Runtime, RuntimeCall, Thing, id_of};

/// How long until the host's directories show a container of another client.
const FOREIGN_KNOWN_AFTER: Duration = Duration::from_millis(2500);

/// A list that can be answered is answered within this time.
const MAX_WAIT: Duration = Duration::from_secs(9);

/// The guard saves a change within this time.
const SAVED_WITHIN: Duration = Duration::from_millis(600);

/// A row that was confirmed within this time before the request of a list may be in it.
const MAX_AGE: Duration = Duration::from_secs(1);

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

    /// Checks that each list is answered in time while one container is stuck and another one exists.
    fn check_wait(&self, call: &Call) {
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

    fn call_runtime(
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

    fn take_up(&mut self, runtime_call: RuntimeCallId) {
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

    fn answer(&mut self, runtime_call: RuntimeCallId) {
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

    fn end(&mut self, answered: BTreeMap<RuntimeCallId, Outcome>) {
        for (runtime_call, outcome) in &answered {
            let actions = self
                .guard
                .step(Input::Answered(*runtime_call, outcome.clone()), self.now);
            self.perform(actions, &answered);
        }
        self.set_alarm();
    }

    fn host(&mut self) {
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

    fn call(&mut self) {
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

    fn make_call(&mut self, rpc: Rpc, request: Bytes, is_ours: bool, timeout: f64) {
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
    fn ended(&mut self, call: CallId, outcome: Option<&Outcome>) {
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
    fn act(&mut self, wanted: Vec<Wanted>) {
        for (rpc, request, want) in wanted {
            let delay = self.rng.f64() * 0.005;
            self.at(delay, Event::Acts(rpc, request, want));
        }
    }

    fn make_pod(&mut self, is_foreign: bool) {
        let number = self.rng.u32(..);
        let mut uid = format!("uid-{number}");
        // Another client may create a second sandbox of a pod, but not of a pod of an acting kubelet.
        let known: Vec<String> = self.runtime.alive().map(|(_, of)| of.uid.clone()).collect();
        if self.acting.is_none()
            && self.rng.bool()
            && let Some(of) = self.rng.choice(&known)
        {
            uid.clone_from(of);
        }
        let thing = |kind, name: &str, sandbox: String, state| Thing {
            kind,
            sandbox,
            uid: uid.clone(),
            name: name.to_owned(),
            attempt: 0,
            states: vec![(self.now, state)],
            removed: None,
            is_foreign,
        };
        let sandbox = thing(Kind::Sandbox, "pod", String::new(), 0);
        let containers = self.rng.u32(0..3);
        let sandbox = self.runtime.make(sandbox);
        for _ in 0..containers {
            let state = self.rng.i32(0..3);
            let mut of = Thing {
                kind: Kind::Container,
                sandbox: sandbox.clone(),
                uid: uid.clone(),
                name: "app".to_owned(),
                attempt: 0,
                states: vec![(self.now, state)],
                removed: None,
                is_foreign,
            };
            of.name = format!("app{}", self.rng.u8(0..3));
            self.runtime.make(of);
        }
    }

    /// Lets a fault begin or end, a container exit, or another client change something.
    fn change(&mut self) {
        let pause = self.rng.f64() * 3.0;
        self.at(pause, Event::Changes);
        if let Some(acting) = &mut self.acting {
            match self.rng.u8(0..4) {
                0 => acting.wants_pod(),
                1 => acting.deletes_pod(self.rng.usize(0..3)),
                _ => {}
            }
        }
        let ids: Vec<String> = self.runtime.alive().map(|(id, _)| id.clone()).collect();
        let one = self.rng.choice(&ids).cloned();
        if self.is_ordinary {
            return self.change_what_is_usual(one);
        }
        if self.rng.bool()
            && let Some(id) = &one
        {
            self.faults.begin(id, self.rng.bool());
        }
        match self.rng.u8(0..22) {
            21 => {
                let kind = match self.rng.bool() {
                    true => Kind::Container,
                    false => Kind::Sandbox,
                };
                self.note(|| format!("every status of {kind:?} hangs"));
                self.runtime.kinds_hang.insert(kind);
                self.runtime.lists_hang.insert(kind);
            }
            20 => {
                self.note(|| "creations fail".to_owned());
                self.runtime.refuses_creations = true;
            }
            0..5 => {
                let kind = match self.rng.u8(0..4) {
                    0 => Kind::Sandbox,
                    _ => Kind::Container,
                };
                self.note(|| format!("the lists of {kind:?} hang"));
                self.runtime.lists_hang.insert(kind);
            }
            5..8 => {
                self.note(|| format!("{one:?} hangs"));
                self.runtime.statuses_hang.extend(one);
            }
            8..10 => {
                self.note(|| "changes are not answered".to_owned());
                self.runtime.answers_hang = true;
            }
            10 => {
                self.note(|| "the runtime is stopped".to_owned());
                self.runtime.is_stopped = true;
            }
            11..14 => {
                self.note(|| "all faults end".to_owned());
                self.went_on = self.now;
                self.runtime.recover();
                let runtime_calls: Vec<RuntimeCallId> = self.outstanding.keys().copied().collect();
                for runtime_call in runtime_calls {
                    let delay = self.rng.f64() * 0.02;
                    match self.outstanding[&runtime_call].answer {
                        Some(_) => self.at(delay, Event::Answers(runtime_call)),
                        None => self.at(delay, Event::TakesUp(runtime_call)),
                    }
                }
            }
            14 => {
                self.note(|| "the runtime is restarted".to_owned());
                self.went_on = self.now;
                self.runtime.recover();
                let lost = std::mem::take(&mut self.outstanding).into_keys();
                self.end(
                    lost.map(|runtime_call| (runtime_call, Outcome::Lost))
                        .collect(),
                );
            }
            15..18 => {
                let now = self.now;
                if let Some(thing) = one.as_ref().and_then(|id| self.runtime.alive_mut(id))
                    && thing.kind == Kind::Container
                    && thing.state() == RUNNING
                    && !self.runtime.is_stopped
                {
                    self.note(|| format!("{} exits", short(&one.clone().unwrap())));
                    let thing = self.runtime.alive_mut(&one.unwrap()).unwrap();
                    thing.states.push((now, EXITED));
                }
            }
            19 => self.restart_guard(),
            18 if !self.runtime.is_stopped => {
                self.note(|| "another client creates a pod".to_owned());
                self.make_pod(true);
            }
            _ => {}
        }
    }

    /// Makes a random change of an ordinary world: one container gets stuck or exits, another client
    /// creates a pod, creations begin or cease to fail, or the guard is restarted.
    fn change_what_is_usual(&mut self, one: Option<String>) {
        // A restarted guard does not know that a container is running if that was not saved.
        let saved = self.now.checked_sub(SAVED_WITHIN).unwrap_or(self.now);
        let runs = |id: &String| {
            let thing = &self.runtime.things[id];
            let is_running = thing.kind == Kind::Container && thing.state() == RUNNING;
            let there = self
                .kubelet
                .reported
                .get(id)
                .and_then(|reported| reported.there);
            let is_saved = thing.states.iter().all(|(since, _)| *since < saved);
            is_running && is_saved && there.is_some_and(|there| there < saved)
        };
        let running = one.filter(runs);
        match (self.rng.u8(0..6), running) {
            (0 | 1, Some(id)) if self.runtime.statuses_hang.is_empty() => {
                self.note(|| format!("{} is stuck", short(&id)));
                self.runtime.statuses_hang.insert(id);
                self.runtime.lists_hang.insert(Kind::Container);
                self.runtime.answers_hang = true;
            }
            (2, Some(id)) if !self.runtime.statuses_hang.contains(&id) => {
                let now = self.now;
                self.note(|| format!("{} exits", short(&id)));
                if let Some(thing) = self.runtime.alive_mut(&id) {
                    thing.states.push((now, EXITED));
                }
            }
            (3, _) => {
                self.note(|| "another client creates a pod".to_owned());
                self.make_pod(true);
            }
            (4, _) => self.runtime.refuses_creations ^= true,
            (5, _) => self.restart_guard(),
            _ => {}
        }
    }

    /// Kills the guard, and restarts it.
    fn restart_guard(&mut self) {
        self.note(|| "the guard is restarted".to_owned());
        self.calls.clear();
        if let Some(acting) = &mut self.acting {
            acting.lost_all(self.now);
        }
        self.outstanding.clear();
        self.faults.forget();
        self.alarm = None;
        self.restarted = self.now;
        let unix_nanos = self.runtime.unix_nanos(self.now);
        self.guard = Guard::new(settings(), self.mode, self.now, unix_nanos);
        let is_kept = self.rng.u8(0..4) > 0 || self.is_ordinary;
        if let Some(saved) = self.saved.clone().filter(|_| is_kept) {
            assert!(self.guard.restore(saved, self.now));
        }
    }

    /// Records an answer that the kubelet received, from the runtime or from the guard.
    fn reported(&mut self, call: &Call, outcome: &Outcome) {
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
    fn check(&mut self, call: &Call, message: &Bytes) {
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

fn reply_of(reply: &Reply) -> String {
    match reply {
        Reply::Message(message) => format!("{} bytes", message.len()),
        Reply::Failed(failure) => format!("{failure:?}"),
    }
}

fn short(id: &str) -> &str {
    &id[id.len().saturating_sub(4)..]
}
