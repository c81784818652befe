//! What the core decides is done here: calls are passed on, asked, answered and left.

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
use super::{Body, Proxy, Report, kept};
use crate::core::{
    Action, AskId, CallId, Caller, Figures, Guard, HostIds, Input, Mode, Outcome, Phase,
};

/// How often what is known is kept, if it has changed.
const KEEP: Duration = Duration::from_millis(500);

/// How long the disk may take; and after what time a failed attempt is repeated.
const KEPT_WITHIN: Duration = Duration::from_secs(10);

/// How long the host may take to tell the ids.
const HOST: Duration = Duration::from_millis(500);

/// A wake-up that is so late is a pause of this process.
const PAUSE: Duration = Duration::from_millis(300);

/// What came in a pause is read within this time.
const TAKEN_IN: Duration = Duration::from_millis(100);

/// A call that is decided on.
pub(super) struct Call {
    pub(super) rpc: Rpc,
    /// The request as it came.
    pub(super) request: Request<Bytes>,
    /// The message in it.
    pub(super) message: Bytes,
    /// How long the caller waits.
    pub(super) patience: Option<Duration>,
    pub(super) passage: Passage,
    pub(super) from: Caller,
}

/// The core, and all that it needs to act.
pub(super) struct Driver {
    state: RefCell<State>,
    theirs: Upstream,
    ours: Upstream,
    events: Rc<EventHub>,
    /// Counts the ends of connections to the runtime: with each, observers lose theirs, as they would
    /// without us.
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

/// When a client last asked for lists of both kinds, and was last given them.
pub(super) struct Lists {
    pub(super) asked: Option<Instant>,
    pub(super) listed: Option<Instant>,
}

struct State {
    guard: Guard,
    last_call: u64,
    calls: BTreeMap<CallId, Waiting>,
    asks: BTreeMap<AskId, AbortHandle>,
}

struct Waiting {
    /// Until it is passed on.
    request: Option<Request<Bytes>>,
    from: Caller,
    /// `None` if it is kept back on purpose: what is measured is passed at once.
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
                    driver.step(Input::Announced(id), None);
                }
            };
            Self {
                state: RefCell::new(State {
                    guard,
                    last_call: 0,
                    calls: BTreeMap::new(),
                    asks: BTreeMap::new(),
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

    /// A connection for those calls of one client that the core does not decide on. Its end tells
    /// nothing of the runtime.
    pub(super) fn upstream_for_one(&self) -> Upstream {
        self.theirs.another(Rc::new(|| {}))
    }

    /// The connection for the calls that the core decides on.
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

    /// Whether every call passes as it is.
    pub(super) fn passes_all(&self) -> bool {
        self.state.borrow().guard.mode() == Mode::Pass
    }

    /// Sets what is done from now on.
    pub(super) fn switch(self: &Rc<Self>, mode: Mode) {
        if self.state.borrow().guard.mode() == mode {
            return;
        }
        self.step(Input::Mode(mode), None);
        match mode {
            // Clients read the runtime's events themselves from now on.
            Mode::Pass => self.events().end(),
            // And no longer, or each would have a part of them.
            Mode::Guard | Mode::Shadow => self.events().take_back(),
        }
        let phase = self.state.borrow().guard.phase(Instant::now());
        self.report(phase);
        tracing::info!("the guard is switched: {mode:?}");
    }

    /// None of the calls of a client could be read. Logged once: a kubelet tries again and again.
    pub(super) fn refused_a_client(&self) {
        if !self.has_refused.replace(true) {
            tracing::error!(
                "a client was refused: its calls are not valid HTTP/2. Kubelets before 1.31 cannot use the \
                 guard, because they send the path of the socket as the authority of each call"
            );
        }
    }

    /// What is done now.
    pub(super) fn reports(&self) -> watch::Receiver<Report> {
        self.reports.subscribe()
    }

    pub(super) fn asked_and_listed(&self) -> Lists {
        let state = self.state.borrow();
        Lists {
            asked: state.guard.asked(),
            listed: state.guard.listed(),
        }
    }

    /// When this guard started, by both clocks.
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

    /// Changes whenever a connection to the runtime ends.
    pub(super) fn losses(&self) -> watch::Receiver<u64> {
        self.lost.subscribe()
    }

    /// Where it is counted what the guard adds.
    pub(super) fn added(&self) -> &Added {
        &self.added
    }

    /// Keeps what is known in a file, for the next start.
    pub(super) async fn keep(self: Rc<Self>, path: PathBuf) {
        let mut is_said = false;
        loop {
            // The next guard continues with a fault that has just begun.
            let _ = timeout(KEEP, self.phase_changed.notified()).await;
            let Err(why) = self.keep_now(&path).await else {
                is_said = false;
                continue;
            };
            if !std::mem::replace(&mut is_said, true) {
                let path = path.display();
                tracing::warn!("cannot save the guard's records in {path}: {why}");
            }
            self.state.borrow_mut().guard.not_saved();
            sleep(KEPT_WITHIN).await;
        }
    }

    /// Keeps what is known before this process ends.
    pub(super) async fn keep_last(&self, path: PathBuf) {
        if let Err(why) = self.keep_now(&path).await {
            let path = path.display();
            tracing::warn!("cannot save the guard's records in {path}: {why}");
        }
    }

    /// Keeps what is known, if it has changed.
    async fn keep_now(&self, path: &Path) -> Result<(), String> {
        let saved = self.state.borrow_mut().guard.to_save(Instant::now());
        let Some(saved) = saved else { return Ok(()) };
        let to = path.to_owned();
        let write = move || kept::write(&to, &saved);
        match self.disk.run(KEPT_WITHIN, write).await {
            Some(Ok(())) => Ok(()),
            Some(Err(error)) => Err(error.to_string()),
            None => Err("the disk does not respond".to_owned()),
        }
    }

    /// Wakes the core when it is time.
    pub(super) async fn tick(self: Rc<Self>) {
        // What there is, is learnt before anybody asks.
        self.step(Input::Time, None);
        loop {
            let alarm = self.state.borrow().guard.alarm(Instant::now());
            let time = async {
                match alarm {
                    Some(alarm) => sleep_until(alarm).await,
                    None => std::future::pending().await,
                }
                // We were stopped, frozen or starved: what the runtime has answered meanwhile is
                // taken in before anybody is found to be late.
                if alarm.is_some_and(|alarm| Instant::now() >= alarm + PAUSE) {
                    sleep(TAKEN_IN).await;
                }
            };
            tokio::select! {
                () = time => self.step(Input::Time, None),
                () = self.turned.notified() => {}
            }
        }
    }

    /// Decides on a call, and gives its answer. Dropping the future gives the call up.
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
            deadline: call.patience.and_then(|patience| now.checked_add(patience)),
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

    pub(super) fn step(self: &Rc<Self>, input: Input, answered: Option<(AskId, &Answer)>) {
        let now = Instant::now();
        let actions = self.state.borrow_mut().guard.step(input, now);
        let acts = !actions.is_empty();
        for action in actions {
            self.perform(action, answered);
        }
        // A runtime becomes silent by time alone.
        let phase = self.state.borrow().guard.phase(now);
        if acts || phase != self.reports.borrow().phase {
            self.report(phase);
        }
        self.turned.notify_one();
    }

    /// Shows what is done now, where that differs from what is shown.
    fn report(&self, phase: Phase) {
        let state = self.state.borrow();
        let figures = state.guard.figures();
        let stuck = match phase {
            Phase::Passing | Phase::Silent { .. } => Vec::new(),
            Phase::Guarding { .. }
            | Phase::Waiting { .. }
            | Phase::Refusing { .. }
            | Phase::GivenUp => state.guard.stuck(&self.reports.borrow().stuck),
        };
        self.reports.send_if_modified(|shown| {
            if discriminant(&shown.phase) != discriminant(&phase) {
                tell(phase);
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

    fn perform(self: &Rc<Self>, action: Action, answered: Option<(AskId, &Answer)>) {
        match action {
            Action::Pass(ask, call) => {
                let mut state = self.state.borrow_mut();
                let waiting = state.calls.get_mut(&call);
                let passed = waiting.and_then(|it| Some((it.request.take()?, it.from)));
                drop(state);
                if let Some((request, from)) = passed {
                    self.ask(ask, self.upstream(from).clone(), request, Some(call));
                }
            }
            Action::Ask(ask, rpc, message) => {
                self.ask(ask, self.ours.clone(), request_of(rpc, &message), None);
            }
            Action::Relay(ask, call) => {
                if let Some((_, answer)) = answered.filter(|(answered, _)| *answered == ask) {
                    self.answer(call, answer.clone());
                }
            }
            Action::Reply(call, reply) => self.answer(call, Answer::ours(reply)),
            Action::Cancel(ask) => {
                if let Some(task) = self.state.borrow_mut().asks.remove(&ask) {
                    task.abort();
                }
            }
            Action::AskHost => {
                let (driver, ids) = (self.clone(), (self.ids)());
                spawn(async move {
                    let told = match timeout(HOST, ids).await {
                        Ok(Some(ids)) if ids.is_empty() => HostIds::CannotTell,
                        Ok(Some(ids)) => {
                            HostIds::All(ids.into_iter().map(|known| known.id).collect())
                        }
                        Ok(None) | Err(_) => HostIds::Unread,
                    };
                    driver.step(Input::HostIds(told), None);
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
                // It was lost.
                None if waiting.from == Caller::Observer => return,
                None => {}
            }
            // The caller may have gone in this very moment.
            let _ = waiting.answer.send(answer);
        }
    }

    /// Asks the runtime, on behalf of `call` or for ourselves.
    fn ask(
        self: &Rc<Self>,
        ask: AskId,
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
            driver.state.borrow_mut().asks.remove(&ask);
            let (answer, outcome) = match answer {
                Ok(answer) => {
                    let outcome = answer.outcome();
                    (answer, outcome)
                }
                Err(why) => Answer::none(&why),
            };
            driver.step(Input::Answered(ask, outcome), Some((ask, &answer)));
        });
        let mut state = self.state.borrow_mut();
        state.asks.insert(ask, task.abort_handle());
    }
}

/// Logs what is done for lists from now on.
fn tell(phase: Phase) {
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
        Phase::Silent { .. } => tracing::error!(
            "the runtime answers no call: the guard cannot answer lists in its place"
        ),
        Phase::GivenUp => tracing::error!(
            "the guard reached --limit for one fault: every call passes until the runtime answers \
             its lists in time"
        ),
    }
}

/// A caller that waits; when it goes, its call is given up.
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
