//! A node whose runtime answers every call at once, except the calls that hang or are slow. For tests of the
//! core alone, in steps of one millisecond.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use cri::Rpc;
use guard::core::{
    Action, Call, CallId, Caller, Guard, Input, Mode, Outcome, Phase, Reply, RuntimeCallId,
    Settings,
};
use tokio::time::Instant;

mod messages;
mod runtime;

pub use messages::{
    MADE, MADE_SANDBOX, container_id, create_container, list_running, nested, request_for,
    run_sandbox, sandbox_id, stats_of,
};
use runtime::id_of;

pub struct Node {
    guard: Guard,
    began: Instant,
    now: Instant,
    sandboxes: usize,
    containers: usize,
    /// Which calls hang, by method and id.
    pub hangs: fn(Rpc, &str) -> bool,
    /// Which answers lack a container that exists, by method and id.
    pub lacks: fn(Rpc, &str) -> bool,
    /// Which calls are answered with an error, by method and id.
    pub fails: fn(Rpc, &str) -> bool,
    /// The ids on the host that the runtime does not have; `None` if the host's ids cannot be read.
    pub leftovers: Option<Vec<String>>,
    /// If the runtime has [`MADE_SANDBOX`] too: whether that sandbox has an address.
    pub makes_sandbox: Option<bool>,
    /// How long the runtime takes for each call.
    pub takes: Box<dyn FnMut(Rpc) -> Duration>,
    /// The time until which each worker of the runtime is busy; empty for an unlimited number of workers.
    pub busy: Vec<Instant>,
    /// How often the alarm woke the guard.
    pub turns: usize,
    answers: Vec<(Instant, RuntimeCallId, Outcome)>,
    replies: Vec<(CallId, Outcome)>,
    /// The number of calls that the guard passed on.
    passed: usize,
    requests: BTreeMap<CallId, (Rpc, Bytes)>,
    /// Whether the runtime has the container [`MADE`] too.
    pub makes: bool,
    /// The container that lists of statistics lack.
    pub lacks_stats_of: Option<String>,
    /// The calls that hang.
    held: Vec<(RuntimeCallId, Rpc, Bytes)>,
    /// The calls of the guard itself.
    pub own_calls: Vec<(Rpc, String)>,
    last_call: u64,
}

/// The limit of guarding: short, because every millisecond is a step.
pub const LIMIT: Duration = Duration::from_secs(60);

/// How long a kubelet waits for an answer.
pub const KUBELET_TIMEOUT: Duration = Duration::from_secs(120);

/// Which calls hang while the status lock of one container is held.
pub fn locked(rpc: Rpc, id: &str) -> bool {
    match rpc {
        Rpc::ListContainers => true,
        rpc => rpc == Rpc::ContainerStatus && id == container_id(7),
    }
}

impl Node {
    /// A node whose lists the guard has received.
    pub fn new(sandboxes: usize, containers: usize) -> Self {
        let mut node = Self::starting(sandboxes, containers);
        node.step(Input::Time);
        node.pass(Duration::from_secs(3));
        node
    }

    /// A node whose lists the guard has received, with a guard without a limit.
    pub fn without_limit(sandboxes: usize, containers: usize) -> Self {
        let mut node = Self::starting(sandboxes, containers);
        node.guard = Self::guard(node.began, node.now, Duration::from_secs(1 << 30));
        node.step(Input::Time);
        node.pass(Duration::from_secs(3));
        node
    }

    /// A node whose guard has just started.
    pub fn starting(sandboxes: usize, containers: usize) -> Self {
        let now = Instant::now();
        Self {
            guard: Self::guard(now, now, LIMIT),
            began: now,
            now,
            sandboxes,
            containers,
            hangs: |_, _| false,
            lacks: |_, _| false,
            fails: |_, _| false,
            leftovers: None,
            makes_sandbox: None,
            takes: Box::new(|_| Duration::ZERO),
            busy: Vec::new(),
            turns: 0,
            answers: Vec::new(),
            replies: Vec::new(),
            passed: 0,
            requests: BTreeMap::new(),
            makes: false,
            lacks_stats_of: None,
            held: Vec::new(),
            own_calls: Vec::new(),
            last_call: 0,
        }
    }

    /// Restarts the guard with its saved state.
    pub fn restart(&mut self) {
        let saved = self.guard.to_save(self.now).expect("something has changed");
        self.guard = Self::guard(self.began, self.now, LIMIT);
        assert!(self.guard.restore(saved, self.now));
        self.held.clear();
        self.answers.clear();
    }

