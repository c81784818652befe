//! The thread that writes: it feeds the plan, performs its writes, and reports their results to it.

use std::collections::BTreeMap;
use std::io;
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use pleg::model::wall_time::{Moment, WallClock};
use pleg::out::status_report::StatusReport;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};

use crate::api::{Api, Failure};
use crate::config::KubernetesConfig;
use crate::figures::Figures;
use crate::plan::{Kind, Plan, Write};

mod credentials;
mod watching;

use credentials::Credentials;
use watching::{NodeUpdate, watch_node};

/// How long the removal of what was written may take. The whole stop may take a second.
const REMOVAL_TIMEOUT: Duration = Duration::from_millis(700);

/// If the watch has not shown a write within this time, its connection is dead.
const WATCH_DEAD_AFTER: Duration = Duration::from_secs(60);

/// The subject of the log line about a missing Node.
const FINDING_NODE: &str = "finding the Node of this name";

/// The interval at which files of credentials are checked for changes.
const CHECK_INTERVAL: Duration = Duration::from_secs(60);

/// Sends reports to the writer of a node, which ends when this is dropped.
#[derive(Debug)]
pub struct Reporter {
    reports: watch::Sender<Option<StatusReport>>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// Why nothing can be written at all.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Neither the configuration, NODE_NAME nor the host has a valid name.
    #[error("no valid Node name: set kubernetes.nodeName or NODE_NAME")]
    NoName,
    /// The thread cannot be started.
    #[error("the thread that writes to Kubernetes cannot be started")]
    Thread(#[from] io::Error),
}

/// Starts the writer on its own thread.
pub fn start(
    config: KubernetesConfig,
    figures: Figures,
    clock: WallClock,
) -> Result<Reporter, StartError> {
    let node = node_name(&config).ok_or(StartError::NoName)?;
    let (reports, newest) = watch::channel(None);
    let (stop, stopped) = oneshot::channel();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let thread = thread::Builder::new().name("kubernetes".to_owned());
    let thread = thread.spawn(move || {
        let writer = Writer {
            credentials: Credentials::new(config.kubeconfig.clone()),
            plan: Plan::new(&config, &node, Instant::now(), Rng::new()),
            update_due: None,
            api: watch::Sender::new(None),
            logged: BTreeMap::new(),
            node,
            figures,
            clock,
        };
        runtime.block_on(writer.run(newest, stopped));
        // A running name lookup does not delay the end.
        runtime.shutdown_background();
    })?;
    Ok(Reporter {
        reports,
        stop: Some(stop),
        thread: Some(thread),
    })
}

impl Reporter {
    /// Sends the newest report. It replaces one that was not read yet.
    pub fn report(&self, report: StatusReport) {
        self.reports.send_replace(Some(report));
    }

    /// Waits until the writer has ended, which happens only by a fault.
    pub async fn ended(&self) {
        self.reports.closed().await;
    }

    /// Stops the writer, which first removes what it wrote, within a second.
    pub async fn stop(mut self) {
        drop(self.stop.take());
        let ended = timeout(REMOVAL_TIMEOUT + REMOVAL_TIMEOUT / 4, self.reports.closed()).await;
        if let (Ok(()), Some(thread)) = (ended, self.thread.take()) {
            let _ = thread.join();
        }
    }
}

/// The name from the configuration, the environment or the host.
fn node_name(config: &KubernetesConfig) -> Option<String> {
    let named = config.node_name.clone();
    let named = named.or_else(|| std::env::var("NODE_NAME").ok());
    // The kubelet names a Node by the host name in lower case.
    let host = || std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
    let name = named.or_else(host)?.trim().to_lowercase();
    crate::config::is_domain(&name).then_some(name)
}

/// The result of a write.
type Outcome = Result<(), Failure>;

struct Writer {
    node: String,
    credentials: Credentials,
    plan: Plan,
    api: watch::Sender<Option<Api>>,
    /// The deadline for the watch to show the last write; after that, its connection is dead.
    update_due: Option<Instant>,
    figures: Figures,
    clock: WallClock,
    /// The last log line of each subject, which is not repeated.
    logged: BTreeMap<&'static str, String>,
}

impl Writer {
    async fn run(
        mut self,
        mut newest: watch::Receiver<Option<StatusReport>>,
        mut stopped: oneshot::Receiver<()>,
    ) {
        let (updates, mut node_updates) = mpsc::channel(4);
        tokio::spawn(watch_node(self.api.subscribe(), updates));
        let mut writing: Option<(Write, JoinHandle<Outcome>)> = None;
        let mut check = interval(CHECK_INTERVAL);
        check.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if writing.is_none()
                && let Some(api) = self.api.borrow().clone()
                && let Some(write) = self.plan.next(self.now())
            {
                let task = tokio::spawn(perform(api, write.clone()));
                writing = Some((write, task));
            }
            let now = Instant::now();
            let alarm = self.plan.alarm(now).filter(|_| writing.is_none());
            let alarm = alarm.unwrap_or(now + CHECK_INTERVAL);
            if self.update_due.is_some_and(|due| now >= due) {
                self.restart_watch();
            }
            tokio::select! {
                _ = &mut stopped => break,
                changed = newest.changed() => {
                    if changed.is_err() {
                        break;
                    }
                    let report = newest.borrow_and_update().clone();
                    if let Some(report) = report {
                        self.plan.on_report(&report, self.now());
                        self.figures.left_out(self.plan.left_out());
                    }
                }
                Some(update) = node_updates.recv() => self.on_node_update(update),
                (write, outcome) = ended(&mut writing) => self.on_written(&write, outcome),
                _ = check.tick() => {
                    self.check_node_exists();
                    self.reload_credentials().await;
                }
                () = sleep_until(alarm) => {}
            }
        }
        let _ = timeout(REMOVAL_TIMEOUT, async {
            // Wait for the outstanding write, so that what it writes is removed too.
            let settled = async {
                while writing.is_some() || self.plan.needs_node_update(Instant::now()) {
                    tokio::select! {
                        Some(update) = node_updates.recv() => self.on_node_update(update),
                        (write, outcome) = ended(&mut writing) => self.on_written(&write, outcome),
                    }
                }
            };
            let _ = timeout(REMOVAL_TIMEOUT / 2, settled).await;
            self.remove_written().await;
        })
        .await;
    }

