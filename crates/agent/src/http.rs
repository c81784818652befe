//! What the agent answers over HTTP.
//!
//! Two routers: everything, for loopback, and health and metrics alone, for Prometheus.
//! Health says whether *we* are well, so `/livez` is 200 while the runtime is sick: a sick
//! runtime must not get its observer killed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::middleware;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bytes::Bytes;
use futures_util::stream;
use pleg::Pleg;
use pleg::health::HealthState;
use pleg::status_report::StatusReport;
use serde::Serialize;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use crate::Metrics;
use crate::host::loopback_only;
use crate::server::{Endless, LOOPBACK_CONNECTIONS};

/// How many may read `/v1/events` at once; the other connections are for everything else.
const EVENT_STREAMS: usize = LOOPBACK_CONNECTIONS / 2;

/// What the answers are made from.
#[derive(Clone)]
pub struct Agent {
    /// The generator.
    pub pleg: Pleg,
    /// The figures.
    pub metrics: Arc<Metrics>,
}

/// Health and metrics: what may be served to the network.
pub fn metrics_router(agent: Agent) -> Router {
    Router::new()
        .route("/livez", get(livez))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/metrics/kubelet", get(kubelet_metrics))
        .with_state(agent)
}

/// Everything: for loopback.
pub fn router(agent: Agent) -> Router {
    let v1 = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/pods", get(pods))
        .route("/v1/events", get(events))
        .route_layer(middleware::from_fn(loopback_only))
        .layer(Extension(Arc::new(Semaphore::new(EVENT_STREAMS))))
        .with_state(agent.clone());
    metrics_router(agent).merge(v1)
}

type Answer = Result<Response, (StatusCode, String)>;

/// The report, unless our own loop does not turn.
async fn report(agent: &Agent) -> Result<StatusReport, (StatusCode, String)> {
    let unavailable = |why: &str| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
    match timeout(Duration::from_secs(1), agent.pleg.status()).await {
        Ok(Ok(report)) => Ok(report),
        Ok(Err(stopped)) => Err(unavailable(&stopped.to_string())),
        Err(_) => Err(unavailable("the event loop does not turn")),
    }
}

async fn livez(State(agent): State<Agent>) -> Answer {
    report(&agent).await?;
    Ok("ok\n".into_response())
}

async fn healthz(State(agent): State<Agent>, RawQuery(query): RawQuery) -> Answer {
    let health = report(&agent).await?.health;
    let verbose = query.is_some_and(|query| {
        let mut keys = query.split('&').map(|pair| pair.split('=').next());
        keys.any(|key| key == Some("verbose"))
    });
    match health.state {
        HealthState::Starting | HealthState::Unhealthy => Err((
            StatusCode::SERVICE_UNAVAILABLE,
            format!("{}\n", health.message),
        )),
        state if verbose => Ok(format!("{state}: {}\n", health.message).into_response()),
        HealthState::Healthy | HealthState::Degraded => Ok("ok\n".into_response()),
    }
}

async fn readyz(State(agent): State<Agent>) -> Answer {
    let report = report(&agent).await?;
    if report.relist.count == 0 {
        let why = format!("{}\n", report.health.message);
        return Err((StatusCode::SERVICE_UNAVAILABLE, why));
    }
    Ok("ok\n".into_response())
}

async fn metrics(State(agent): State<Agent>) -> Answer {
    let now = report(&agent).await?;
    exposition(agent.metrics.own_text(&now))
}

async fn kubelet_metrics(State(agent): State<Agent>) -> Answer {
    exposition(agent.metrics.kubelet_text())
}

fn exposition(text: prometheus::Result<String>) -> Answer {
    let text = text.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response())
}

async fn status(State(agent): State<Agent>) -> Answer {
    Ok(axum::Json(report(&agent).await?).into_response())
}

async fn pods(State(agent): State<Agent>) -> Response {
    let entries = agent.pleg.cache().all();
    let pods: Vec<_> = entries.iter().map(|entry| &*entry.status).collect();
    axum::Json(pods).into_response()
}

/// One JSON object a line, for as long as the client reads.
async fn events(
    State(agent): State<Agent>,
    Extension(streams): Extension<Arc<Semaphore>>,
) -> Answer {
    let unavailable = |why: String| (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"));
    let place = streams
        .try_acquire_owned()
        .map_err(|_| unavailable(format!("{EVENT_STREAMS} event streams are open already")))?;
    let subscription = agent.pleg.subscribe().await;
    let subscription = subscription.map_err(|stopped| unavailable(stopped.to_string()))?;
    // The next record is made when the last one was taken: nothing piles up here.
    let lines = stream::unfold((subscription, place), |(mut subscription, place)| async {
        let record = subscription.next().await?;
        Some((
            Ok::<_, Infallible>(json_line(&record)),
            (subscription, place),
        ))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Extension(Endless), Body::from_stream(lines)).into_response())
}

fn json_line(record: &impl Serialize) -> Bytes {
    let mut line = serde_json::to_vec(record).expect("a record has only text keys");
    line.push(b'\n');
    line.into()
}
