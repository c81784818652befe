//! Performs the actions of the core: passes calls on, sends calls, answers callers, cancels calls.

use std::cell::{Cell, Ref, RefCell};
use std::future::pending;
use std::rc::{Rc, Weak};
use std::time::Duration;

use bytes::Bytes;
use cri::Rpc;
use http::{Request, Response};
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::added::{Added, Passage};
use super::answer::Answer;
use super::call_upstream::CallUpstream;
use super::calls::Calls;
use super::events::EventHub;
use super::records_file::RecordsFile;
use super::report::Reports;
use super::tasks::spawn;
use super::upstream::{NoAnswer, Upstream, request_of};
use super::{Body, Proxy};
use crate::core::{
    Action, Call, CallId, Caller, Guard, HostIds, Input, Mode, Outcome, Phase, RuntimeCallId,
};

/// How often the state is saved, if it has changed.
const SAVE_EVERY: Duration = Duration::from_millis(500);

/// The pause before a failed attempt to save the state is repeated.
const SAVE_AGAIN_AFTER: Duration = Duration::from_secs(10);

/// How long reading the host's ids may take.
const HOST_TIMEOUT: Duration = Duration::from_millis(500);

/// If a timer fires this late, the process was paused.
const PAUSED_AFTER: Duration = Duration::from_millis(300);

/// How long reading the answers that arrived during a pause may take.
const CATCH_UP_TIME: Duration = Duration::from_millis(100);

/// A call on which the core decides, as it was received.
pub(super) struct ReceivedCall {
    pub(super) rpc: Rpc,
    pub(super) request: Request<Bytes>,
    /// The message in the request.
    pub(super) message: Bytes,
    /// The timeout of the caller, if it has one.
    pub(super) timeout: Option<Duration>,
    pub(super) passage: Passage,
    pub(super) from: Caller,
}

/// The core, and the connections on which its actions are performed.
pub(super) struct Driver {
    pub(super) proxy: Proxy,
    /// When this guard started: on the monotonic clock, and in nanoseconds since 1970.
    pub(super) began: Instant,
    pub(super) started: u64,
    guard: RefCell<Guard>,
    calls: RefCell<Calls>,
    /// The connections for the calls on which the core decides: those of clients, and those of observers and
    /// of the guard itself.
    theirs: CallUpstream,
    ours: CallUpstream,
    /// The connection for the event stream, and for the calls of observers on which the core does not decide.
    pub(super) streams: Upstream,
    pub(super) events: Rc<EventHub>,
    /// Counts the connections to the runtime that have ended. Each time one ends, the guard closes the
    /// connections of observers, which would lose theirs without the guard.
    lost: watch::Sender<u64>,
    records: Option<RecordsFile>,
    /// When [`Self::tick`] calls the core next.
    next_tick: Cell<Option<Instant>>,
    is_due_sooner: Notify,
    /// The latency that the guard adds.
    pub(super) added: Added,
    pub(super) reports: Reports,
}

impl Driver {
    pub(super) async fn new(proxy: Proxy, mode: Mode) -> Rc<Self> {
        let records = proxy.state.clone().map(RecordsFile::new);
        let saved = match &records {
            Some(records) => records.read().await,
            None => None,
        };
        let began = Instant::now();
        let started = u64::try_from(proxy.unix_nanos).unwrap_or_default();
        let mut guard = Guard::new(proxy.settings.clone(), mode, began, proxy.unix_nanos);
        if let Some(saved) = saved.filter(|saved| !guard.restore(saved.clone(), began)) {
            let bytes = saved.len();
            tracing::warn!("cannot decode the state saved by an earlier guard ({bytes} bytes)");
        }
        Rc::new_cyclic(|driver: &Weak<Self>| {
            let lost = watch::Sender::new(0);
            let (of, count) = (driver.clone(), lost.clone());
            let on_lost: Rc<dyn Fn()> = Rc::new(move || {
                count.send_modify(|count| *count += 1);
                if let Some(driver) = of.upgrade() {
                    driver.step(Input::Disconnected);
                }
            });
            let runtime = || proxy.runtime.clone();
            let streams = Upstream::new(runtime(), on_lost.clone());
            let of = driver.clone();
            let on_event = move |id| {
                if let Some(driver) = of.upgrade() {
                    driver.step(Input::Hint(id));
                }
            };
            Self {
                began,
                started,
                guard: RefCell::new(guard),
                calls: RefCell::default(),
                theirs: CallUpstream::new(runtime(), on_lost.clone()),
                ours: CallUpstream::new(runtime(), on_lost),
                events: Rc::new(EventHub::new(streams.clone(), on_event)),
                streams,
                lost,
                records,
                next_tick: Cell::new(None),
                is_due_sooner: Notify::new(),
                added: Added::default(),
                // The revision must not be one of an earlier guard, and not 0.
                reports: Reports::new(started.max(1), mode),
                proxy,
            }
        })
    }