    fn now(&self) -> Moment {
        Moment {
            instant: Instant::now(),
            wall: (self.clock)(),
        }
    }

    fn on_node_update(&mut self, update: NodeUpdate) {
        match update {
            Ok(seen) => {
                self.log("watching the Node", None);
                self.log(FINDING_NODE, None);
                self.update_due = None;
                self.plan.on_node(seen, self.now());
            }
            Err(failure) => {
                if let Failure::Forbidden(..) = failure {
                    self.plan.on_unreadable();
                }
                if failure.is_about_credentials() {
                    self.credentials.forget();
                }
                if failure != Failure::Expired {
                    self.log("watching the Node", Some(failure));
                }
            }
        }
    }

    fn on_written(&mut self, write: &Write, outcome: Outcome) {
        let now = self.now();
        let kind = write.kind();
        let (failure, time) = (outcome.as_ref().err(), now.wall.as_unix_seconds());
        self.figures.ended(kind, failure, time);
        match outcome {
            Ok(()) => {
                self.plan.written(write, now.instant);
                self.log(log_subject(kind), None);
                // Every write except an event changes the Node.
                if kind != Kind::Event {
                    self.update_due
                        .get_or_insert(now.instant + WATCH_DEAD_AFTER);
                }
            }
            Err(failure) => {
                if failure.is_about_credentials() {
                    self.credentials.forget();
                }
                // The list of taints has changed since it was read.
                if let (Failure::Invalid(..), Kind::Taint) = (&failure, kind) {
                    self.restart_watch();
                }
                self.plan.failed(write, &failure, now.instant);
                self.log(log_subject(kind), Some(failure));
            }
        }
    }

    /// Opens the watch again, because a connection can be dead without an error.
    fn restart_watch(&mut self) {
        self.update_due = None;
        self.api.send_modify(|_| {});
    }

    /// Logs that the Node is missing. If the name is wrong, the watch never reports the Node.
    fn check_node_exists(&mut self) {
        if self.plan.misses_node() && self.api.borrow().is_some() {
            self.log(FINDING_NODE, Some(Failure::NotFound("the Node")));
        }
    }

    /// Logs one line for each change, not for each retry.
    fn log(&mut self, subject: &'static str, failure: Option<Failure>) {
        match failure {
            Some(failure) => {
                let message = failure.to_string();
                if self.logged.get(subject) != Some(&message) {
                    tracing::warn!("{subject}: {message}");
                    self.logged.insert(subject, message);
                }
            }
            None if self.logged.remove(subject).is_some() => tracing::info!("{subject}: done"),
            None => {}
        }
    }

    /// Reads credentials again if they were rotated or refused.
    async fn reload_credentials(&mut self) {
        if !self.credentials.have_changed() {
            return;
        }
        match Api::open(self.credentials.kubeconfig.as_deref(), &self.node).await {
            Ok(api) => {
                self.api.send_replace(Some(api));
                self.log("credentials", None);
            }
            Err(failure) => {
                self.credentials.forget();
                self.log("credentials", Some(failure));
            }
        }
    }

    /// Removes what was written: otherwise a reader would believe it forever.
    async fn remove_written(&mut self) {
        let Some(api) = self.api.borrow().clone() else {
            return;
        };
        let (conditions, taint) = self.plan.to_remove();
        let mut failures = Vec::new();
        for (which, kind) in conditions {
            failures.extend(api.remove_condition(which, kind).await.err());
        }
        if let Some(patch) = taint {
            failures.extend(api.patch(&patch).await.err());
        }
        for failure in failures {
            self.log("removing what was written", Some(failure));
        }
    }
}

/// The kind of a write, for the log.
fn log_subject(kind: Kind) -> &'static str {
    match kind {
        Kind::Condition => "writing the node condition",
        Kind::RuntimeReady => "writing ContainerRuntimeReady",
        Kind::Taint => "changing the taint",
        Kind::Event => "writing an event",
    }
}

async fn perform(api: Api, write: Write) -> Outcome {
    match write {
        Write::Condition(which, entry, _) => api.apply(which, &entry).await,
        Write::Taint(patch) => api.patch(&patch).await,
        Write::Event(event, node_uid) => api.record(&event, &node_uid).await,
    }
}

/// Waits for the end of the outstanding write; forever if there is none.
async fn ended(writing: &mut Option<(Write, JoinHandle<Outcome>)>) -> (Write, Outcome) {
    let Some((write, task)) = writing else {
        return std::future::pending().await;
    };
    let outcome = task.await;
    let write = write.clone();
    *writing = None;
    // A panic of a task ends the process.
    let outcome =
        outcome.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()));
    (write, outcome)
}
