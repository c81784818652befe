//! What the agent serves over HTTP.
//!
//! Two routers: everything, for the unix socket, and health and metrics alone, for TCP. `/livez` reports
//! whether *this agent* works, so it is 200 even while the runtime fails: a failing runtime must not get
//! its observer killed.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Extension, RawQuery, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use bytes::Bytes;
use futures_util::stream;
use pleg::out::health::HealthState;
use pleg::out::status_report::StatusReport;
use serde::Serialize;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep_until};

use crate::agent::Agent;
use crate::listeners::{Endless, MAX_CONNECTIONS};
use crate::records::Records;
use crate::shared_answer::{Obtained, SharedAnswer};

/// How many clients may read `/v1/events` at once; the other connections are for everything else.
const MAX_EVENT_STREAMS: usize = MAX_CONNECTIONS / 2;

/// The shortest time between two relists that clients request. Lists are the most expensive calls; a
/// kubelet makes them just as often.
const RELIST_PAUSE: Duration = Duration::from_secs(1);

/// When a client last requested a relist.
type LastRelist = Arc<Mutex<Option<Instant>>>;

/// Health and metrics, which any client may read.
pub fn health_router(agent: Agent) -> Router {
    Router::new()
        .route("/v1/node", get(node))
        .route("/livez", get(livez))
        .route("/healthz", get(healthz))
        .route("/readyz", get(readyz))
        .route("/metrics", get(metrics))
        .route("/metrics/kubelet", get(kubelet_metrics))
        .with_state(agent)
}

/// All routes, for the unix socket.
pub fn router(agent: Agent) -> Router {
    let v1 = Router::new()
        .route("/v1/status", get(status))
        .route("/v1/pods", get(pods))
        .route("/v1/events", get(events))
        .route("/v1/relist", post(relist))
        .layer(Extension(Arc::new(Semaphore::new(MAX_EVENT_STREAMS))))
        .layer(Extension(SharedAnswer::default()))
        .layer(Extension(LastRelist::default()))
        .with_state(agent.clone());
    health_router(agent).merge(v1)
}

type Answer = Result<Response, (StatusCode, String)>;

async fn report(agent: &Agent) -> Result<StatusReport, (StatusCode, String)> {
    agent
        .report()
        .await
        .map_err(|no| unavailable(&no.to_string()))
}

/// The answer 503 with this reason, which is escaped because it may contain text from a runtime.
fn unavailable(why: &str) -> (StatusCode, String) {
    let why = pleg_text::escape::sentence(why);
    (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n"))
}

async fn livez(State(agent): State<Agent>) -> Answer {
    let own = agent.own_report().await;
    own.map_err(|no| unavailable(&no.to_string()))?;
    Ok("ok\n".into_response())
}

async fn healthz(State(agent): State<Agent>, RawQuery(query): RawQuery) -> Answer {
    let StatusReport {
        health, finding, ..
    } = report(&agent).await?;
    let verbose = query.is_some_and(|query| {
        let mut keys = query.split('&').map(|pair| pair.split('=').next());
        keys.any(|key| key == Some("verbose"))
    });
    match health.state {
        HealthState::Starting | HealthState::Unhealthy => Err(unavailable(&health.message)),
        state if verbose => {
            let found = finding.map(|found| format!("; {}: {}", found.cause, found.sentence));
            let message = health.message + &found.unwrap_or_default();
            let message = pleg_text::escape::sentence(&message);
            Ok(format!("{state}: {message}\n").into_response())
        }
        HealthState::Healthy | HealthState::Degraded => Ok("ok\n".into_response()),
    }
}

async fn readyz(State(agent): State<Agent>) -> Answer {
    let report = report(&agent).await?;
    if report.relist.count == 0 {
        return Err(unavailable(&report.health.message));
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
    Ok(json(json_text(&report(&agent).await?)))
}

async fn pods(State(agent): State<Agent>, Extension(shared): Extension<SharedAnswer>) -> Answer {
    let text = match shared.ask().await {
        Obtained::Shared(text) => text,
        Obtained::Turn(turn) => {
            // After this process was paused, the cache is outdated until the event loop has run again,
            // so wait for that.
            report(&agent).await?;
            // For thousands of pods, making the answer takes longer than the event loop may be blocked.
            let made = turn.make(move || json_text(&agent.pods())).await;
            made.map_err(|error| (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?
        }
    };
    Ok(json(text))
}

/// Requests a relist that begins after this request.
async fn relist(
    State(agent): State<Agent>,
    Extension(last): Extension<LastRelist>,
) -> &'static str {
    let mut last = last.lock().await;
    if let Some(last) = *last {
        sleep_until(last + RELIST_PAUSE).await;
    }
    *last = Some(Instant::now());
    agent.pleg.request_relist();
    "ok\n"
}

/// The Ready condition of a node whose pods this process keeps running.
async fn node(State(agent): State<Agent>) -> Answer {
    let Some(of) = &agent.static_pods else {
        let why = "this process runs no pods: /v1/node is served by `pleg run`\n";
        return Err((StatusCode::NOT_FOUND, why.to_owned()));
    };
    let ready = of.ready_condition();
    let ready = ready.ok_or_else(|| unavailable("the runtime was not looked at yet"))?;
    Ok(json(pleg_text::escape::json(ready)))
}

fn json(text: impl IntoResponse) -> Response {
    let headers = [(header::CONTENT_TYPE, "application/json")];
    (headers, text).into_response()
}

/// One JSON object a line, for as long as the client reads.
async fn events(
    State(agent): State<Agent>,
    Extension(streams): Extension<Arc<Semaphore>>,
) -> Answer {
    let place = streams.try_acquire_owned().map_err(|_| {
        unavailable(&format!(
            "{MAX_EVENT_STREAMS} event streams are open already"
        ))
    })?;
    let records = Records::subscribe(agent).await;
    let records = records.map_err(|stopped| unavailable(&stopped.to_string()))?;
    // The next record is made only after the previous one was taken, so nothing accumulates here.
    let lines = stream::unfold((records, place), |(mut records, place)| async {
        let record = records.next().await?;
        Some((Ok::<_, Infallible>(json_line(&record)), (records, place)))
    });
    let headers = [(header::CONTENT_TYPE, "application/x-ndjson")];
    Ok((headers, Extension(Endless), Body::from_stream(lines)).into_response())
}

fn json_line(record: &impl Serialize) -> Bytes {
    let mut line = json_text(record);
    line.push('\n');
    line.into()
}

/// JSON in which text is escaped, so that it is safe on a terminal. A JSON parser restores the exact
/// text.
fn json_text(value: &impl Serialize) -> String {
    let text = serde_json::to_string(value).expect("a report has only text keys");
    pleg_text::escape::json(text)
}
