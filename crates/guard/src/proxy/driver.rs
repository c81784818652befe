//! Performs the actions of the core: passes calls on, sends calls, answers callers, cancels calls.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::pending;
use std::mem::discriminant;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use base::host::Blocking;
use base::host::IdSource;
use bytes::Bytes;
use cri::Rpc;
use http::{Request, Response};
use tokio::sync::{Notify, oneshot, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::added::{Added, Passage};
use super::answer::{Answer, whole};
use super::events::EventHub;
use super::tasks::spawn;
use super::upstream::{NoAnswer, Upstream, request_of};
use super::{Body, Proxy, Report, records_file};
use crate::core::{
    Action, CallId, Caller, Figures, Guard, HostIds, Input, Mode, Outcome, Phase, RuntimeCallId,
};

/// How often the state is saved, if it has changed.
const SAVE_EVERY: Duration = Duration::from_millis(500);

/// How long saving may take, and how long until a failed attempt is repeated.
const DISK_TIMEOUT: Duration = Duration::from_secs(10);

/// How long reading the host's ids may take.
const HOST_TIMEOUT: Duration = Duration::from_millis(500);

/// If a timer fires this late, the process was paused.
const PAUSED_AFTER: Duration = Duration::from_millis(300);

/// How long reading the answers that arrived during a pause may take.
const CATCH_UP_TIME: Duration = Duration::from_millis(100);

/// A call on which the core decides.
pub(super) struct Call {
    pub(super) rpc: Rpc,
    /// The request as received.
    pub(super) request: Request<Bytes>,
    /// The message in it.
    pub(super) message: Bytes,
    /// The timeout of the caller, if it has one.
    pub(super) timeout: Option<Duration>,
    pub(super) passage: Passage,
    pub(super) from: Caller,
}

/// The core, and the connections on which its actions are performed.
pub(super) struct Driver {
    state: RefCell<State>,
    theirs: Upstream,
    ours: Upstream,
    events: Rc<EventHub>,
    /// Counts the connections to the runtime that have ended. Each time, the guard closes the connections of
    /// observers, which would lose their own without the guard.
    lost: watch::Sender<u64>,
    ids: IdSource,
    /// One write at a time.
    disk: Blocking,
    phase_changed: Notify,
    turned: Notify,
    added: Added,
    reports: watch::Sender<Report>,
    started: (Instant, u64),
    runtime: PathBuf,
    socket: PathBuf,
    /// Whether it was logged that a client is refused.
    has_refused: Cell<bool>,
}

/// When a client last requested lists of both kinds, and last received them.
pub(super) struct Lists {
    pub(super) requested: Option<Instant>,
    pub(super) listed: Option<Instant>,
}

struct State {
    guard: Guard,
    last_call: u64,
    calls: BTreeMap<CallId, Waiting>,
    runtime_calls: BTreeMap<RuntimeCallId, AbortHandle>,
}

struct Waiting {
    /// The request, until it is passed on.
    request: Option<Request<Bytes>>,
    from: Caller,
    /// `None` if the call is not passed on at once: then its latency is not measured.
    passage: Option<Passage>,
    answer: oneshot::Sender<Answer>,
}

impl Driver {
    pub(super) fn new(proxy: &Proxy, mode: Mode, saved: Option<Vec<u8>>) -> Rc<Self> {
        let now = Instant::now();
        let started = u64::try_from(proxy.unix_nanos).unwrap_or_default();
        let report = Report {
            // No revision of an earlier guard, and not 0.
            revision: started.max(1),
            mode,
            phase: Phase::default(),
            stuck: Vec::new(),
            figures: Figures::default(),
        };
        let mut guard = Guard::new(proxy.settings.clone(), mode, now, proxy.unix_nanos);
        if let Some(saved) = saved.filter(|saved| !guard.restore(saved.clone(), now)) {
            let bytes = saved.len();
            tracing::warn!("cannot decode the state saved by an earlier guard ({bytes} bytes)");
        }
        Rc::new_cyclic(|driver: &std::rc::Weak<Self>| {
            let lost = watch::Sender::new(0);
            let (of, count) = (driver.clone(), lost.clone());
            let on_lost: Rc<dyn Fn()> = Rc::new(move || {
                count.send_modify(|count| *count += 1);
                if let Some(driver) = of.upgrade() {
                    driver.step(Input::Disconnected, None);
                }
            });
            let ours = Upstream::new(proxy.runtime.clone(), on_lost.clone());
            let of = driver.clone();
            let on_event = move |id| {
                if let Some(driver) = of.upgrade() {
                    driver.step(Input::Hint(id), None);
                }
            };
            Self {
                state: RefCell::new(State {
                    guard,
                    last_call: 0,
                    calls: BTreeMap::new(),
                    runtime_calls: BTreeMap::new(),
                }),
                theirs: Upstream::new(proxy.runtime.clone(), on_lost),
                events: Rc::new(EventHub::new(ours.clone(), on_event)),
                ours,
                lost,
                ids: proxy.ids.clone(),
                disk: Blocking::one_at_a_time(),
                phase_changed: Notify::new(),
                turned: Notify::new(),
                added: Added::default(),
                reports: watch::Sender::new(report),
                started: (now, started),
                runtime: proxy.runtime.clone(),
                socket: proxy.socket.clone(),
                has_refused: Cell::new(false),
            }
        })
    }

    /// A connection for the calls of one client on which the core does not decide. Its end is no evidence
    /// about the runtime.
    pub(super) fn upstream_for_one(&self) -> Upstream {
        self.theirs.another(Rc::new(|| {}))
    }

    /// The connection for the calls on which the core decides.
    pub(super) fn upstream(&self, from: Caller) -> &Upstream {
        match from {
            Caller::Client => &self.theirs,
            Caller::Observer => &self.ours,
        }
    }

    /// The runtime's events.
    pub(super) fn events(&self) -> Rc<EventHub> {
        self.events.clone()
    }

    /// Whether every call is passed on unchanged.
    pub(super) fn passes_all(&self) -> bool {
        self.state.borrow().guard.mode() == Mode::Pass
    }

    /// Switches the mode.
    pub(super) fn switch(self: &Rc<Self>, mode: Mode) {
        if self.state.borrow().guard.mode() == mode {
            return;
        }
        self.step(Input::Mode(mode), None);
        match mode {
            // From now on each client has its own stream.
            Mode::Pass => self.events().end(),
            // Otherwise each stream would have only a part of the events.
            Mode::Guard | Mode::Shadow => self.events().take_back(),
        }
        let phase = self.state.borrow().guard.phase(Instant::now());
        self.report(phase);
        tracing::info!("the guard is switched: {mode:?}");
    }

    /// All calls of a client were refused. Logged once, because a kubelet retries for ever.
    pub(super) fn refused_a_client(&self) {
        if !self.has_refused.replace(true) {
            tracing::error!(
                "a client was refused: its calls are not valid HTTP/2. Kubelets before 1.31 cannot use the \
                 guard, because they send the path of the socket as the authority of each call"
            );
        }
    }

    /// The current report, and its changes.
    pub(super) fn reports(&self) -> watch::Receiver<Report> {
        self.reports.subscribe()
    }

    pub(super) fn list_times(&self) -> Lists {
        let state = self.state.borrow();
        Lists {
            requested: state.guard.last_requested(),
            listed: state.guard.listed(),
        }
    }

    /// When this guard started, on the monotonic clock and in nanoseconds since 1970.
    pub(super) fn started(&self) -> (Instant, u64) {
        self.started
    }

    pub(super) fn runtime(&self) -> &Path {
        &self.runtime
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// The response for a call that has no answer. An observer observes the runtime and not the
    /// guard: with a lost connection to the runtime it loses its own.
    pub(super) async fn no_answer(&self, why: &NoAnswer, from: Caller) -> Response<Body> {
        let (answer, outcome) = Answer::none(why);
        if from == Caller::Observer && matches!(outcome, Outcome::Lost) {
            self.lose().await
        }
        answer.into_response()
    }

    /// Ends the connections of observers.
    async fn lose(&self) -> ! {
        self.lost.send_modify(|count| *count += 1);
        pending().await
    }

    /// Changes each time a connection to the runtime ends.
    pub(super) fn losses(&self) -> watch::Receiver<u64> {
        self.lost.subscribe()
    }

    /// The histogram of the latency that the guard adds.
    pub(super) fn added(&self) -> &Added {
        &self.added
    }

    /// Saves the state in a file for the next start, each time it has changed.
    pub(super) async fn save_records(self: Rc<Self>, path: PathBuf) {
        let mut is_logged = false;
        loop {
            // Save at once when the phase changes, so that the next guard continues a fault that has just begun.
            let _ = timeout(SAVE_EVERY, self.phase_changed.notified()).await;
            let Err(why) = self.keep_now(&path).await else {
                is_logged = false;
                continue;
            };
            if !std::mem::replace(&mut is_logged, true) {
                let path = path.display();
                tracing::warn!("cannot save the guard's records in {path}: {why}");
            }
            self.state.borrow_mut().guard.not_saved();
            sleep(DISK_TIMEOUT).await;
        }
    }

    /// Saves the state before this process ends.
    pub(super) async fn keep_last(&self, path: PathBuf) {
        if let Err(why) = self.keep_now(&path).await {
            let path = path.display();
            tracing::warn!("cannot save the guard's records in {path}: {why}");
        }
    }

    /// Saves the state, if it has changed.
    async fn keep_now(&self, path: &Path) -> Result<(), String> {
        let saved = self.state.borrow_mut().guard.to_save(Instant::now());
        let Some(saved) = saved else { return Ok(()) };
        let to = path.to_owned();
        let write = move || records_file::write(&to, &saved);
        match self.disk.run(DISK_TIMEOUT, write).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("the disk does not respond".to_owned()),
        }
    }

    /// Calls the core at the times that it requests.
    pub(super) async fn tick(self: Rc<Self>) {
        // Request the first lists before a client does.
        self.step(Input::Time, None);
        loop {
            let alarm = self.state.borrow().guard.alarm(Instant::now());
            let time = async {
                match alarm {
                    Some(alarm) => sleep_until(alarm).await,
                    None => std::future::pending().await,
                }
                // This process was paused: read the answers that arrived during the pause before any call
                // counts as overdue.
                if alarm.is_some_and(|alarm| Instant::now() >= alarm + PAUSED_AFTER) {
                    sleep(CATCH_UP_TIME).await;
                }
            };
            tokio::select! {
                () = time => self.step(Input::Time, None),
                () = self.turned.notified() => {}
            }
        }
    }

    /// Lets the core decide on a call, and returns its response. Dropping the future cancels the call.
    pub(super) async fn call(self: Rc<Self>, call: Call) -> Response<Body> {
        let (sender, answer) = oneshot::channel();
        let id = {
            let mut state = self.state.borrow_mut();
            state.last_call += 1;
            let id = CallId(state.last_call);
            let waiting = Waiting {
                request: Some(call.request),
                from: call.from,
                passage: Some(call.passage),
                answer: sender,
            };
            state.calls.insert(id, waiting);
            id
        };
        let leaving = Leaving {
            driver: self.clone(),
            call: id,
        };
        let (now, from) = (Instant::now(), call.from);
        let called = Input::Called {
            call: id,
            rpc: call.rpc,
            request: call.message,
            from,
            deadline: call.timeout.and_then(|timeout| now.checked_add(timeout)),
        };
        self.step(called, None);
        if let Some(waiting) = self.state.borrow_mut().calls.get_mut(&id)
            && waiting.request.is_some()
        {
            waiting.passage = None;
        }
        let answer = answer.await;
        drop(leaving);
        match answer {
            Ok(answer) => answer.into_response(),
            Err(_) if from == Caller::Observer => self.lose().await,
            Err(_) => Answer::lost("the call was lost").into_response(),
        }
    }

    pub(super) fn step(self: &Rc<Self>, input: Input, answered: Option<(RuntimeCallId, &Answer)>) {
        let now = Instant::now();
        let actions = self.state.borrow_mut().guard.step(input, now);
        let acts = !actions.is_empty();
        for action in actions {
            self.perform(action, answered);
        }
        // A runtime becomes unresponsive by time alone.
        let phase = self.state.borrow().guard.phase(now);
        if acts || phase != self.reports.borrow().phase {
            self.report(phase);
        }
        self.turned.notify_one();
    }

    /// Updates the report, if it has changed.
    fn report(&self, phase: Phase) {
        let state = self.state.borrow();
        let figures = state.guard.figures();
        let stuck = match phase {
            Phase::Passing | Phase::Unresponsive { .. } => Vec::new(),
            Phase::Guarding { .. }
            | Phase::Waiting { .. }
            | Phase::Refusing { .. }
            | Phase::LimitReached => state.guard.stuck(&self.reports.borrow().stuck),
        };
        self.reports.send_if_modified(|shown| {
            if discriminant(&shown.phase) != discriminant(&phase) {
                log_phase(phase);
                self.phase_changed.notify_one();
            }
            let mode = state.guard.mode();
            let differs = (shown.mode, shown.phase) != (mode, phase) || shown.stuck != stuck;
            if differs {
                shown.revision += 1;
                shown.mode = mode;
                shown.phase = phase;
                shown.stuck = stuck;
            }
            if shown.figures != *figures {
                shown.figures = figures.clone();
            }
            differs
        });
    }

    fn perform(self: &Rc<Self>, action: Action, answered: Option<(RuntimeCallId, &Answer)>) {
        match action {
            Action::Pass(runtime_call, call) => {
                let mut state = self.state.borrow_mut();
                let waiting = state.calls.get_mut(&call);
                let passed = waiting.and_then(|it| Some((it.request.take()?, it.from)));
                drop(state);
                if let Some((request, from)) = passed {
                    self.send(
                        runtime_call,
                        self.upstream(from).clone(),
                        request,
                        Some(call),
                    );
                }
            }
            Action::Call(runtime_call, rpc, message) => {
                self.send(
                    runtime_call,
                    self.ours.clone(),
                    request_of(rpc, &message),
                    None,
                );
            }
            Action::Relay(runtime_call, call) => {
                if let Some((_, answer)) =
                    answered.filter(|(answered, _)| *answered == runtime_call)
                {
                    self.answer(call, answer.clone());
                }
            }
            Action::Reply(call, reply) => self.answer(call, Answer::ours(reply)),
            Action::Cancel(runtime_call) => {
                if let Some(task) = self.state.borrow_mut().runtime_calls.remove(&runtime_call) {
                    task.abort();
                }
            }
            Action::ListHostIds => {
                let (driver, ids) = (self.clone(), (self.ids)());
                spawn(async move {
                    let host_ids = match timeout(HOST_TIMEOUT, ids).await {
                        Ok(Some(ids)) if ids.is_empty() => HostIds::Unavailable,
                        Ok(Some(ids)) => {
                            HostIds::All(ids.into_iter().map(|known| known.id).collect())
                        }
                        Ok(None) | Err(_) => HostIds::Unread,
                    };
                    driver.step(Input::HostIds(host_ids), None);
                });
            }
        }
    }

    fn answer(&self, call: CallId, answer: Answer) {
        if let Some(waiting) = self.state.borrow_mut().calls.remove(&call) {
            match answer.complete {
                Some(complete) => {
                    if let Some(passage) = waiting.passage {
                        passage.ended(complete, &self.added);
                    }
                }
                // The call was lost: an observer loses its connection instead.
                None if waiting.from == Caller::Observer => return,
                None => {}
            }
            // The receiver may be gone; ignore the error.
            let _ = waiting.answer.send(answer);
        }
    }

    /// Sends a call to the runtime, for `call` or for the guard itself.
    fn send(
        self: &Rc<Self>,
        runtime_call: RuntimeCallId,
        upstream: Upstream,
        request: Request<Bytes>,
        call: Option<CallId>,
    ) {
        let driver = self.clone();
        let task = spawn(async move {
            let on_sent = || {
                let mut state = driver.state.borrow_mut();
                let waiting = call.and_then(|call| state.calls.get_mut(&call));
                if let Some(passage) = waiting.and_then(|waiting| waiting.passage.as_mut()) {
                    passage.sent();
                }
            };
            let answer = match upstream.send(request.map(whole), on_sent).await {
                Ok(response) => Answer::read(response).await,
                Err(why) => Err(why),
            };
            driver
                .state
                .borrow_mut()
                .runtime_calls
                .remove(&runtime_call);
            let (answer, outcome) = match answer {
                Ok(answer) => {
                    let outcome = answer.outcome();
                    (answer, outcome)
                }
                Err(why) => Answer::none(&why),
            };
            driver.step(
                Input::Answered(runtime_call, outcome),
                Some((runtime_call, &answer)),
            );
        });
        let mut state = self.state.borrow_mut();
        state
            .runtime_calls
            .insert(runtime_call, task.abort_handle());
    }
}

/// Logs how lists are handled from now on.
fn log_phase(phase: Phase) {
    match phase {
        Phase::Passing => tracing::info!("the guard passes lists to the runtime again"),
        Phase::Guarding { .. } => {
            tracing::warn!("a list is overdue: the guard answers it in place of the runtime");
        }
        Phase::Waiting { .. } => tracing::info!("a list is overdue"),
        Phase::Refusing { .. } => tracing::error!(
            "a list is overdue, and the guard cannot answer it: not everything in it is known and \
             confirmed"
        ),
        Phase::Unresponsive { .. } => tracing::error!(
            "the runtime answers no call: the guard cannot answer lists in its place"
        ),
        Phase::LimitReached => tracing::error!(
            "the guard reached --limit for one fault: every call passes until the runtime answers \
             its lists in time"
        ),
    }
}

/// A caller that waits. Dropping this cancels its call.
struct Leaving {
    driver: Rc<Driver>,
    call: CallId,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let waiting = self.driver.state.borrow_mut().calls.remove(&self.call);
        if waiting.is_some() {
            self.driver.step(Input::Abandoned(self.call), None);
        }
    }
}
