//! `pleg agent`: the daemon.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use agent::http::{Agent, metrics_router, router};
use agent::server::{LOOPBACK_CONNECTIONS, METRICS_CONNECTIONS, serve};
use agent::{AgentConfig, KernelHints, Metrics};
use anyhow::Context;
use pleg::runtime::grpc::GrpcRuntime;
use pleg::wall_time::system_clock;
use pleg::{Environment, Pleg};
use tokio::net::TcpListener;

use crate::args::{Agent as Options, Global};
use crate::kernel::kernel;
use crate::saved_set::SavedSet;
use crate::{Found, endpoint, signals};

pub async fn run(global: &Global, options: Options) -> anyhow::Result<Found> {
    let interrupted = signals::interrupted()?;
    // Event streams never end by themselves, so a stop does not wait for them; nor for a
    // runtime that has not said yet whether it is one.
    tokio::select! {
        ended = serve_all(global, options) => match ended? {},
        signal = interrupted => tracing::info!("stopping on {signal}"),
    }
    Ok(Found::Well)
}

/// Watches and answers for ever, unless it cannot.
async fn serve_all(global: &Global, options: Options) -> anyhow::Result<Infallible> {
    let mut config = match &options.config {
        Some(path) => AgentConfig::read(path)?,
        None => AgentConfig::default(),
    };
    config.listen = options.listen.unwrap_or(config.listen);
    config.check()?;
    // A flag says more than the file, the file more than a guess.
    let endpoint = match global.named_endpoint()? {
        Some(endpoint) => endpoint,
        None => endpoint::find(config.endpoint()?).await?,
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
        ids: endpoint::known_ids(&endpoint),
        kernel: (config.kernel_hints == KernelHints::Auto).then(kernel),
    };
    // A runtime that is not there yet is no reason to go: it may be starting.
    let runtime = GrpcRuntime::new(&endpoint, config.max_message_size);
    let pleg = Pleg::start(Arc::new(runtime), config.library(), environment);
    let agent = Agent { pleg, metrics };

    let address = listener.local_addr()?;
    tracing::info!("watching {endpoint}, answering on http://{address}");
    let serve_metrics = async {
        match for_metrics {
            Some(listener) => {
                let address = listener.local_addr()?;
                tracing::info!("health and metrics on http://{address}");
                Ok(serve(listener, metrics_router(agent.clone()), METRICS_CONNECTIONS).await)
            }
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        served = serve(listener, router(agent.clone()), LOOPBACK_CONNECTIONS) => Ok(served),
        ended = serve_metrics => ended,
        // Whoever supervises us starts us again.
        stopped = agent.pleg.stopped() => Err(stopped.into()),
        stopped = SavedSet::of(&endpoint).keep(agent.pleg.clone()) => Err(stopped.into()),
    }
}

async fn bind(address: SocketAddr) -> anyhow::Result<TcpListener> {
    TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on {address}"))
}
