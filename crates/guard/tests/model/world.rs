//! One world: a guard, a runtime, the calls between them, and time.

use std::collections::BTreeMap;
use std::mem::discriminant;
use std::time::Duration;

use cri::Rpc;
use guard::Kind;
use guard::core::{
    Action, CallId, Caller, Guard, HostIds, Input, Mode, Outcome, Phase, Reply, RuntimeCallId,
    Settings,
};
use tokio::time::Instant;

use super::records::{Records, state_name};
use super::runtime::{CREATED, EXITED, Fault, Item, Life, READY, Runtime, is_change, item_of};
use super::runtime::{list_of, request, shown, status_of};
use super::steps::{Answer, LONG, Start, Step};

/// How long an answer takes if it does not hang, and how late an alarm may be.
const TICK: Duration = Duration::from_millis(1);
const ALARM_DELAY: Duration = Duration::from_millis(100);

/// The guard saves its records this long after a change.
const SAVED_AFTER: Duration = Duration::from_millis(600);

/// All calls have ended this long after the last fault.
const CALM: Duration = Duration::from_secs(4);

/// A call that a caller has made.
#[derive(Clone, Debug)]
struct Call {
    rpc: Rpc,
    item: Option<Item>,
    requested: Instant,
}

/// A call that the runtime has not answered.
#[derive(Clone, Debug)]
pub struct Sent {
    runtime_call: RuntimeCallId,
    pub rpc: Rpc,
    pub item: Option<Item>,
    sent: Instant,
    /// The caller's call, if it was passed on; `None` if the guard itself made the call.
    call: Option<CallId>,
    /// The answer as of the request; for a change, as of its completion.
    early: Option<Outcome>,
}

#[derive(Clone)]
pub struct World {
    guard: Guard,
    pub runtime: Runtime,
    now: Instant,
    calls: BTreeMap<CallId, Call>,
    last_call: u64,
    /// The calls that hang, and the calls that are answered next.
    pub held: Vec<Sent>,
    ready: Vec<Sent>,
    /// Whether the host reports the runtime's ids, and whether a request for them is outstanding.
    host_reports: bool,
    is_host_requested: bool,
    records: Records,
    saved: Vec<u8>,
    saved_at: Instant,
    /// When the last fault ended.
    calm_since: Instant,
    /// How many answered lists were checked.
    pub checked: u64,
    wrong: Option<String>,
    /// Whether to print what happens.
    pub speaks: bool,
    start: Instant,
    /// The initial states of the containers.
    began: Vec<(Life, usize)>,
}

impl World {
    pub fn new(start: &Start, now: Instant) -> Self {
        let of = |(number, states): (usize, &&[Option<i32>])| {
            let lives = states
                .iter()
                .map(|state| state.map_or(Life::NotMade, Life::In));
            lives.map(move |life| (life, number)).collect::<Vec<_>>()
        };
        let runtime = Runtime {
            sandboxes: vec![Life::In(READY); start.pods.len()],
            containers: start.pods.iter().enumerate().flat_map(of).collect(),
            faults: Default::default(),
        };
        let began = runtime.containers.clone();
        let mut world = Self {
            guard: Guard::new(Settings::default(), Mode::Guard, now, 0),
            runtime,
            now,
            calls: BTreeMap::new(),
            last_call: 0,
            held: Vec::new(),
            ready: Vec::new(),
            host_reports: start.host_reports,
            is_host_requested: false,
            records: Records::default(),
            saved: Vec::new(),
            saved_at: now,
            calm_since: now,
            checked: 0,
            wrong: None,
            speaks: false,
            start: now,
            began,
        };
        world.step(Input::Time, None);
        world.settle();
        world
    }

