//! The driver: the task that owns the engine, performs its actions, and feeds the results back.
//!
//! Everything that may block runs in a task of its own and reports by message. If such a task
//! panics, the driver panics too and the process ends. Otherwise lists might no longer be requested,
//! and nothing would show this.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;

use futures_util::StreamExt;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::{AbortHandle, JoinError, JoinSet, yield_now};
use tokio::time::{Instant, sleep_until};

use super::call::{Answered, Call};
use super::limits::{MAX_UNREAD_EVENTS, MIN_SLEEP, PAUSED_AFTER};
use super::state::{Action, Engine, Input};
use crate::config::{Config, Environment};
use crate::model::id::{Id, PodUid};
use crate::model::run_clock::RunClock;
use crate::model::wall_time::Moment;
use crate::observer::Measurement;
use crate::out::cache::{Cache, CacheWriter};
use crate::out::health::HealthState;
use crate::out::record::Record;
use crate::out::status_report::StatusReport;
use crate::out::subscribers::{Lifeline, Subscribers, Subscription};
use crate::runtime::{Announced, CallError, Runtime};

/// The target of log lines about health. A process that reports health in another way can filter
/// them out.
const HEALTH_LOG: &str = "pleg::health";

/// A command from a handle.
pub(crate) enum Command {
    /// The lifeline keeps the driver running while the subscription exists.
    Subscribe(Lifeline, oneshot::Sender<Subscription>),
    Status(oneshot::Sender<StatusReport>),
    Relist(Instant),
    Reinspect(PodUid),
}

pub(crate) struct Driver<R> {
    runtime: Arc<R>,
    environment: Environment,
    clock: RunClock,
    engine: Engine,
    tasks: JoinSet<()>,
    subscribers: Subscribers,
    /// The tasks that wait for the end of a container's process.
    watches: HashMap<Id, AbortHandle>,
    reports: mpsc::UnboundedSender<Input>,
    inbox: mpsc::UnboundedReceiver<Input>,
    announcements: mpsc::Receiver<Announced>,
    announcer: mpsc::Sender<Announced>,
    /// Notified when an event is dropped, because too many are waiting.
    flood: Arc<Notify>,
    /// The command that waits while the engine settles after a pause. Later commands wait in their
    /// channel.
    held: Option<Command>,
    /// When this turn began.
    turn_began: Instant,
}

/// What ended the wait of a turn.
enum Next {
    Command(Command),
    Input(Input),
    /// The clock is checked for a pause of this process, and no step is taken.
    Tick,
}

impl<R: Runtime> Driver<R> {
    pub(crate) fn new(
        runtime: Arc<R>,
        config: Config,
        environment: Environment,
        cache: (CacheWriter, Cache),
        clock: RunClock,
    ) -> Self {
        let (reports, inbox) = mpsc::unbounded_channel();
        let (announcer, announcements) = mpsc::channel(MAX_UNREAD_EVENTS);
        let now = Moment {
            instant: clock.now(),
            wall: (environment.clock)(),
        };
        let engine = Engine::new(
            config,
            environment.endpoint.clone(),
            environment.kernel.is_some(),
            cache,
            now,
        );
        Self {
            runtime,
            environment,
            clock,
            engine,
            subscribers: Subscribers::default(),
            tasks: JoinSet::new(),
            watches: HashMap::new(),
            reports,
            inbox,
            announcements,
            announcer,
            flood: Arc::default(),
            held: None,
            turn_began: now.instant,
        }
    }

