//! `pleg agent`: the daemon.

use std::net::SocketAddr;
use std::sync::Arc;

use agent::http::{Agent, metrics_router, router};
use agent::{AgentConfig, Metrics};
use anyhow::Context;
use axum::Router;
use pleg::runtime::grpc::GrpcRuntime;
use pleg::wall_time::system_clock;
use pleg::{Environment, Pleg};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::args::{Agent as Options, Global};
use crate::{Found, endpoint};

pub async fn run(global: &Global, options: Options) -> anyhow::Result<Found> {
    let mut config = match &options.config {
        Some(path) => AgentConfig::read(path)?,
        None => AgentConfig::default(),
    };
    config.listen = options.listen.unwrap_or(config.listen);
    config.check()?;
    // A flag says more than the file, the file more than a guess.
    let named = global
        .runtime_endpoint
        .as_deref()
        .filter(|text| !text.is_empty());
    let endpoint = match (named, config.endpoint()?) {
        (None, Some(endpoint)) => endpoint,
        (named, _) => endpoint::find(named).await?,
    };
    // Both sockets before anything else: an address in use is said at once.
    let listener = bind(config.listen).await?;
    let for_metrics = match config.metrics_listen {
        Some(address) => Some(bind(address).await?),
        None => None,
    };

    let metrics = Arc::new(Metrics::new()?);
    let environment = Environment {
        endpoint: endpoint.to_string().into(),
        clock: system_clock(),
        observer: metrics.clone(),
    };
    // A runtime that is not there yet is no reason to go: it may be starting.
    let runtime = GrpcRuntime::new(&endpoint, config.max_message_size);
    let pleg = Pleg::start(Arc::new(runtime), config.library(), environment);
    let agent = Agent { pleg, metrics };

    tracing::info!("watching {endpoint}, answering on http://{}", config.listen);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let serve_metrics = async {
        match for_metrics {
            Some(listener) => serve(listener, metrics_router(agent.clone())).await,
            None => std::future::pending().await,
        }
    };
    // Event streams never end by themselves, so a stop does not wait for them.
    tokio::select! {
        ended = serve(listener, router(agent.clone())) => ended?,
        ended = serve_metrics => ended?,
        _ = terminate.recv() => tracing::info!("stopping on SIGTERM"),
        _ = interrupt.recv() => tracing::info!("stopping on SIGINT"),
    }
    Ok(Found::Well)
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
}

async fn serve(listener: TcpListener, router: Router) -> anyhow::Result<()> {
    axum::serve(listener, router)
        .await
        .context("cannot serve HTTP")
}
