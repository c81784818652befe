//! A random world: a kubelet, the guard, a runtime, and time.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::{Rpc, v1};
use fastrand::Rng;
use guard::Kind;
use guard::core::{
    Action, AskId, CallId, Caller, Guard, HostIds, Input, Mode, Outcome, Reply, Settings,
};
use prost::Message;
use tokio::time::Instant;

use super::faults::Faults;
use super::kubelet::{Call, Kubelet};
use super::pods::{Acting, Want, Wanted};
use super::runtime::{Asked, EXITED, RUNNING, Runtime, Thing, id_of};

/// A container that somebody else has made is met by the host's folders after this.
const MET: Duration = Duration::from_millis(2500);

/// A list that waits for so long, and no caller's deadline is near, is one that cannot be answered.
const PATIENCE: Duration = Duration::from_secs(9);

/// The guard saves what has changed no later.
const SAVED: Duration = Duration::from_millis(600);

/// What was confirmed so long before a list was asked for may be in it.
const FRESH: Duration = Duration::from_secs(1);

/// How often something was told in the runtime's place.
#[derive(Default)]
pub struct Counts {
    pub lists: u64,
    pub completed: u64,
    /// How many lists were compared in shadow mode.
    pub compared: u64,
    /// How many answers of the runtime lacked something.
    pub lacked: u64,
    /// How many containers a kubelet that acts has started, and of how many pods it has released
    /// the volumes.
    pub started: u64,
    pub released: u64,
}

enum Event {
    /// The kubelet calls something.
    Calls,
    /// The kubelet that acts relists.
    Relists,
    /// Something in the world changes.
    Changes,
    /// The runtime takes up a call, or answers one.
    TakesUp(AskId),
    Answers(AskId),
    /// The kubelet that acts calls this.
    Acts(Rpc, Bytes, Want),
    HostTells,
    Saves,
    /// The kubelet waits no longer.
    Leaves(CallId),
    Alarm,
}