    /// Flips one bit in each byte of the saved state in turn. Returns how many of these states a new guard
    /// restores.
    pub fn restored_after_damage(&mut self) -> usize {
        let saved = self.guard.to_save(self.now).expect("something has changed");
        let damaged = (0..saved.len()).filter(|byte| {
            let mut damaged = saved.clone();
            damaged[*byte] ^= 1;
            Self::guard(self.began, self.now, LIMIT).restore(damaged, self.now)
        });
        damaged.count()
    }

    /// Whether there is a state to save. It counts as saved if `is_saved`.
    pub fn has_to_save(&mut self, is_saved: bool) -> bool {
        let to_save = self.guard.to_save(self.now);
        if !is_saved {
            self.guard.not_saved();
        }
        to_save.is_some()
    }

    fn guard(began: Instant, now: Instant, limit: Duration) -> Guard {
        let settings = Settings {
            limit,
            ..Settings::default()
        };
        let unix_nanos = i64::try_from((now - began).as_nanos()).expect("it is short");
        Guard::new(settings, Mode::Guard, now, 1 + unix_nanos)
    }

    /// How the guard handles lists.
    pub fn phase(&self) -> Phase {
        self.guard.phase(self.now)
    }

    /// Switches the mode of the guard.
    pub fn switch(&mut self, mode: Mode) {
        self.step(Input::Mode(mode));
    }

    /// Sends an event of the runtime's stream that names this id.
    pub fn send_event(&mut self, id: &str) {
        self.step(Input::Hint(id.into()));
    }

    /// How often the guard itself has requested the status of this container.
    pub fn calls_for(&self, id: &str) -> usize {
        let status = |(rpc, of): &&(Rpc, String)| *rpc == Rpc::ContainerStatus && of == id;
        self.own_calls.iter().filter(status).count()
    }

    /// The time on this node.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// Ends all faults: the calls that hang are answered.
    pub fn lift(&mut self) {
        self.hangs = |_, _| false;
        for (runtime_call, rpc, request) in std::mem::take(&mut self.held) {
            self.call_runtime(runtime_call, rpc, request);
        }
    }

    /// Answers the hanging calls of this method. Later calls hang as before.
    pub fn release(&mut self, rpc: Rpc) {
        let (released, held) = std::mem::take(&mut self.held)
            .into_iter()
            .partition(|(_, of, _)| *of == rpc);
        self.held = held;
        let released: Vec<_> = released;
        let hangs = std::mem::replace(&mut self.hangs, |_, _| false);
        for (runtime_call, rpc, request) in released {
            self.call_runtime(runtime_call, rpc, request);
        }
        self.hangs = hangs;
    }

    fn step(&mut self, input: Input) {
        let answered = match &input {
            Input::Answered(runtime_call, outcome) => Some((*runtime_call, outcome.clone())),
            _ => None,
        };
        for action in self.guard.step(input, self.now) {
            match action {
                Action::Call(runtime_call, rpc, request) => {
                    self.own_calls.push((rpc, id_of(&request)));
                    self.call_runtime(runtime_call, rpc, request);
                }
                Action::Pass(runtime_call, call) => {
                    self.passed += 1;
                    let (rpc, request) = self.requests[&call].clone();
                    self.call_runtime(runtime_call, rpc, request);
                }
                Action::Relay(runtime_call, call) => {
                    let (of, outcome) = answered.clone().unwrap();
                    assert_eq!(of, runtime_call);
                    self.replies.push((call, outcome));
                }
                Action::Reply(call, Reply::Message(message)) => {
                    let reply = Outcome::Messages(vec![message]);
                    self.replies.push((call, reply));
                }
                Action::Reply(call, Reply::Failed(_)) => self.replies.push((call, Outcome::Failed)),
                Action::ListHostIds => {
                    self.answers
                        .push((self.now, RuntimeCallId(0), Outcome::Undecodable))
                }
                Action::Cancel(runtime_call) => {
                    self.held.retain(|(held, ..)| *held != runtime_call);
                    self.answers
                        .retain(|(_, answered, _)| *answered != runtime_call);
                }
            }
        }
    }

