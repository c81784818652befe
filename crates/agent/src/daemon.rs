//! The daemon as a whole: it observes, answers, and saves the known ids until it is stopped.

use std::convert::Infallible;
use std::ffi::OsString;
use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

use cluster::Reporter;
use cri::Endpoint;
use pleg::model::wall_time::system_clock;
use pleg::out::cache::Stopped;
use pleg::{Environment, Pleg};
use tokio::sync::watch;

use crate::agent::Agent;
use crate::diagnosis::{Diagnosis, Findings, Outputs};
use crate::guard::{Guard, GuardedRuntime};
use crate::history::{self, History, HistoryConfig};
use crate::http::{health_router, router};
use crate::known_ids::{SavedSet, known_ids};
use crate::listeners::{Listeners, MAX_CONNECTIONS, serve};
use crate::reports::{self, Reports};
use crate::static_pods::{StaticPods, StaticPodsError};
use crate::{AgentConfig, KernelHints, Metrics, kernel, supervisor};

/// What [`run`] needs to start a daemon.
#[derive(Clone, Debug)]
pub struct Daemon {
    /// The runtime to observe. It need not exist yet.
    pub endpoint: Endpoint,
    /// The configuration.
    pub config: AgentConfig,
    /// Where the known ids are saved.
    pub state_directory: PathBuf,
    /// The socket of the guard in front of the runtime, which may come and go; `None` if none is
    /// configured.
    pub guard: Option<PathBuf>,
    /// The program that diagnoses the node: `pleg`, for its command `doctor`.
    pub doctor: OsString,
    /// The static pods that are kept running; `None` unless this is `pleg run`.
    pub static_pods: Option<Arc<dyn StaticPods>>,
}

