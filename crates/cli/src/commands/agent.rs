//! `pleg agent`: the daemon.

use std::ffi::OsString;
use std::future::pending;
use std::path::Path;
use std::pin::pin;
use std::time::Duration;

use agent::{AgentConfig, Daemon, Listeners, state_directory};
use cri::Endpoint;
use guard_api::StatusRequest;
use tokio::sync::oneshot;

use crate::args::{Agent as Options, Global, Listen};
use crate::{Outcome, act, endpoint, signals};

/// How long to wait for the status of a guard.
const GUARD_STATUS_LIMIT: Duration = Duration::from_secs(1);

pub async fn run(global: &Global, options: Options) -> anyhow::Result<Outcome> {
    let (ready, is_ready) = oneshot::channel();
    let remedied = async {
        match is_ready.await {
            Ok((daemon, socket)) => act::apply_remedy(&daemon, socket).await,
            Err(_) => pending().await,
        }
    };
    let served = serve(async {
        let (daemon, listeners) = prepare(global, options).await?;
        let socket = listeners.socket.path().to_owned();
        // The receiver is `remedied`, which lives as long as this future.
        let _ = ready.send((daemon.clone(), socket));
        Ok((daemon, listeners))
    });
    tokio::select! {
        served = served => served,
        never = remedied => match never {},
    }
}

/// Runs a daemon once it is `ready`, until a signal ends it.
pub async fn serve(
    ready: impl Future<Output = anyhow::Result<(Daemon, Listeners)>>,
) -> anyhow::Result<Outcome> {
    let interrupted = signals::daemon_ended()?;
    let mut shutdown = pin!(async {
        let signal = interrupted.await;
        tracing::info!("stopping on {signal}");
    });
    // A runtime that does not answer yet does not delay a stop.
    let (daemon, listeners) = tokio::select! {
        ready = ready => ready?,
        () = &mut shutdown => return Ok(Outcome::Done),
    };
    agent::run(daemon, listeners, shutdown).await?;
    Ok(Outcome::Done)
}

/// The path of this program, which stays valid even if the file is replaced.
pub fn program() -> OsString {
    "/proc/self/exe".into()
}

/// The configuration in `file`, if given, with the addresses of `listen`.
pub fn configured(file: Option<&Path>, listen: Vec<Listen>) -> anyhow::Result<AgentConfig> {
    let mut config = match file {
        Some(path) => AgentConfig::read(path)?,
        None => AgentConfig::default(),
    };
    for listen in listen {
        match listen {
            Listen::Address(address) => config.listen = address,
            Listen::Socket(path) => config.socket = path,
        }
    }
    config.check()?;
    act::check(&config)?;
    Ok(config)
}

async fn prepare(global: &Global, options: Options) -> anyhow::Result<(Daemon, Listeners)> {
    let config = configured(options.config.as_deref(), options.listen)?;
    // A flag takes precedence over the file, and the file over the usual sockets.
    let named = match global.given_endpoint()? {
        Some(endpoint) => endpoint,
        None => endpoint::wait_for(config.endpoint()?).await,
    };
    // Bind first, so that an address in use is reported at once.
    let listeners = Listeners::bind(&config).await?;
    let (endpoint, guard) = match behind_guard(&named).await {
        Some(runtime) => (runtime, Some(named.path().to_owned())),
        None => {
            let guard = config.guard_socket(&named)?;
            (named, guard)
        }
    };
    let daemon = Daemon {
        endpoint,
        config,
        state_directory: state_directory(),
        guard,
        doctor: program(),
        static_pods: None,
    };
    Ok((daemon, listeners))
}

/// The runtime behind this socket, if the socket is a guard's.
async fn behind_guard(endpoint: &Endpoint) -> Option<Endpoint> {
    let guard = guard_api::Client::new(endpoint.path());
    let status = guard
        .status(StatusRequest::default(), GUARD_STATUS_LIMIT)
        .await;
    status.ok().map(|status| Endpoint::new(status.runtime))
}
