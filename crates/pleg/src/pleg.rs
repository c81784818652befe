//! The handle to the task that owns the engine.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use crate::config::{Config, Environment};
use crate::engine::driver::{Command, Driver};
use crate::model::id::PodUid;
use crate::model::run_clock::RunClock;
use crate::out::cache::{Cache, Stopped, cache};
use crate::out::status_report::StatusReport;
use crate::out::subscribers::Subscription;
use crate::runtime::Runtime;

/// A handle to a running generator. Clones are handles to the same generator, which stops when the last
/// handle is dropped.
///
/// # Example
///
/// A simulated runtime, in virtual time: one list is stuck, and events continue.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
///
/// use pleg::model::event::EventType;
/// use pleg::out::record::Record;
/// use pleg::runtime::Rpc;
/// use pleg::{Config, Environment, Pleg};
/// use sim::{Fault, Sim};
/// use tokio::time::sleep;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), pleg::out::cache::Stopped> {
/// let sim = Sim::new();
/// sim.run("web-0", &["app"]);
/// let environment = Environment::new("sim", sim.clock());
/// let pleg = Pleg::start(Arc::new(sim.clone()), Config::default(), environment);
/// let mut records = pleg.subscribe().await?;
/// sleep(Duration::from_secs(5)).await;
///
/// sim.fault(Rpc::ListContainers, None, Fault::Hang);
/// sim.exit("web-0", "app", 137);
/// while let Some(record) = records.next().await {
///     if let Record::Event(event) = record
///         && event.event_type == EventType::ContainerDied
///     {
///         assert_eq!(event.exit_code, Some(137));
///         break;
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Pleg {
    commands: mpsc::UnboundedSender<Command>,
    cache: Cache,
}

impl Pleg {
    /// Starts the generator. Must be called within a tokio runtime.
    pub fn start<R: Runtime>(runtime: Arc<R>, config: Config, environment: Environment) -> Self {
        let (commands, inbox) = mpsc::unbounded_channel();
        let clock = RunClock::default();
        let (writer, cache) = cache(clock.clone());
        let both = (writer, cache.clone());
        let driver = Driver::new(runtime, config, environment, both, clock);
        tokio::spawn(driver.run(inbox));
        Self { commands, cache }
    }

    /// The pod status cache.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Begins a subscription: first the present state (`initial` events, then `synced`), then changes.
    pub async fn subscribe(&self) -> Result<Subscription, Stopped> {
        self.request(|answer| Command::Subscribe(Box::new(self.clone()), answer))
            .await
    }

    /// The status report. Returns at once, whatever is stuck.
    pub async fn status(&self) -> Result<StatusReport, Stopped> {
        self.request(Command::Status).await
    }

    /// Waits until the generator has stopped. While there is a handle, it stops only if it fails.
    pub async fn stopped(&self) -> Stopped {
        self.commands.closed().await;
        Stopped
    }

    /// Requests a relist that begins after now: at once, or after the relist that is in progress.
    pub fn request_relist(&self) {
        self.send(Command::Relist(Instant::now()));
    }

    /// Requests an inspection of a pod at the next relist even if nothing differs. The inspection ends with
    /// a `PodSync` event.
    pub fn request_reinspect(&self, uid: PodUid) {
        self.send(Command::Reinspect(uid));
    }

    async fn request<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> Command,
    ) -> Result<T, Stopped> {
        let (answer, answered) = oneshot::channel();
        self.send(command(answer));
        answered.await.map_err(|_| Stopped)
    }

    fn send(&self, command: Command) {
        // If the generator has stopped, there is no answer; ignore the error.
        let _ = self.commands.send(command);
    }
}