/// Why a daemon ended without being stopped.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The event loop stopped, which is a bug. The supervisor restarts this process.
    #[error(transparent)]
    Stopped(#[from] Stopped),
    /// Nothing can be written to Kubernetes at all.
    #[error(transparent)]
    Kubernetes(#[from] cluster::StartError),
    /// The thread that writes to Kubernetes ended, which is a bug.
    #[error("the thread that writes to Kubernetes has stopped")]
    Writer,
    /// Static pods cannot be run at all.
    #[error(transparent)]
    StaticPods(StaticPodsError),
    /// The metrics cannot be registered, which is a bug.
    #[error("cannot set up the metrics")]
    Metrics(#[from] prometheus::Error),
}

/// Runs until `shutdown` completes. Event streams never end by themselves, so a shutdown
/// does not wait for them, nor for calls to the runtime.
pub async fn run(
    daemon: Daemon,
    listeners: Listeners,
    shutdown: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let Daemon {
        endpoint,
        config,
        state_directory,
        guard,
        doctor,
        static_pods,
    } = daemon;
    let metrics = Arc::new(Metrics::new()?);
    let guard = guard.map(|socket| Guard::new(socket, &endpoint));
    let environment = Environment {
        endpoint: endpoint.to_string().into(),
        clock: system_clock(),
        observer: metrics.clone(),
        ids: known_ids(&endpoint, &state_directory),
        kernel: (config.kernel_hints == KernelHints::Auto).then(|| kernel(&endpoint)),
    };
    let runtime = GuardedRuntime::new(&endpoint, guard.clone(), config.max_message_size);
    let runtime = Arc::new(runtime);
    let pleg = Pleg::start(runtime.clone(), config.library(), environment);
    let agent = Agent {
        pleg,
        metrics,
        guard,
        findings: Findings::default(),
        static_pods,
    };
    let static_pods = async {
        match &agent.static_pods {
            Some(of) => of.keep(agent.pleg.clone(), runtime).await,
            None => pending().await,
        }
    };
    let diagnosis = config
        .diagnosis
        .map(|of| Diagnosis::new(of, doctor, &endpoint, &config.socket));
    let kubernetes = match config.kubernetes {
        Some(config) => {
            let figures = agent.metrics.count_kubernetes()?;
            Some(cluster::start(config, figures, system_clock())?)
        }
        None => None,
    };
    let history = match config.history {
        HistoryConfig::Off => None,
        on => {
            let figures = agent.metrics.count_history()?;
            let is_guarded = match &agent.guard {
                Some(guard) => guard.is_present().await,
                None => false,
            };
            History::start(on, endpoint.to_string(), is_guarded, figures)
        }
    };
    let reports = watch::Sender::new(None);
    let saved = SavedSet::new(&endpoint, &state_directory);

    listeners.log(&endpoint);
    supervisor::ready().await;
    let ended = tokio::select! {
        never = serve_all(listeners, &agent) => match never {},
        never = supervisor::watchdog(&agent.pleg) => match never {},
        stopped = agent.pleg.stopped() => Err(stopped.into()),
        Err(stopped) = saved.keep(agent.pleg.clone()) => Err(stopped.into()),
        never = diagnose(&agent, diagnosis.as_ref(), history.as_ref(), reports.subscribe()) => {
            match never {}
        }
        never = history::keep(history.as_ref(), &agent, reports.subscribe()) => match never {},
        never = reports::make(&agent, &reports) => match never {},
        error = static_pods => Err(RunError::StaticPods(error)),
        never = follow_guard(&agent) => match never {},
        () = report_to_kubernetes(kubernetes.as_ref(), reports.subscribe()) => Err(RunError::Writer),
        () = shutdown => Ok(()),
    };
    supervisor::stopping().await;
    let kubernetes_stops = async {
        if let Some(kubernetes) = kubernetes {
            kubernetes.stop().await;
        }
    };
    tokio::join!(kubernetes_stops, history::stop(history));
    ended
}

/// Passes each report to the thread that writes to Kubernetes. Returns only if that thread has ended.
async fn report_to_kubernetes(kubernetes: Option<&Reporter>, mut reports: Reports) {
    let Some(kubernetes) = kubernetes else {
        drop(reports);
        return pending().await;
    };
    let report = async {
        while reports.changed().await.is_ok() {
            // Without a report nothing is sent, so the condition's heartbeat is not renewed, and the
            // condition becomes stale.
            if let Some(report) = reports.borrow_and_update().clone() {
                kubernetes.report(report);
            }
        }
        pending().await
    };
    tokio::select! {
        () = kubernetes.ended() => {}
        () = report => {}
    }
}

async fn diagnose(
    agent: &Agent,
    diagnosis: Option<&Diagnosis>,
    history: Option<&History>,
    reports: Reports,
) -> Infallible {
    match diagnosis {
        Some(diagnosis) => {
            let outputs = Outputs {
                findings: &agent.findings,
                metrics: &agent.metrics,
                history,
            };
            diagnosis.run(outputs, reports).await;
        }
        None => drop(reports),
    }
    pending().await
}

async fn follow_guard(agent: &Agent) -> Infallible {
    let Some(guard) = &agent.guard else {
        return pending().await;
    };
    // On a quiet node a kubelet lists more often than our engine, so the guard may be the first to
    // notice an overdue list.
    let relist = async {
        let mut changes = guard.reason_changes();
        loop {
            changes.next().await;
            agent.pleg.request_relist();
        }
    };
    tokio::select! {
        never = guard.follow() => never,
        never = relist => never,
    }
}

async fn serve_all(listeners: Listeners, agent: &Agent) -> Infallible {
    let Listeners {
        socket,
        health,
        metrics,
    } = listeners;
    let serve_metrics = async {
        match metrics {
            Some(metrics) => serve(metrics, health_router(agent.clone()), MAX_CONNECTIONS).await,
            None => pending().await,
        }
    };
    tokio::select! {
        never = serve(socket, router(agent.clone()), MAX_CONNECTIONS) => never,
        never = serve(health, health_router(agent.clone()), MAX_CONNECTIONS) => never,
        never = serve_metrics => never,
    }
}
