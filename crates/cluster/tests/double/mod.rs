//! A double of an API server: one Node, events, and whatever goes wrong.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::collections::VecDeque;
use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, sleep};

/// What it was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    pub method: String,
    pub path: String,
    pub content_type: String,
    pub body: Value,
}

/// What it answers instead of what is right, once.
pub enum Wrong {
    Status(u16),
    Body(&'static str),
    /// It says that more comes than does.
    Half,
}

#[derive(Clone)]
pub struct Double {
    state: Arc<Mutex<Server>>,
    node: watch::Sender<Value>,
    directory: Arc<tempfile::TempDir>,
}

#[derive(Default)]
struct Server {
    asked: Vec<Asked>,
    events: Vec<Value>,
    /// For requests whose path holds this.
    wrong: VecDeque<(&'static str, Wrong)>,
    /// What is refused always, by a part of its path, and how.
    refused: Vec<(&'static str, u16)>,
}

impl Double {
    /// It listens, and has a Node.
    pub async fn start() -> Self {
        let double = Self {
            state: Arc::default(),
            node: watch::Sender::new(new_node("uid-1")),
            directory: Arc::new(tempfile::tempdir().unwrap()),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": format!("http://{address}")}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        });
        std::fs::write(double.kubeconfig(), kubeconfig.to_string()).unwrap();
        let router = Router::new().fallback(answer).with_state(double.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        double
    }

    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.state.lock().unwrap().asked.clone()
    }

    pub fn events(&self) -> Vec<Value> {
        self.state.lock().unwrap().events.clone()
    }

    pub fn node(&self) -> Value {
        self.node.borrow().clone()
    }

    /// The Node is made anew, or changed.
    pub fn set_node(&self, node: Value) {
        self.node.send_replace(node);
    }

    pub fn go_wrong(&self, path: &'static str, wrong: Wrong) {
        self.state.lock().unwrap().wrong.push_back((path, wrong));
    }

    pub fn refuse(&self, path: &'static str, status: u16) {
        self.state.lock().unwrap().refused.push((path, status));
    }

    pub fn condition(&self, kind: &str) -> Option<Value> {
        let node = self.node();
        let conditions = node["status"]["conditions"].as_array()?;
        conditions.iter().find(|it| it["type"] == kind).cloned()
    }

    fn wrong(&self, path: &str) -> Option<Wrong> {
        let mut state = self.state.lock().unwrap();
        if let Some((_, status)) = state.refused.iter().find(|(part, _)| path.contains(part)) {
            return Some(Wrong::Status(*status));
        }
        let index = state
            .wrong
            .iter()
            .position(|(part, _)| path.contains(part))?;
        state.wrong.remove(index).map(|(_, wrong)| wrong)
    }
}

/// A Node with a condition and a taint of somebody else.
pub fn new_node(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "uid": uid, "annotations": {"a": "b"}},
        "spec": {"taints": [{"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    })
}

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}

async fn answer(State(double): State<Double>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
    let body: Value = serde_json::from_slice(&body).unwrap_or_default();
    let path = parts.uri.to_string();
    let content_type = parts.headers.get(header::CONTENT_TYPE);
    let content_type = content_type
        .map_or("", |it| it.to_str().unwrap())
        .to_owned();
    double.state.lock().unwrap().asked.push(Asked {
        method: parts.method.to_string(),
        path: path.clone(),
        content_type,
        body: body.clone(),
    });
    match double.wrong(&path) {
        Some(Wrong::Status(status)) => {
            let told = json!({"kind": "Status", "code": status, "message": "no"});
            return (StatusCode::from_u16(status).unwrap(), told.to_string()).into_response();
        }
        Some(Wrong::Body(text)) => return text.into_response(),
        Some(Wrong::Half) => {
            return (
                [(header::CONTENT_LENGTH, "4000")],
                Body::from_stream(half()),
            )
                .into_response();
        }
        None => {}
    }
    let status = parts.uri.path().ends_with("/status");
    match (parts.method, parts.uri.path()) {
        (Method::GET, "/api/v1/nodes") => watched(double).into_response(),
        (Method::PATCH, _) if status => {
            double.node.send_modify(|node| apply(node, &body));
            double.node().to_string().into_response()
        }
        (Method::PATCH, _) => {
            let mut node = double.node();
            match patch(&mut node, &body) {
                true => {
                    double.set_node(node.clone());
                    node.to_string().into_response()
                }
                false => StatusCode::UNPROCESSABLE_ENTITY.into_response(),
            }
        }
        (Method::POST, _) => {
            double.state.lock().unwrap().events.push(body.clone());
            (StatusCode::CREATED, body.to_string()).into_response()
        }
        _ => StatusCode::NOT_FOUND.into_response(),
    }
}

fn half() -> impl tokio_stream::Stream<Item = Result<Bytes, std::io::Error>> {
    let parts = [
        Ok(Bytes::from_static(b"{\"kind\":")),
        Err(std::io::Error::other("cut")),
    ];
    tokio_stream::iter(parts)
}

/// The Node as it is, and each time that it changes.
fn watched(double: Double) -> Body {
    let changes = tokio_stream::wrappers::WatchStream::new(double.node.subscribe());
    let mut is_first = true;
    let lines = tokio_stream::StreamExt::map(changes, move |node| {
        let kind = if std::mem::take(&mut is_first) {
            "ADDED"
        } else {
            "MODIFIED"
        };
        let line = format!("{}\n", json!({"type": kind, "object": node}));
        Ok::<_, Infallible>(Bytes::from(line))
    });
    Body::from_stream(lines)
}

/// Server-side apply of one manager's conditions, which are the only ones with a heartbeat here.
fn apply(node: &mut Value, body: &Value) {
    let conditions = node["status"]["conditions"].as_array_mut().unwrap();
    conditions.retain(|it| it.get("lastHeartbeatTime").is_none());
    let applied = body["status"]["conditions"].as_array().unwrap();
    conditions.extend(applied.iter().cloned());
}

/// JSON Patch, as far as it is used; says whether its tests passed.
fn patch(node: &mut Value, operations: &Value) -> bool {
    for operation in operations.as_array().unwrap() {
        let pointer = operation["path"].as_str().unwrap();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        let key = key.replace("~1", "/");
        let parent = node.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        let value = operation.get("value").cloned();
        match operation["op"].as_str().unwrap() {
            "test" if parent.get(&key).unwrap_or(&Value::Null) == value.as_ref().unwrap() => {}
            "test" => return false,
            "add" | "replace" => {
                parent.insert(key, value.unwrap());
            }
            "remove" => {
                parent.remove(&key).unwrap();
            }
            other => panic!("{other}"),
        }
    }
    true
}
