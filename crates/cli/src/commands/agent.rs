//! `pleg agent`: the daemon.

use std::ffi::OsString;
use std::path::Path;
use std::pin::pin;

use agent::{AgentConfig, Daemon, Listeners, state_directory};

use crate::args::{Agent as Options, Global, Listen};
use crate::{Found, endpoint, signals};

pub async fn run(global: &Global, options: Options) -> anyhow::Result<Found> {
    serve(prepare(global, options)).await
}

/// Runs a daemon once it is `ready`, until it is told to stop.
pub async fn serve(
    ready: impl Future<Output = anyhow::Result<(Daemon, Listeners)>>,
) -> anyhow::Result<Found> {
    let interrupted = signals::daemon_ended()?;
    let mut shutdown = pin!(async {
        let signal = interrupted.await;
        tracing::info!("stopping on {signal}");
    });
    // A runtime that has not said yet whether it is one does not hold up a stop either.
    let (daemon, listeners) = tokio::select! {
        ready = ready => ready?,
        () = &mut shutdown => return Ok(Found::Well),
    };
    agent::run(daemon, listeners, shutdown).await?;
    Ok(Found::Well)
}

/// This program, however it was started: it may have been replaced by a newer one since.
pub fn program() -> OsString {
    "/proc/self/exe".into()
}

/// The configuration of this file, if there is one, with the addresses of the flags.
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
    Ok(config)
}

async fn prepare(global: &Global, options: Options) -> anyhow::Result<(Daemon, Listeners)> {
    let config = configured(options.config.as_deref(), options.listen)?;
    // A flag says more than the file, the file more than a guess.
    let endpoint = match global.named_endpoint()? {
        Some(endpoint) => endpoint,
        None => endpoint::wait_for(config.endpoint()?).await,
    };
    // Before anything is watched: an address in use is reported at once.
    let listeners = Listeners::bind(&config).await?;
    let daemon = Daemon {
        endpoint,
        config,
        state_directory: state_directory(),
        guard: None,
        doctor: program(),
        static_pods: None,
    };
    Ok((daemon, listeners))
}