struct Outstanding {
    asked: Asked,
    since: Instant,
    is_ours: bool,
    /// What the answer will be, once it was taken up.
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
    outstanding: BTreeMap<AskId, Outstanding>,
    host_tells: bool,
    alarm: Option<Instant>,
    /// What the guard has saved for its next start.
    saved: Option<Vec<u8>>,
    faults: Faults,
    /// When the guard was last killed.
    restarted: Instant,
    /// When what hung was last let go.
    went_on: Instant,
    mode: Mode,
    /// A kubelet that acts, in place of one that calls at random.
    acting: Option<Acting>,
    /// The host tells, and one running container is all that is ever stuck: no list is refused.
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
        let host_tells = rng.u8(0..4) > 0 || seed % 16 == 9;
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
            host_tells,
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
                Event::TakesUp(ask) => self.take_up(ask),
                Event::Answers(ask) => self.answer(ask),
                Event::HostTells => self.host(),
                Event::Saves => {
                    self.saved = self.guard.to_save(self.now).or(self.saved.take());
                    self.at(0.5, Event::Saves);
                }
                Event::Leaves(call) => {
                    if let Some(of) = self.calls.remove(&call) {
                        self.note(|| format!("{call:?} is given up"));
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
        assert_eq!(differences.kept, [], "it would have been told");
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

    fn perform(&mut self, actions: Vec<Action>, answered: &BTreeMap<AskId, Outcome>) {
        for action in actions {
            match action {
                Action::Pass(ask, call) => {
                    let of = &self.calls[&call];
                    let (rpc, request) = (of.rpc, of.request.clone());
                    self.ask(ask, rpc, request, false);
                }
                Action::Ask(ask, rpc, request) => self.ask(ask, rpc, request, true),
                Action::Relay(ask, call) => {
                    let id = call;
                    let call = self.calls.remove(&call).expect("it has one end");
                    let outcome = answered.get(&ask).expect("it has just been answered");
                    if !call.is_ours {
                        self.told(&call, outcome);
                    }
                    self.ended(id, Some(outcome));
                }
                Action::Reply(call, reply) => {
                    assert_eq!(self.mode, Mode::Guard, "nothing is answered");
                    let id = call;
                    let call = self.calls.remove(&call).expect("it has one end");
                    assert!(!call.is_ours, "we see the runtime as it is");
                    self.note(|| format!("  replied to {} {:?}", call.rpc, reply_of(&reply)));
                    match reply {
                        Reply::Message(message) => {
                            match call.rpc {
                                Rpc::RunPodSandbox | Rpc::CreateContainer => {
                                    self.faults.shows(&id_of(&message), call.asked);
                                }
                                Rpc::StartContainer => {
                                    self.faults.shows(&id_of(&call.request), call.asked);
                                }
                                _ => {}
                            }
                            self.check(&call, &message);
                            let outcome = Outcome::Messages(vec![message]);
                            self.told(&call, &outcome);
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
                Action::Cancel(ask) => {
                    // One that is lost in this very moment has ended too.
                    let was = self.outstanding.remove(&ask);
                    assert!(was.is_some() || answered.contains_key(&ask), "it has ended");
                }
                Action::AskHost => {
                    let delay = self.rng.f64() * 0.05;
                    self.at(delay, Event::HostTells);
                }
            }
        }
    }

    /// Where one container is stuck and another is there, each list is answered.
    fn check_wait(&self, call: &Call) {
        let waited = self.now - call.asked;
        let is_in_question = self.is_ordinary && !call.is_ours && call.rpc == Rpc::ListContainers;
        let hang = &self.runtime.statuses_hang;
        let mut others = self.runtime.alive().filter(|(id, thing)| {
            let is_old = thing.created() < call.asked;
            is_old && thing.kind == Kind::Container && !hang.contains(*id)
        });
        assert!(
            !is_in_question || waited < PATIENCE || others.next().is_none(),
            "a list is not answered for {waited:?}"
        );
    }

    fn ask(&mut self, ask: AskId, rpc: Rpc, request: Bytes, is_ours: bool) {
        let asked = Asked { rpc, request };
        if is_ours {
            let same = |other: &&Outstanding| {
                other.is_ours
                    && other.asked.rpc == rpc
                    && id_of(&other.asked.request) == id_of(&asked.request)
            };
            let twice = self.outstanding.values().find(same);
            assert!(twice.is_none(), "{rpc} is asked twice at once");
        }
        let answer = None;
        let outstanding = Outstanding {
            asked,
            since: self.now,
            is_ours,
            answer,
        };
        self.outstanding.insert(ask, outstanding);
        let (least, most) = self.takes;
        let delay = least + self.rng.f64() * (most - least);
        self.at(delay, Event::TakesUp(ask));
    }

    fn take_up(&mut self, ask: AskId) {
        let Some(outstanding) = self.outstanding.get_mut(&ask) else {
            return;
        };
        if self.runtime.holds(&outstanding.asked) || outstanding.answer.is_some() {
            return;
        }
        let (asked, since) = (outstanding.asked.clone(), outstanding.since);
        // A kubelet that acts is right to start what the runtime itself says is not there: it is
        // told no such answer, and what it asks for may be shared with the guard.
        let is_untold = outstanding.is_ours && asked.request.is_empty();
        let may_lack = self.mode == Mode::Guard && (self.acting.is_none() || is_untold);
        let hidden = match may_lack {
            true => self.faults.hides(&asked, &self.runtime),
            false => None,
        };
        self.runtime.hidden = hidden.filter(|id| self.may_be_lacking(id));
        let answer = self.runtime.perform(&asked, self.now);
        if let Some(id) = self.runtime.hidden.take() {
            self.note(|| format!("{} lacks {}", asked.rpc, short(&id)));
            self.faults.lacked(id, since);
        }
        if let Some(outstanding) = self.outstanding.get_mut(&ask) {
            outstanding.answer = Some(answer);
        }
        let doubled = self.runtime.doubled.take();
        assert!(
            doubled.is_none() || self.acting.is_none(),
            "a second copy of {doubled:?} is started"
        );
        let delay = self.rng.f64() * 0.02;
        self.at(delay, Event::Answers(ask));
    }

    /// One answer is enough if the guard knows nothing of the id: what no list has shown since its
    /// start is not hidden, nor what is being removed.
    fn may_be_lacking(&self, id: &str) -> bool {
        let thing = &self.runtime.things[id];
        let removes = |it: &&Outstanding| {
            let of = id_of(&it.asked.request);
            matches!(it.asked.rpc, Rpc::RemoveContainer | Rpc::RemovePodSandbox)
                && (of == *id || of == thing.sandbox)
        };
        let is_proof = self.acting.is_some() && self.faults.have_lacked(id);
        let is_removed = self.outstanding.values().any(|it| removes(&it));
        !is_removed && !is_proof && self.faults.have_listed(id)
    }

    fn answer(&mut self, ask: AskId) {
        let Some(outstanding) = self.outstanding.get(&ask) else {
            return;
        };
        if self.runtime.holds_answer(&outstanding.asked) {
            return;
        }
        let Some(Outstanding {
            answer: Some(outcome),
            asked,
            since,
            ..
        }) = self.outstanding.remove(&ask)
        else {
            return;
        };
        self.faults.answered(&asked, &outcome, since);
        self.end(BTreeMap::from([(ask, outcome)]));
    }

    fn end(&mut self, answered: BTreeMap<AskId, Outcome>) {
        for (ask, outcome) in &answered {
            let actions = self
                .guard
                .step(Input::Answered(*ask, outcome.clone()), self.now);
            self.perform(actions, &answered);
        }
        self.set_alarm();
    }

    fn host(&mut self) {
        let told = match self.host_tells {
            true if !self.is_ordinary && self.rng.u8(0..8) == 0 => HostIds::Unread,
            true => {
                let alive = self.runtime.alive().map(|(id, _)| id.clone());
                let all = alive.chain([self.runtime.next_id()]);
                HostIds::All(all.map(|id| id.as_str().into()).collect())
            }
            false => HostIds::CannotTell,
        };
        self.step(Input::HostIds(told));
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
        let patience = match self.rng.u8(0..10) {
            0 => self.rng.f64() * 5.0,
            _ => 20.0,
        };
        self.make_call(rpc, request, is_ours, patience);
    }

    fn make_call(&mut self, rpc: Rpc, request: Bytes, is_ours: bool, patience: f64) {
        self.last_call += 1;
        let call = CallId(self.last_call);
        self.note(|| format!("{call:?} {rpc} {}", short(&id_of(&request))));
        let asked = self.now;
        let of = Call {
            rpc,
            request: request.clone(),
            asked,
            is_ours,
        };
        self.calls.insert(call, of);
        self.at(patience, Event::Leaves(call));
        self.step(Input::Called {
            call,
            rpc,
            request,
            from: match is_ours {
                true => Caller::Observer,
                false => Caller::Client,
            },
            deadline: Some(asked + Duration::from_secs_f64(patience)),
        });
    }

    /// A call of the kubelet that acts has ended.
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

    /// Makes the calls of the kubelet that acts, each in a moment.
    fn act(&mut self, wanted: Vec<Wanted>) {
        for (rpc, request, want) in wanted {
            let delay = self.rng.f64() * 0.005;
            self.at(delay, Event::Acts(rpc, request, want));
        }
    }

    fn make_pod(&mut self, is_foreign: bool) {
        let number = self.rng.u32(..);
        let mut uid = format!("uid-{number}");
        // Or somebody makes another sandbox of a pod, to which an acting kubelet's belongs none.
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

    /// A fault begins or ends, somebody dies, or somebody else does something.
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
                self.note(|| "nothing can be made".to_owned());
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
                self.note(|| "all is stopped".to_owned());
                self.runtime.is_stopped = true;
            }
            11..14 => {
                self.note(|| "all goes on".to_owned());
                self.went_on = self.now;
                self.runtime.recover();
                let asks: Vec<AskId> = self.outstanding.keys().copied().collect();
                for ask in asks {
                    let delay = self.rng.f64() * 0.02;
                    match self.outstanding[&ask].answer {
                        Some(_) => self.at(delay, Event::Answers(ask)),
                        None => self.at(delay, Event::TakesUp(ask)),
                    }
                }
            }
            14 => {
                self.note(|| "the runtime is started again".to_owned());
                self.went_on = self.now;
                self.runtime.recover();
                let lost = std::mem::take(&mut self.outstanding).into_keys();
                self.end(lost.map(|ask| (ask, Outcome::Lost)).collect());
            }
            15..18 => {
                let now = self.now;
                if let Some(thing) = one.as_ref().and_then(|id| self.runtime.alive_mut(id))
                    && thing.kind == Kind::Container
                    && thing.state() == RUNNING
                    && !self.runtime.is_stopped
                {
                    self.note(|| format!("{} dies", short(&one.clone().unwrap())));
                    let thing = self.runtime.alive_mut(&one.unwrap()).unwrap();
                    thing.states.push((now, EXITED));
                }
            }
            19 => self.restart_guard(),
            18 if !self.runtime.is_stopped => {
                self.note(|| "somebody else makes a pod".to_owned());
                self.make_pod(true);
            }
            _ => {}
        }
    }

    /// One container is stuck; others die and are made, creations fail, the guard is restarted.
    fn change_what_is_usual(&mut self, one: Option<String>) {
        // What the guard has not saved as running may be thought to be created only, or is not known.
        let saved = self.now.checked_sub(SAVED).unwrap_or(self.now);
        let runs = |id: &String| {
            let thing = &self.runtime.things[id];
            let is_running = thing.kind == Kind::Container && thing.state() == RUNNING;
            let there = self.kubelet.told.get(id).and_then(|told| told.there);
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
                self.note(|| format!("{} dies", short(&id)));
                if let Some(thing) = self.runtime.alive_mut(&id) {
                    thing.states.push((now, EXITED));
                }
            }
            (3, _) => {
                self.note(|| "somebody else makes a pod".to_owned());
                self.make_pod(true);
            }
            (4, _) => self.runtime.refuses_creations ^= true,
            (5, _) => self.restart_guard(),
            _ => {}
        }
    }

    /// The guard is killed, and started again.
    fn restart_guard(&mut self) {
        self.note(|| "the guard is started again".to_owned());
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

    /// The kubelet was told this, by whomever.
    fn told(&mut self, call: &Call, outcome: &Outcome) {
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
        let told = self.kubelet.of(id);
        told.there.get_or_insert(now);
        if told.state.is_none_or(|(known, _)| state > known) {
            told.state = Some((state, now));
        }
    }

    /// What was told in the runtime's place is true.
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
                assert!(thing.created() >= call.asked, "it is what was made");
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
            rpc => panic!("{rpc} is answered in the runtime's place"),
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
        let since = call.asked.checked_sub(FRESH).unwrap_or(call.asked);
        let mut of_kind = self.runtime.things.iter().filter(|(_, it)| it.kind == kind);
        assert!(
            of_kind.any(|(id, _)| self.faults.have_shown(id, since)),
            "nothing in it was confirmed"
        );
        for (id, thing) in self.runtime.things.iter().filter(|(_, it)| it.kind == kind) {
            let told = self.kubelet.told.get(id).cloned().unwrap_or_default();
            // What has hung until now is answered in a moment.
            let hangs = self.runtime.statuses_hang.contains(id)
                || self.runtime.kinds_hang.contains(&kind)
                || now < self.went_on + Duration::from_millis(100);
            let Some(shown) = rows.get(id) else {
                let is_known = match thing.is_foreign {
                    true => self.host_tells && thing.created() + MET < call.asked,
                    false => told.there.is_some_and(|there| there < call.asked),
                };
                let was_so = |time| {
                    let was = thing.state_at(time);
                    was.is_some() && state.is_none_or(|state| was == Some(state))
                };
                let since = call.asked.checked_sub(FRESH).unwrap_or(call.asked);
                let changed = thing.states.iter().any(|(at, _)| *at > since && *at <= now);
                let is_wanted = was_so(now) && was_so(since.max(thing.created())) && !changed;
                let is_old = hangs && state.is_some() || self.faults.are_proof(id);
                assert!(
                    !(is_known && is_wanted && matches(id, thing)) || is_old,
                    "{id} is missing: {thing:?} {told:?}"
                );
                continue;
            };
            assert!(matches(id, thing), "{id} was not asked for");
            assert!(
                state.is_none_or(|state| state == *shown),
                "{id} has that state"
            );
            let removed = told.removed.filter(|removed| *removed < call.asked);
            // It is skipped: its status does not exist.
            let is_forgotten = removed
                .is_some_and(|removed| hangs && removed < self.restarted && self.restarted < now);
            assert!(
                removed.is_none() || is_forgotten,
                "{id} was told to be removed"
            );
            if let Some((known, when)) = told.state {
                // What the guard had not saved when it was killed, it does not know of an id that
                // hangs: that one is shown to run for longer, which is harmless.
                let runs = *shown == RUNNING || kind == Kind::Sandbox;
                let is_forgotten = hangs && runs && when < self.restarted && self.restarted < now;
                assert!(
                    *shown >= known || when >= call.asked || is_forgotten,
                    "{id} is older than was told"
                );
            }
            if let Some(started) = told.started {
                assert!(
                    *shown >= RUNNING || started >= call.asked,
                    "{id} was started"
                );
            }
            assert!(*shown <= thing.state(), "{id} is {shown} before it is so");
            let since = call.asked.checked_sub(FRESH).unwrap_or(call.asked);
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