    /// Runs until the last handle is dropped. Then it abandons all outstanding calls.
    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        self.watch_births();
        self.step(vec![Input::Time]);
        loop {
            let now = self.now().instant;
            // If work is due but waits for something else, the loop must not spin.
            let alarm = self.engine.alarm(now).max(now + MIN_SLEEP);
            let held_until = self.held_until().filter(|_| self.held.is_some());
            let alarm = held_until.map_or(alarm, |until| until.clamp(now, alarm));
            let tick = now + PAUSED_AFTER / 3;
            let tick = (tick < alarm && self.engine.ledger.has_outstanding_calls()).then_some(tick);
            let next = tokio::select! {
                biased;
                // Commands come first, so a flood of inputs does not delay them.
                command = commands.recv(), if self.held.is_none() => match command {
                    Some(command) => Next::Command(command),
                    None => return,
                },
                Some(input) = self.inbox.recv() => Next::Input(input),
                () = self.flood.notified() => Next::Input(Input::Flooded),
                Some(announced) = self.announcements.recv() => {
                    Next::Input(Input::Announced(announced))
                }
                () = sleep_until(self.clock.monotonic(tick.unwrap_or(alarm))) => match tick {
                    Some(_) => Next::Tick,
                    None => Next::Input(Input::Time),
                },
            };
            self.begin_turn(tick.unwrap_or(alarm));
            match next {
                Next::Tick => {}
                Next::Command(command) => self.held = Some(command),
                Next::Input(input) => self.step_with_waiting(input),
            }
            let now = self.now().instant;
            if self.held_until().is_none_or(|until| now >= until)
                && let Some(command) = self.held.take()
            {
                self.on_command(command);
            }
            while let Some(ended) = self.tasks.try_join_next() {
                resume_panic(ended);
            }
            // The tasks that read the answers may need this thread.
            if self.is_turn_long(self.clock.now()) {
                yield_now().await;
            }
        }
    }

    /// The time until which commands are held; `None` unless the engine is settling.
    fn held_until(&self) -> Option<Instant> {
        self.engine.reporting.settling.held_until()
    }

    /// Begins a turn that was to begin at `expected`. A large delay is time in which this process
    /// was paused.
    fn begin_turn(&mut self, expected: Instant) {
        let delay = self.clock.now().saturating_duration_since(expected);
        if delay >= PAUSED_AFTER {
            tracing::info!("this process was paused for {delay:.1?}");
            self.clock.paused(delay, Instant::now());
            self.engine.on_pause_ended(delay, self.clock.now());
        }
        self.turn_began = self.clock.now();
    }

    /// Whether this turn has run for so long that answers may be waiting in the socket.
    fn is_turn_long(&self, now: Instant) -> bool {
        now >= self.turn_began + PAUSED_AFTER
    }

    /// The current time of the run clock and of the wall clock. If this turn has run for a long time,
    /// settling begins.
    fn now(&mut self) -> Moment {
        let instant = self.clock.now();
        if self.is_turn_long(instant) {
            self.engine.begin_settling(instant);
        }
        Moment {
            instant,
            wall: (self.environment.clock)(),
        }
    }

    /// Takes one step with this input and those that are waiting now. Inputs that arrive meanwhile are
    /// left for the next turn, so a flood of inputs does not delay commands.
    fn step_with_waiting(&mut self, input: Input) {
        let waiting = self.inbox.len();
        let waiting = std::iter::from_fn(|| self.inbox.try_recv().ok()).take(waiting);
        let inputs = std::iter::once(input).chain(waiting).collect();
        self.step(inputs);
    }

    fn step(&mut self, inputs: Vec<Input>) {
        for input in &inputs {
            if let Input::Died(id) = input {
                self.watches.remove(id);
            }
        }
        let now = self.now();
        for action in self.engine.step(inputs, now) {
            self.perform(action);
        }
    }

    fn on_command(&mut self, command: Command) {
        // The receiver may be gone; ignore the error.
        match command {
            Command::Subscribe(lifeline, answer) => {
                let now = self.now();
                let (cache, first) = (
                    self.engine.out.reader.clone(),
                    self.engine.first_records(now),
                );
                let clock = self.environment.clock.clone();
                let subscription = self.subscribers.subscribe(lifeline, cache, first, clock);
                let _ = answer.send(subscription);
            }
            Command::Status(answer) => {
                // Make the report current.
                self.step(vec![Input::Time]);
                let now = self.now();
                let _ = answer.send(self.engine.status(now, &self.clock));
            }
            Command::Relist(after) => self.step(vec![Input::Relist(self.clock.at(after))]),
            Command::Reinspect(uid) => self.step(vec![Input::Reinspect(uid)]),
        }
    }

    fn perform(&mut self, action: Action) {
        // While the driver stops, the receiver may be gone; ignore the error.
        let reports = self.reports.clone();
        match action {
            Action::Send(call) => {
                let (runtime, begun) = (self.runtime.clone(), self.clock.now());
                self.tasks.spawn(async move {
                    let answered = send(&*runtime, call, begun).await;
                    let _ = reports.send(Input::Answered(Box::new(answered)));
                });
            }
            Action::ReadStream => {
                let reader = StreamReader {
                    runtime: self.runtime.clone(),
                    announcer: self.announcer.clone(),
                    flood: self.flood.clone(),
                };
                self.tasks.spawn(async move {
                    let ended = reader.read().await;
                    let _ = reports.send(Input::StreamEnded(ended));
                });
            }
            Action::ReadHostIds => {
                let ids = (self.environment.ids)();
                self.tasks.spawn(async move {
                    let _ = reports.send(Input::HostIds(ids.await));
                });
            }
            Action::Watch { id, pid } => self.watch(id, pid),
            Action::Unwatch(id) => {
                if let Some(watch) = self.watches.remove(&id) {
                    watch.abort();
                }
            }
            Action::Publish(record) => self.publish(&record),
            Action::Measure(measurement) => self.environment.observer.observe(&measurement),
        }
    }

    fn publish(&mut self, record: &Record) {
        if let Record::Health(report) = record {
            let text = format!("{} ({}): {}", report.state, report.reason, report.message);
            match report.state {
                HealthState::Starting | HealthState::Healthy => {
                    tracing::info!(target: HEALTH_LOG, "{text}")
                }
                HealthState::Degraded | HealthState::Unhealthy => {
                    tracing::warn!(target: HEALTH_LOG, "{text}")
                }
            }
        }
        let conflated = self.subscribers.publish(record);
        if conflated > 0 {
            let observer = &self.environment.observer;
            observer.observe(&Measurement::Conflated(conflated));
        }
    }

    fn watch_births(&mut self) {
        let Some(kernel) = &self.environment.kernel else {
            return;
        };
        let (mut births, reports) = (kernel.births(), self.reports.clone());
        self.tasks.spawn(async move {
            while let Some(birth) = births.next().await {
                let _ = reports.send(Input::Birth(birth));
            }
        });
    }

    fn watch(&mut self, id: Id, pid: u32) {
        let Some(kernel) = &self.environment.kernel else {
            return;
        };
        let (watching, reports) = (kernel.watch(pid, &id), self.reports.clone());
        let watched = id.clone();
        let watch = self.tasks.spawn(async move {
            match watching.await {
                Ok(death) => {
                    let _ = reports.send(Input::Opened(watched.clone(), Ok(())));
                    death.await;
                    let _ = reports.send(Input::Died(watched));
                }
                Err(why) => {
                    let _ = reports.send(Input::Opened(watched, Err(why)));
                }
            }
        });
        if let Some(earlier) = self.watches.insert(id, watch) {
            earlier.abort();
        }
    }
}

async fn send(runtime: &impl Runtime, call: Call, begun: Instant) -> Answered {
    let answer = call.request.clone().send(runtime).await;
    Answered {
        call,
        begun,
        answer,
    }
}

/// Resumes the panic of a task in the driver.
fn resume_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        resume_unwind(error.into_panic());
    }
}

/// Reads the stream without ever waiting for the engine.
struct StreamReader<R> {
    runtime: Arc<R>,
    announcer: mpsc::Sender<Announced>,
    flood: Arc<Notify>,
}

impl<R: Runtime> StreamReader<R> {
    async fn read(self) -> Result<(), CallError> {
        let mut announcements = self.runtime.announcements().await?;
        while let Some(announced) = announcements.next().await {
            if self.announcer.try_send(announced?).is_err() {
                self.flood.notify_one();
            }
        }
        Ok(())
    }
}