    /// Takes a step. The error says which property does not hold.
    pub fn take(&mut self, step: Step) -> Result<(), String> {
        self.note(|| format!("{step:?}"));
        self.now += TICK;
        match step {
            Step::Dies(item) => self.runtime.set(item, Life::In(EXITED)),
            Step::Begins(fault) => {
                self.runtime.faults.insert(fault);
            }
            Step::Ends(fault) => self.end(fault),
            Step::List(kind) => self.call(list_of(kind), None),
            Step::Status(item) => self.call(status_of(item.0), Some(item)),
            Step::Change(rpc, item) => self.call(rpc, Some(item)),
            Step::Answer(place, answer) => {
                let sent = self.held.remove(place);
                self.answer(sent, answer);
            }
            Step::Restart => self.restart(),
            Step::Wait(time) => self.wait(time),
        }
        self.settle();
        if let Step::Wait(_) = step
            && self.runtime.faults.is_empty()
            && self.now >= self.calm_since + CALM
            && let Some(call) = self.calls.values().next()
        {
            self.wrong = Some(format!("{} has not ended, and nothing hangs", call.rpc));
        }
        self.wrong.take().map_or(Ok(()), Err)
    }

    fn note(&self, text: impl FnOnce() -> String) {
        if self.speaks {
            let seconds = (self.now - self.start).as_secs_f64();
            eprintln!("{seconds:8.3} {}", text());
        }
    }

    /// Whether the guard does not pass lists on.
    pub fn is_guarding(&self) -> bool {
        self.guard.phase(self.now) != Phase::Passing
    }

    /// Whether two containers began alike, and two sandboxes with all their containers.
    pub fn is_alike(&self, one: usize, other: usize) -> bool {
        let [(first, of_first), (second, of_second)] =
            [one, other].map(|number| self.began[number]);
        first == second && (of_first == of_second || self.is_pod_alike(of_first, of_second))
    }

    pub fn is_pod_alike(&self, one: usize, other: usize) -> bool {
        let of = |number: usize| {
            let all = self.began.iter();
            all.filter(move |(_, of)| *of == number)
                .map(|(life, _)| life)
        };
        of(one).eq(of(other))
    }

    /// How many callers wait for the answer to this call.
    pub fn open(&self, rpc: Rpc, item: Option<Item>) -> usize {
        let calls = self.calls.values();
        let same = calls.filter(|call| (call.rpc, call.item) == (rpc, item));
        same.count()
    }

    /// The possible answers to a hanging call: two if the state has changed since a read was sent.
    pub fn answers(&self, sent: &Sent) -> Vec<Answer> {
        let Some(early) = &sent.early else {
            return vec![Answer::Late];
        };
        if is_change(sent.rpc) {
            return vec![Answer::Early];
        }
        let late = self.runtime.clone().perform(sent.rpc, sent.item);
        let is_same = match (early, &late) {
            (Outcome::Messages(early), Outcome::Messages(late)) => early == late,
            (early, late) => discriminant(early) == discriminant(late),
        };
        match is_same {
            true => vec![Answer::Early],
            false => vec![Answer::Early, Answer::Late],
        }
    }

    fn end(&mut self, fault: Fault) {
        self.runtime.faults.remove(&fault);
        if self.runtime.faults.is_empty() {
            self.calm_since = self.now;
        }
        let held = std::mem::take(&mut self.held);
        for sent in held {
            let is_done = is_change(sent.rpc) && sent.early.is_some();
            let hangs = match is_done {
                true => self.runtime.holds_answer(sent.rpc),
                false => self.runtime.holds(sent.rpc, sent.item),
            };
            match hangs || self.runtime.faults.contains(&Fault::All) {
                true => self.held.push(sent),
                false => self.answer(sent, if is_done { Answer::Early } else { Answer::Late }),
            }
        }
    }

    fn answer(&mut self, sent: Sent, answer: Answer) {
        let outcome = match (answer, sent.early.clone()) {
            (Answer::Early, Some(early)) => early,
            _ => self.runtime.perform(sent.rpc, sent.item),
        };
        let early = Some(outcome);
        self.ready.push(Sent { early, ..sent });
    }

