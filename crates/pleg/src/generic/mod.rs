//! The task that owns the truth: it alone writes records and cache, and tells events.
//!
//! ```text
//!   due --> ask both lists --> Sandboxes, Containers --> observe, plan
//!           (relisting)                                      |
//!            a list that does not come:                      |
//!            Swept, id by id (sweeping) -------------------->|
//!   the runtime's events (streaming),                        |
//!   the deaths of processes (processes): hints ------------->|
//!                                                            v
//!                 commit or defer <-- Inspected <-- inspections, each a task of its own
//!                 (inspecting)
//!                       |
//!                 events, health, status --> subscribers and whoever asks
//!                 (reporting)
//! ```
//!
//! Nothing here waits for the runtime: calls run in tasks of their own and report by
//! message, so whatever hangs, the loop turns and says so.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::cache::{Cache, CacheWriter};
use crate::calls::{Calls, OutstandingCall};
use crate::config::{Config, Environment};
use crate::health::{HealthReport, StuckCall};
use crate::id::{Id, PodUid};
use crate::inspect::{InspectError, Lanes};
use crate::listed::{ListedContainer, ListedSandbox};
use crate::patience::Patience;
use crate::records::{Records, Ticket};
use crate::runtime::{CallError, Listing, Runtime, RuntimeVersion};
use crate::status::PodStatus;
use crate::status_report::StatusReport;
use crate::subscribers::{Lifeline, Subscribers, Subscription};
use crate::wall_time::WallTime;

mod inspecting;
mod lists;
mod processes;
mod proof;
mod relisting;
mod reporting;
mod round;
mod stream;
mod streaming;
mod sweep;
mod sweeping;

use lists::Lists;
use processes::{Processes, Watched};
use round::{Round, Seen};
use stream::Streaming;
use streaming::Streamed;
use sweep::Sweep;
use sweeping::{Missing, Swept};

/// What a handle wants.
pub(crate) enum Command {
    /// With what keeps us running while the subscription lasts.
    Subscribe(Lifeline, oneshot::Sender<Subscription>),
    Status(oneshot::Sender<StatusReport>),
    Relist(Instant),
    Reinspect(PodUid),
}

/// What the tasks report.
enum Message {
    Version(Result<RuntimeVersion, CallError>),
    Sandboxes(Result<Listing<ListedSandbox>, CallError>),
    Containers(Result<Listing<ListedContainer>, CallError>),
    Inspected(Ticket, Result<PodStatus, InspectError>),
    Swept(Swept),
    Streamed(Streamed),
    Watched(Id, Watched),
}

pub(crate) struct Generic<R> {
    runtime: Arc<R>,
    config: Config,
    environment: Environment,

    calls: Calls,
    lanes: Lanes,
    patience: Patience,
    tasks: JoinSet<()>,
    reports: mpsc::UnboundedSender<Message>,
    inbox: mpsc::UnboundedReceiver<Message>,

    version: Option<RuntimeVersion>,
    /// Nobody knows who answers: not asked yet, or the connection was lost since.
    ask_version: bool,
    lists: Lists,
    /// The sweep in place of a list that does not come.
    sweep: Option<Sweep>,
    next_sweep: Instant,
    /// What the host knew of when the last sweep was begun.
    host_ids: BTreeSet<Id>,
    streaming: Streaming,
    /// Ids that the stream named, of which nobody knows whose they are.
    hinted_ids: BTreeSet<Id>,
    processes: Processes,
    process_lanes: Lanes,
    records: Records,
    cache: CacheWriter,

    started: Instant,
    /// The round that is not complete yet.
    round: Option<Round>,
    seen: Seen,

    reader: Cache,
    subscribers: Subscribers,
    /// The calls that were overdue when last looked.
    stuck: Vec<StuckCall>,
    /// The health that was told last, and when.
    told: HealthReport,
    told_at: Instant,
    /// Whether lists failed then, and which were swept for.
    told_cause: (bool, Missing),
    /// When it is to be told again, with whatever is overdue by then.
    health_due: Option<Instant>,
}

