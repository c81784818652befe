//! The handle: how everybody else speaks with the task that owns the truth.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::cache::{Cache, Stopped, cache};
use crate::config::Config;
use crate::generic::Generic;
use crate::id::PodUid;
use crate::observer::Observer;
use crate::runtime::Runtime;
use crate::status_report::StatusReport;
use crate::subscribers::Subscription;
use crate::wall_time::WallClock;

/// What the generator takes from outside besides the runtime.
#[derive(Clone)]
pub struct Environment {
    /// Where the runtime listens, for display.
    pub endpoint: Arc<str>,
    /// The time of day.
    pub clock: WallClock,
    /// Who counts.
    pub observer: Arc<dyn Observer>,
}

/// A running generator. Clones are handles to the same; it stops when the last is dropped.
#[derive(Clone)]
pub struct Pleg {
    commands: mpsc::UnboundedSender<Command>,
    cache: Cache,
}

/// What a handle wants of the task.
pub(crate) enum Command {
    Subscribe(Pleg, oneshot::Sender<Subscription>),
    Status(oneshot::Sender<StatusReport>),
    Relist(Instant),
    Reinspect(PodUid),
}

impl Pleg {
    /// Starts to relist. Must be called within a tokio runtime.
    pub fn start<R: Runtime>(runtime: Arc<R>, config: Config, environment: Environment) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (writer, reader) = cache();
        let generic = Generic::new(runtime, config, environment, writer, reader.clone());
        tokio::spawn(generic.run(inbox));
        Self {
            commands,
            cache: reader,
        }
    }

    /// The pod status cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Begins a subscription: first what is there now (`initial` events, then `synced`),
    /// then what happens.
    pub async fn subscribe(&self) -> Result<Subscription, Stopped> {
        self.ask(|answer| Command::Subscribe(self.clone(), answer))
            .await
    }

    /// Everything about us now. Answers at once, whatever hangs.
    pub async fn status(&self) -> Result<StatusReport, Stopped> {
        self.ask(Command::Status).await
    }

    /// Wants a relist that is begun after now: at once, or after the one under way.
    pub fn request_relist(&self) {
        self.tell(Command::Relist(Instant::now()));
    }

    /// Wants a pod inspected at the next relist although nothing about it differs; the
    /// end of it is a `PodSync` event.
    pub fn request_reinspect(&self, uid: PodUid) {
        self.tell(Command::Reinspect(uid));
    }

    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Stopped> {
        let (answer, answered) = oneshot::channel();
        self.tell(command(answer));
        answered.await.map_err(|_| Stopped)
    }

    fn tell(&self, command: Command) {
        // That the task has stopped shows in the answer, where there is one.
        let _ = self.commands.send(command);
    }
}