    fn call(&mut self, rpc: Rpc, item: Option<Item>) {
        self.last_call += 1;
        let call = CallId(self.last_call);
        let requested = self.now;
        let of = Call {
            rpc,
            item,
            requested,
        };
        self.calls.insert(call, of);
        let sandbox = |item: Item| Item(Kind::Sandbox, self.runtime.containers[item.1].1);
        let input = Input::Called(guard::core::Call {
            id: call,
            rpc,
            request: request(rpc, item, sandbox),
            from: Caller::Client,
            deadline: None,
        });
        self.step(input, None);
    }

    /// Answers the calls that do not hang, until no more are sent.
    fn settle(&mut self) {
        while !self.ready.is_empty() || self.is_host_requested {
            self.now += TICK;
            if std::mem::take(&mut self.is_host_requested) {
                let host_ids = self.host_ids();
                self.step(Input::HostIds(host_ids), None);
                continue;
            }
            let sent = self.ready.remove(0);
            let (rpc, item, now) = (sent.rpc, sent.item, self.now);
            let outcome = sent.early.expect("its answer is ready");
            self.records.reported(rpc, item, &outcome, sent.sent, now);
            let input = Input::Answered(sent.runtime_call, outcome.clone());
            self.step(input, Some((sent.runtime_call, &outcome)));
            if sent.call.is_some_and(|call| self.calls.contains_key(&call)) {
                self.wrong = Some(format!("{rpc} was answered, and has not ended"));
            }
        }
    }

    fn host_ids(&self) -> HostIds {
        let kinds = [Kind::Sandbox, Kind::Container].into_iter();
        let items = kinds.flat_map(|kind| self.runtime.items(kind));
        let alive = items.filter(|item| matches!(self.runtime.life(*item), Life::In(_)));
        match self.host_reports {
            true => HostIds::All(alive.map(|item| item.id().as_str().into()).collect()),
            false => HostIds::Unavailable,
        }
    }

