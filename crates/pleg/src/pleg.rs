//! The handle: how everybody else speaks with the task that owns the truth.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::config::{Config, Environment};
use crate::engine::driver::{Command, Driver};
use crate::model::id::PodUid;
use crate::out::cache::{Cache, Stopped, cache};
use crate::out::status_report::StatusReport;
use crate::out::subscribers::Subscription;
use crate::runtime::Runtime;

/// A running generator. Clones are handles to the same; it stops when the last is dropped.
#[derive(Clone)]
pub struct Pleg {
    commands: mpsc::UnboundedSender<Command>,
    cache: Cache,
}

impl Pleg {
    /// Starts to relist. Must be called within a tokio runtime.
    pub fn start<R: Runtime>(runtime: Arc<R>, config: Config, environment: Environment) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let (writer, reader) = cache();
        let driver = Driver::new(runtime, config, environment, (writer, reader.clone()));
        tokio::spawn(driver.run(inbox));
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
        self.ask(|answer| Command::Subscribe(Box::new(self.clone()), answer))
            .await
    }

    /// Everything about us now. Answers at once, whatever hangs.
    pub async fn status(&self) -> Result<StatusReport, Stopped> {
        self.ask(Command::Status).await
    }

    /// Waits until the task has stopped, which it does only if it fails.
    pub async fn stopped(&self) -> Stopped {
        self.commands.closed().await;
        Stopped
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