    /// A connection for one client's calls on which the core does not decide. Its end is not evidence about
    /// the runtime.
    pub(super) fn upstream_for_one(&self) -> Upstream {
        Upstream::new(self.proxy.runtime.clone(), Rc::new(|| {}))
    }

    /// Whether every call is passed on unchanged.
    pub(super) fn passes_all(&self) -> bool {
        self.guard.borrow().mode() == Mode::Pass
    }

    /// Switches the mode.
    pub(super) fn switch(self: &Rc<Self>, mode: Mode) {
        if self.guard.borrow().mode() == mode {
            return;
        }
        self.step(Input::Mode(mode));
        match mode {
            // From now on each client has its own stream.
            Mode::Pass => self.events.end(),
            // Otherwise each stream would have only a part of the events.
            Mode::Guard | Mode::Shadow => self.events.take_back(),
        }
        let phase = self.guard.borrow().phase(Instant::now());
        self.report(phase);
        tracing::info!("the guard is switched: {mode:?}");
    }

    /// Borrows the core. The borrow must end before the driver handles the next input.
    pub(super) fn guard(&self) -> Ref<'_, Guard> {
        self.guard.borrow()
    }

    /// The response for a call that has no answer. If the connection to the runtime was lost, an observer
    /// gets no response, but loses its own connection: it observes the runtime and not the guard.
    pub(super) async fn no_answer(&self, why: &NoAnswer, from: Caller) -> Response<Body> {
        let (answer, outcome) = Answer::none(why);
        if from == Caller::Observer && matches!(outcome, Outcome::Lost) {
            self.lose().await
        }
        answer.into_response()
    }

    /// Ends the connections of observers. Never returns.
    async fn lose(&self) -> ! {
        self.lost.send_modify(|count| *count += 1);
        pending().await
    }

    /// Changes each time a connection to the runtime ends.
    pub(super) fn losses(&self) -> watch::Receiver<u64> {
        self.lost.subscribe()
    }

    /// Saves the state for the next start, each time it has changed.
    pub(super) async fn save_records(self: Rc<Self>) {
        let mut is_logged = false;
        loop {
            // Save at once when the phase changes, so that the next guard continues a fault that has just begun.
            let _ = timeout(SAVE_EVERY, self.reports.phase_changed()).await;
            let Err(why) = self.save_now().await else {
                is_logged = false;
                continue;
            };
            if !std::mem::replace(&mut is_logged, true) {
                tracing::warn!("{why}");
            }
            self.guard.borrow_mut().not_saved();
            sleep(SAVE_AGAIN_AFTER).await;
        }
    }

    /// Saves the state, if it has changed.
    pub(super) async fn save_now(&self) -> Result<(), String> {
        let Some(records) = &self.records else {
            return Ok(());
        };
        let saved = self.guard.borrow_mut().to_save(Instant::now());
        match saved {
            Some(saved) => records.write(saved).await,
            None => Ok(()),
        }
    }

    /// Calls the core at the times that it requests.
    pub(super) async fn tick(self: Rc<Self>) {
        // Request the first lists before a client does.
        self.step(Input::Time);
        loop {
            let alarm = self.guard.borrow().alarm(Instant::now());
            self.next_tick.set(alarm);
            let time = async {
                match alarm {
                    Some(alarm) => sleep_until(alarm).await,
                    None => pending().await,
                }
                // This process was paused: read the answers that arrived during the pause before any call
                // counts as overdue.
                if alarm.is_some_and(|alarm| Instant::now() >= alarm + PAUSED_AFTER) {
                    sleep(CATCH_UP_TIME).await;
                }
            };
            tokio::select! {
                () = time => self.step(Input::Time),
                () = self.is_due_sooner.notified() => {}
            }
        }
    }

    /// Lets the core decide on a call, and returns its response. Dropping the future cancels the call.
    pub(super) async fn call(self: Rc<Self>, received: ReceivedCall) -> Response<Body> {
        let ReceivedCall { rpc, from, .. } = received;
        let (id, answer) = {
            let mut calls = self.calls.borrow_mut();
            calls.add(received.request, from, received.passage)
        };
        let leaving = Leaving {
            driver: self.clone(),
            call: id,
        };
        let now = Instant::now();
        self.step(Input::Called(Call {
            id,
            rpc,
            request: received.message,
            from,
            deadline: received
                .timeout
                .and_then(|timeout| now.checked_add(timeout)),
        }));
        self.calls.borrow_mut().decided(id);
        let answer = answer.await;
        drop(leaving);
        match answer {
            Ok(answer) => answer.into_response(),
            Err(_) if from == Caller::Observer => self.lose().await,
            Err(_) => Answer::lost("the call was lost").into_response(),
        }
    }

    fn step(self: &Rc<Self>, input: Input) {
        self.step_with(input, None);
    }

    /// Calls the core, and performs its actions. `answer` is the runtime's answer, if the input is one.
    fn step_with(self: &Rc<Self>, input: Input, mut answer: Option<Answer>) {
        let now = Instant::now();
        let actions = self.guard.borrow_mut().step(input, now);
        let acts = !actions.is_empty();
        let is_relay = |action: &Action| matches!(action, Action::Relay(..));
        let last_relay = actions.iter().rposition(is_relay);
        for (place, action) in actions.into_iter().enumerate() {
            let relayed = match action {
                // The last caller receives the answer itself, the others receive copies.
                Action::Relay(..) if last_relay == Some(place) => answer.take(),
                Action::Relay(..) => answer.clone(),
                _ => None,
            };
            self.perform(action, relayed);
        }
        // Without any action, the passing of time alone can make the runtime count as unresponsive.
        let phase = self.guard.borrow().phase(now);
        if acts || phase != self.reports.phase() {
            self.report(phase);
        }
        // Most calls do not change the alarm, or move it to a later time. Then the timer is kept, although
        // the core may have nothing to do when it fires.
        let alarm = self.guard.borrow().alarm(now);
        let next = self.next_tick.get();
        if alarm.is_some_and(|alarm| next.is_none_or(|next| alarm < next)) {
            self.is_due_sooner.notify_one();
        }
    }

    /// Updates the report, if it has changed.
    fn report(&self, phase: Phase) {
        self.reports.update(&self.guard.borrow(), phase);
    }

    fn perform(self: &Rc<Self>, action: Action, relayed: Option<Answer>) {
        match action {
            Action::Pass(runtime_call, call) => {
                let passed = self.calls.borrow_mut().pass(call);
                if let Some((request, from)) = passed {
                    let upstream = match from {
                        Caller::Client => &self.theirs,
                        Caller::Observer => &self.ours,
                    };
                    self.send(runtime_call, upstream.clone(), request, Some(call));
                }
            }
            Action::Call(runtime_call, rpc, message) => {
                let request = request_of(rpc, &message);
                self.send(runtime_call, self.ours.clone(), request, None);
            }
            Action::Relay(_, call) => {
                if let Some(answer) = relayed {
                    self.answer(call, answer);
                }
            }
            Action::Reply(call, reply) => self.answer(call, Answer::ours(reply)),
            Action::Cancel(runtime_call) => self.calls.borrow_mut().cancel(runtime_call),
            Action::ListHostIds => {
                let (driver, ids) = (self.clone(), (self.proxy.ids)());
                spawn(async move {
                    let host_ids = match timeout(HOST_TIMEOUT, ids).await {
                        Ok(Some(ids)) if ids.is_empty() => HostIds::Unavailable,
                        Ok(Some(ids)) => {
                            HostIds::All(ids.into_iter().map(|known| known.id).collect())
                        }
                        Ok(None) | Err(_) => HostIds::Unread,
                    };
                    driver.step(Input::HostIds(host_ids));
                });
            }
        }
    }

    fn answer(&self, call: CallId, answer: Answer) {
        self.calls.borrow_mut().answer(call, answer, &self.added);
    }

    /// Sends a call to the runtime, for `call` or for the guard itself.
    fn send(
        self: &Rc<Self>,
        runtime_call: RuntimeCallId,
        upstream: CallUpstream,
        request: Request<Bytes>,
        call: Option<CallId>,
    ) {
        let driver = self.clone();
        let task = spawn(async move {
            let on_sent = || {
                if let Some(call) = call {
                    driver.calls.borrow_mut().sent(call);
                }
            };
            let answer = upstream.call(request, on_sent).await;
            driver.calls.borrow_mut().end(runtime_call);
            let (answer, outcome) = match answer {
                Ok(answer) => {
                    let outcome = answer.outcome();
                    (answer, outcome)
                }
                Err(why) => Answer::none(&why),
            };
            driver.step_with(Input::Answered(runtime_call, outcome), Some(answer));
        });
        let mut calls = self.calls.borrow_mut();
        calls.begin(runtime_call, task.abort_handle());
    }
}

/// A caller that waits. Dropping this cancels its call.
struct Leaving {
    driver: Rc<Driver>,
    call: CallId,
}

impl Drop for Leaving {
    fn drop(&mut self) {
        let was_waiting = self.driver.calls.borrow_mut().leave(self.call);
        if was_waiting {
            self.driver.step(Input::Abandoned(self.call));
        }
    }
}