impl<R: Runtime> Generic<R> {
    pub(crate) fn new(
        runtime: Arc<R>,
        config: Config,
        environment: Environment,
        cache: CacheWriter,
        reader: Cache,
    ) -> Self {
        let (reports, inbox) = mpsc::unbounded_channel();
        let now = Instant::now();
        Self {
            calls: Calls::new(environment.observer.clone()),
            lanes: Lanes::new(config.max_inspections, config.status_overdue),
            patience: Patience::new(&config),
            tasks: JoinSet::new(),
            reports,
            inbox,
            version: None,
            ask_version: true,
            lists: Lists::new(now),
            sweep: None,
            next_sweep: now,
            host_ids: BTreeSet::new(),
            streaming: Streaming::new(config.mode, now),
            hinted_ids: BTreeSet::new(),
            processes: Processes::new(environment.kernel.clone()),
            process_lanes: Lanes::new(processes::PLACES, config.status_overdue),
            records: Records::default(),
            cache,
            started: now,
            round: None,
            seen: Seen::default(),
            reader,
            subscribers: Subscribers::default(),
            told: reporting::first_report(&config, now, (environment.clock)()),
            told_cause: Default::default(),
            told_at: now,
            stuck: Vec::new(),
            health_due: None,
            runtime,
            config,
            environment,
        }
    }

    /// Turns until the last handle is dropped; then whatever is outstanding is given up.
    pub(crate) async fn run(mut self, mut commands: mpsc::UnboundedReceiver<Command>) {
        loop {
            let alarm = self.next_alarm();
            tokio::select! {
                biased;
                Some(message) = self.inbox.recv() => self.on_message(message),
                command = commands.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => return,
                },
                () = self.calls.began() => {}
                () = sleep_until(alarm) => {}
            }
            if self.lists.is_due() {
                self.begin_relist();
            }
            self.drive_sweep();
            self.drive_stream();
            while self.tasks.try_join_next().is_some() {}
            self.review();
        }
    }

    /// What is outstanding for longer than it should be.
    fn overdue(&self) -> Vec<OutstandingCall> {
        self.calls.overdue(|call| self.patience.with(call))
    }

    /// When something is to be done although nobody reports anything.
    fn next_alarm(&self) -> Instant {
        let now = Instant::now();
        let overdue = self.calls.next_overdue(|call| self.patience.with(call));
        // The verdict turns just after the threshold, not at it.
        let seen = self.seen.begun().unwrap_or(self.started);
        let threshold = seen + self.config.relist_threshold + Duration::from_millis(1);
        [
            self.lists.due(),
            self.sweep_alarm(),
            // No stream is asked for before the runtime has said who it is.
            self.streaming.alarm().filter(|_| self.version.is_some()),
            self.health_due,
            overdue,
            Some(threshold).filter(|time| *time > now),
        ]
        .into_iter()
        .flatten()
        .min()
        .unwrap_or(now + self.config.relist_threshold)
    }

    fn on_message(&mut self, message: Message) {
        match message {
            Message::Version(answer) => self.on_version(answer),
            Message::Sandboxes(answer) => self.on_sandboxes(answer),
            Message::Containers(answer) => self.on_containers(answer),
            Message::Inspected(ticket, result) => self.on_inspected(&ticket, result),
            Message::Swept(swept) => self.on_swept(swept),
            Message::Streamed(streamed) => self.on_streamed(streamed),
            Message::Watched(id, watched) => self.on_watched(id, watched),
        }
    }

    fn on_command(&mut self, command: Command) {
        match command {
            Command::Subscribe(lifeline, answer) => {
                // Whoever asked and went away needs no answer.
                let _ = answer.send(self.subscribe(lifeline));
            }
            Command::Status(answer) => {
                let _ = answer.send(self.status());
            }
            Command::Relist(asked) => self.lists.request(asked),
            Command::Reinspect(uid) => self.records.request_reinspect(&uid),
        }
    }

    fn wall_time(&self) -> WallTime {
        (self.environment.clock)()
    }
}
