//! Answers requests.

use std::collections::BTreeMap;
use std::convert::Infallible;

use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::time::sleep;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::BroadcastStream;

use crate::write::{apply, merge, patch};
use crate::{Double, Received, Server, Wrong};

/// The maximum size of the body of a request, in bytes.
const MAX_BODY: usize = 1 << 20;

type Parameters = BTreeMap<String, String>;

pub(crate) async fn answer(
    State(double): State<Double>,
    Query(query): Query<Parameters>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, MAX_BODY).await;
    let body = body
        .ok()
        .and_then(|body| serde_json::from_slice(&body).ok());
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type.and_then(|it| it.to_str().ok());
    let received = Received {
        method: parts.method.to_string(),
        path: parts.uri.to_string(),
        content_type: content_type.unwrap_or_default().to_owned(),
        body: body.unwrap_or_default(),
    };
    let mut server = double.lock();
    server.received.push(received.clone());
    if let Some(wrong) = server.wrong(&received.path) {
        return wrong.into_response();
    }
    let path = parts.uri.path();
    match (parts.method, path.strip_prefix("/api/v1/nodes")) {
        (Method::GET, Some("")) if query.contains_key("watch") => watch(&double, &server, &query),
        (Method::GET, Some("")) => page(&server.nodes, &query).to_string().into_response(),
        (method, Some(name)) => of_node(&double, &mut server, &method, &name[1..], &received),
        (Method::GET, None) => events(&server, &query).to_string().into_response(),
        (Method::POST, None) => {
            server.events.push(received.body.clone());
            (StatusCode::CREATED, received.body.to_string()).into_response()
        }
        // Clients change only the series of an event.
        (Method::PATCH, None) => {
            let mut events = server.events.iter_mut();
            let name = path.rsplit('/').next().unwrap_or_default();
            match events.find(|event| event["metadata"]["name"] == name) {
                Some(event) => {
                    event["series"] = received.body["series"].clone();
                    event.to_string().into_response()
                }
                None => StatusCode::NOT_FOUND.into_response(),
            }
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn of_node(
    double: &Double,
    server: &mut Server,
    method: &Method,
    name: &str,
    Received {
        body, content_type, ..
    }: &Received,
) -> Response {
    let (name, is_status) = match name.strip_suffix("/status") {
        Some(name) => (name, true),
        None => (name, false),
    };
    let mut nodes = server.nodes.iter_mut();
    let Some(node) = nodes.find(|node| node["metadata"]["name"] == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    if *method == Method::PATCH {
        match is_status {
            true if content_type == "application/strategic-merge-patch+json" => merge(node, body),
            true => apply(node, body),
            false => {
                let mut patched = node.clone();
                if !patch(&mut patched, body) {
                    return StatusCode::UNPROCESSABLE_ENTITY.into_response();
                }
                *node = patched;
            }
        }
        double.publish("MODIFIED", node.clone());
    }
    node.to_string().into_response()
}

/// One page of the Nodes. `continue` is the index at which the next page begins.
fn page(nodes: &[Value], query: &Parameters) -> Value {
    let number = |key: &str| query.get(key).and_then(|text| text.parse::<usize>().ok());
    let from = number("continue").unwrap_or_default();
    let limit = number("limit").unwrap_or(nodes.len());
    let to = nodes.len().min(from + limit);
    let mut metadata = json!({"resourceVersion": "7"});
    if to < nodes.len() {
        metadata["continue"] = to.to_string().into();
        metadata["remainingItemCount"] = (nodes.len() - to).into();
    }
    json!({"kind": "NodeList", "metadata": metadata, "items": nodes[from..to]})
}

/// The events whose regarded object the field selector selects.
fn events(server: &Server, query: &Parameters) -> Value {
    let selector = query.get("fieldSelector");
    let is_wanted = |event: &&Value| {
        let regarding = &event["regarding"];
        let text = |key: &str| regarding[key].as_str().unwrap_or_default().to_owned();
        let (kind, name) = (text("kind"), text("name"));
        let of = format!("regarding.kind={kind},regarding.name={name}");
        selector.is_none_or(|selector| *selector == of)
    };
    let items: Vec<_> = server.events.iter().filter(is_wanted).collect();
    json!({"kind": "EventList", "metadata": {}, "items": items})
}

/// Sends the changes of Nodes. A client that sends no resource version first receives the current
/// Nodes.
fn watch(double: &Double, server: &Server, query: &Parameters) -> Response {
    let selector = query.get("fieldSelector").cloned();
    let is_wanted = move |node: &Value| {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let of = format!("metadata.name={name}");
        selector.as_ref().is_none_or(|selector| *selector == of)
    };
    let known = match query.contains_key("resourceVersion") {
        true => Vec::new(),
        false => server.nodes.clone(),
    };
    let known = known
        .into_iter()
        .map(|node| json!({"type": "ADDED", "object": node}));
    let changes = BroadcastStream::new(double.changes.subscribe());
    let delay = server.watch_delay;
    let changes = changes.filter_map(Result::ok).then(move |line| async move {
        sleep(delay).await;
        line
    });
    let lines = tokio_stream::iter(known).chain(changes);
    let lines = lines.filter(move |line| is_wanted(&line["object"]));
    let lines = lines.map(|line| Ok::<_, Infallible>(Bytes::from(format!("{line}\n"))));
    Body::from_stream(lines).into_response()
}

impl IntoResponse for Wrong {
    fn into_response(self) -> Response {
        match self {
            Self::Status(code) => {
                let status_body = json!({"kind": "Status", "code": code, "message": "no"});
                let status = StatusCode::from_u16(code).expect("a status code");
                (status, status_body.to_string()).into_response()
            }
            Self::Body(text) => text.into_response(),
            Self::Half => {
                let parts = [
                    Ok(Bytes::from_static(b"{\"kind\":")),
                    Err(std::io::Error::other("cut")),
                ];
                let body = Body::from_stream(tokio_stream::iter(parts));
                ([(header::CONTENT_LENGTH, "4000")], body).into_response()
            }
        }
    }
}