    fn wait(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            let alarm = self.guard.alarm(self.now);
            let next = alarm.map_or(end, |alarm| alarm.max(self.now + ALARM_DELAY));
            self.now = self.now.max(next.min(end));
            self.step(Input::Time, None);
            self.settle();
            let is_over = self.now >= end;
            if is_over || self.now >= self.saved_at + SAVED_AFTER {
                self.save();
            }
            if is_over {
                return;
            }
        }
    }

    fn save(&mut self) {
        self.saved_at = self.now;
        if let Some(saved) = self.guard.to_save(self.now) {
            self.saved = saved;
        }
        self.records.saved();
    }

    /// Kills the guard, and restarts it from its saved records.
    fn restart(&mut self) {
        self.calls.clear();
        self.held.clear();
        self.records.restarted();
        self.guard = Guard::new(Settings::default(), Mode::Guard, self.now, 0);
        assert!(self.guard.restore(self.saved.clone(), self.now));
        self.step(Input::Time, None);
    }

    fn step(&mut self, input: Input, answered: Option<(RuntimeCallId, &Outcome)>) {
        for action in self.guard.step(input, self.now) {
            match action {
                Action::Pass(runtime_call, call) => match self.calls.get(&call).cloned() {
                    Some(of) => self.send(runtime_call, of.rpc, of.item, Some(call)),
                    None => self.wrong = Some("a call is passed on that has ended".to_owned()),
                },
                Action::Call(runtime_call, rpc, request) => {
                    let item = item_of(&request);
                    let all = || self.held.iter().chain(&self.ready);
                    let is_same =
                        |sent: &Sent| sent.call.is_none() && (sent.rpc, sent.item) == (rpc, item);
                    if all().any(is_same) {
                        self.wrong = Some(format!("{rpc} of {item:?} is sent twice at once"));
                    }
                    self.send(runtime_call, rpc, item, None);
                }
                Action::Relay(runtime_call, call) => match answered {
                    Some((of, outcome)) if of == runtime_call => self.give(call, outcome, false),
                    _ => self.wrong = Some("an answer is relayed that did not arrive".to_owned()),
                },
                Action::Reply(call, Reply::Message(message)) => {
                    self.give(call, &Outcome::Messages(vec![message]), true);
                }
                Action::Reply(call, Reply::Failed(_)) => {
                    self.give(call, &Outcome::Failed, true);
                }
                Action::Cancel(runtime_call) => {
                    self.held.retain(|sent| sent.runtime_call != runtime_call);
                    self.ready.retain(|sent| sent.runtime_call != runtime_call);
                }
                Action::ListHostIds => self.is_host_requested = true,
            }
        }
    }

    fn send(
        &mut self,
        runtime_call: RuntimeCallId,
        rpc: Rpc,
        item: Option<Item>,
        call: Option<CallId>,
    ) {
        let hangs = self.runtime.holds(rpc, item);
        let is_done = !hangs || !is_change(rpc);
        let sent = Sent {
            runtime_call,
            rpc,
            item,
            sent: self.now,
            call,
            early: is_done.then(|| self.runtime.perform(rpc, item)),
        };
        match hangs || self.runtime.holds_answer(rpc) {
            true => self.held.push(sent),
            false => self.ready.push(sent),
        }
    }

    /// Ends a call with this answer, of the guard or of the runtime.
    fn give(&mut self, call: CallId, outcome: &Outcome, is_own: bool) {
        let Some(of) = self.calls.remove(&call) else {
            self.wrong = Some("a call has ended twice".to_owned());
            return;
        };
        if is_own && let Err(wrong) = self.check(&of, outcome) {
            self.wrong = Some(format!("{} is answered: {wrong}", of.rpc));
        }
        self.records.given(of.rpc, of.item, outcome, self.now);
    }

    fn check(&mut self, call: &Call, outcome: &Outcome) -> Result<(), String> {
        let mut kinds = [Kind::Sandbox, Kind::Container].into_iter();
        let list = kinds.find(|kind| list_of(*kind) == call.rpc);
        let message = match outcome {
            Outcome::Messages(messages) => &messages[0],
            _ if list.is_some() => return Err("it is refused".to_owned()),
            _ => return Ok(()),
        };
        if let Some(kind) = list {
            self.checked += 1;
            let rows: BTreeMap<Item, i32> = shown(call.rpc, message).into_iter().collect();
            self.note(|| {
                let named = |(item, state): (&Item, &i32)| {
                    format!("{} {}", item.id(), state_name(*item, *state))
                };
                let rows: Vec<String> = rows.iter().map(named).collect();
                format!("  the guard answers {}: {}", call.rpc, rows.join(", "))
            });
            let is_stuck = |item: Item| {
                let mut all = self.held.iter().chain(&self.ready);
                all.any(|sent| (sent.rpc, sent.item) == (status_of(kind), Some(item)))
            };
            let requested = call.requested;
            return self
                .records
                .check(kind, requested, &rows, &self.runtime, is_stuck);
        }
        let life = call.item.map(|item| self.runtime.life(item));
        match (call.rpc, life) {
            (Rpc::StartContainer, Some(Life::In(CREATED))) => Err("it is not started".to_owned()),
            (Rpc::RemoveContainer | Rpc::RemovePodSandbox, Some(Life::In(_))) => {
                Err("it is not removed".to_owned())
            }
            (Rpc::CreateContainer, Some(Life::NotMade)) => Err("it is not made".to_owned()),
            _ => Ok(()),
        }
    }

    /// Lets the lists of a kind hang, until the guard answers them.
    pub fn begin_guarding(&mut self, kind: Kind) -> Result<(), String> {
        self.take(Step::Begins(Fault::Lists(kind)))?;
        self.take(Step::List(kind))?;
        self.take(Step::Wait(LONG))
    }
}