    /// Advances the time.
    pub fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while self.now < end {
            let step = Duration::from_millis(1);
            self.now += step;
            let answered = self.answers.iter().map(|(due, ..)| *due).min();
            let alarm = self.guard.alarm(self.now - step);
            let next = answered.into_iter().chain(alarm).min().unwrap_or(end);
            self.now = self.now.max(next.min(end));
            let now = self.now;
            let answers = self.answers.extract_if(.., |(due, ..)| *due <= now);
            for (_, runtime_call, answer) in answers.collect::<Vec<_>>() {
                self.step(match runtime_call {
                    RuntimeCallId(0) => Input::HostIds(self.host_ids()),
                    runtime_call => Input::Answered(runtime_call, answer),
                });
            }
            if alarm.is_some_and(|alarm| alarm <= now) {
                self.turns += 1;
            }
            self.step(Input::Time);
        }
    }

    /// Ends the hanging calls of this method with this outcome.
    pub fn end(&mut self, rpc: Rpc, outcome: Outcome) {
        let held = std::mem::take(&mut self.held);
        let (ended, held) = held.into_iter().partition(|(_, of, _)| *of == rpc);
        self.held = held;
        let ended: Vec<_> = ended;
        assert!(!ended.is_empty());
        for (runtime_call, ..) in ended {
            self.step(Input::Answered(runtime_call, outcome.clone()));
        }
    }

    /// Ends the oldest hanging call of this method with this outcome.
    pub fn end_first_of(&mut self, rpc: Rpc, outcome: Outcome) {
        let place = self.held.iter().position(|(_, of, _)| *of == rpc);
        let (runtime_call, ..) = self.held.remove(place.expect("one hangs"));
        self.step(Input::Answered(runtime_call, outcome));
    }

    /// Answers the newest hanging call of this method.
    pub fn release_last_of(&mut self, rpc: Rpc) {
        let place = self.held.iter().rposition(|(_, of, _)| *of == rpc);
        let (runtime_call, rpc, request) = self.held.remove(place.expect("one hangs"));
        let hangs = std::mem::replace(&mut self.hangs, |_, _| false);
        self.call_runtime(runtime_call, rpc, request);
        self.hangs = hangs;
    }

    /// Ends the runtime's process: all hanging calls are lost.
    pub fn disconnect(&mut self) {
        for (runtime_call, ..) in std::mem::take(&mut self.held) {
            self.step(Input::Answered(runtime_call, Outcome::Lost));
        }
        self.step(Input::Disconnected);
    }

    /// Starts a call of a client without a deadline.
    pub fn start(&mut self, rpc: Rpc, request: impl Into<Bytes>) -> CallId {
        self.start_from(Caller::Client, rpc, request, None)
    }

    /// Starts a call of an observer.
    pub fn start_ours(&mut self, rpc: Rpc, request: impl Into<Bytes>) -> CallId {
        self.start_from(Caller::Observer, rpc, request, None)
    }

    /// Starts a call of a client with this timeout.
    pub fn start_for(&mut self, time: Duration, rpc: Rpc, request: impl Into<Bytes>) -> CallId {
        let deadline = Some(self.now + time);
        self.start_from(Caller::Client, rpc, request, deadline)
    }

    fn start_from(
        &mut self,
        from: Caller,
        rpc: Rpc,
        request: impl Into<Bytes>,
        deadline: Option<Instant>,
    ) -> CallId {
        self.last_call += 1;
        let (call, request) = (CallId(self.last_call), request.into());
        self.requests.insert(call, (rpc, request.clone()));
        self.step(Input::Called(Call {
            id: call,
            rpc,
            request,
            from,
            deadline,
        }));
        call
    }

    /// Cancels a call in the name of its caller.
    pub fn abandon(&mut self, call: CallId) {
        self.step(Input::Abandoned(call));
    }

    /// How a call ended, if it has: `Some` message, or `None` for an error.
    pub fn end_of(&mut self, call: CallId) -> Option<Option<Bytes>> {
        let place = self.replies.iter().position(|(of, _)| *of == call)?;
        Some(match self.replies.remove(place).1 {
            Outcome::Messages(mut messages) => messages.pop(),
            _ => None,
        })
    }

    /// Makes a call as a kubelet does, and waits until it ends. Returns the message, or `None` for an error,
    /// and the duration.
    pub fn call(&mut self, rpc: Rpc, request: impl Into<Bytes>) -> (Option<Bytes>, Duration) {
        let requested = self.now;
        let call = self.start_for(KUBELET_TIMEOUT, rpc, request);
        loop {
            if let Some(end) = self.end_of(call) {
                return (end, self.now - requested);
            }
            if self.now >= requested + KUBELET_TIMEOUT {
                self.abandon(call);
                return (None, self.now - requested);
            }
            // Longer steps for longer waits.
            let waited = self.now - requested;
            self.pass((waited / 100).max(Duration::from_millis(1)));
        }
    }

    /// Whether a call is answered within this time; otherwise its caller cancels it.
    pub fn answers_within(&mut self, time: Duration, rpc: Rpc) -> bool {
        let call = self.start(rpc, "");
        self.pass(time);
        let answer = self.end_of(call);
        if answer.is_none() {
            self.abandon(call);
        }
        matches!(answer, Some(Some(_)))
    }

    /// How long ago a kubelet requested both lists, if it has.
    pub fn last_requested_ago(&self) -> Option<Duration> {
        self.guard
            .last_requested()
            .map(|requested| self.now - requested)
    }

    /// How many calls were passed on.
    pub fn passed(&self) -> usize {
        self.passed
    }
}
