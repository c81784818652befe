//! A double of the parts of a Kubernetes API server that pleg uses: Nodes in pages, watches of Nodes,
//! server-side apply, JSON Patch, and events. It can also answer with errors.
//!
//! ```text
//!   Double (the interface for tests) --> Server (Nodes, events, errors to answer)
//!                                            ^
//!   requests over HTTP --> answer -----------/--> write: apply and patch
//! ```

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::broadcast;
use tokio::time::{Instant, sleep};

mod answer;
mod write;

/// How many changes are kept for a watch whose client does not read. Older ones are lost.
const MAX_UNREAD_CHANGES: usize = 256;

/// A request that the double received.
#[derive(Clone, Debug)]
pub struct Received {
    /// The method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The content type of the body.
    pub content_type: String,
    /// The body; null if it was not JSON.
    pub body: Value,
}

/// A wrong answer, which is sent once.
#[derive(Clone, Debug)]
pub enum Wrong {
    /// An answer with this status code.
    Status(u16),
    /// An answer with status 200 and this text.
    Body(&'static str),
    /// An answer whose body is shorter than its content length.
    Half,
}

/// The double. Clones share one server.
#[derive(Clone)]
pub struct Double {
    server: Arc<Mutex<Server>>,
    changes: broadcast::Sender<Value>,
    directory: Arc<tempfile::TempDir>,
}

#[derive(Default)]
struct Server {
    nodes: Vec<Value>,
    events: Vec<Value>,
    received: Vec<Received>,
    /// The wrong answers to the next requests, each for a path that contains the string.
    wrong: VecDeque<(&'static str, Wrong)>,
    /// How long watches delay each change.
    watch_delay: Duration,
    /// The status codes for all requests, each for paths that contain the string.
    refused: Vec<(&'static str, u16)>,
}

impl Double {
    /// Starts a double with the Node `node-1`.
    pub async fn start() -> Self {
        Self::with_nodes(vec![new_node("uid-1")]).await
    }

    /// Starts a double with these Nodes.
    pub async fn with_nodes(nodes: Vec<Value>) -> Self {
        let server = Server {
            nodes,
            ..Server::default()
        };
        let double = Self {
            server: Arc::new(Mutex::new(server)),
            changes: broadcast::channel(MAX_UNREAD_CHANGES).0,
            directory: Arc::new(tempfile::tempdir().expect("a temporary directory")),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let kubeconfig = json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "there",
            "clusters": [
                {"name": "there", "cluster": {"server": format!("http://{address}")}},
                {"name": "nowhere", "cluster": {"server": "http://127.0.0.1:1"}},
            ],
            "contexts": [
                {"name": "there", "context": {"cluster": "there", "user": "u"}},
                {"name": "nowhere", "context": {"cluster": "nowhere", "user": "u"}},
            ],
            "users": [{"name": "u", "user": {"token": "secret"}}],
        });
        std::fs::write(double.kubeconfig(), kubeconfig.to_string())
            .expect("the temporary directory is writable");
        let router = Router::new()
            .fallback(answer::answer)
            .with_state(double.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        double
    }

    /// A kubeconfig for this server. Nothing listens at the server of its context `nowhere`.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    /// All requests that the double received.
    pub fn requests(&self) -> Vec<Received> {
        self.lock().received.clone()
    }

    /// All events.
    pub fn events(&self) -> Vec<Value> {
        self.lock().events.clone()
    }

    /// Replaces all events.
    pub fn set_events(&self, events: Vec<Value>) {
        self.lock().events = events;
    }

    /// The first Node.
    pub fn node(&self) -> Value {
        self.lock().nodes[0].clone()
    }

    /// A condition of the first Node.
    pub fn condition(&self, kind: &str) -> Option<Value> {
        let node = self.node();
        let conditions = node["status"]["conditions"].as_array()?;
        conditions.iter().find(|it| it["type"] == kind).cloned()
    }

    /// Adds or replaces a Node.
    pub fn set_node(&self, node: Value) {
        let mut server = self.lock();
        let name = &node["metadata"]["name"];
        let mut known = server.nodes.iter_mut();
        let kind = match known.find(|known| known["metadata"]["name"] == *name) {
            Some(known) => {
                known.clone_from(&node);
                "MODIFIED"
            }
            None => {
                server.nodes.push(node.clone());
                "ADDED"
            }
        };
        self.publish(kind, node);
    }

    /// Removes a Node.
    pub fn remove_node(&self, name: &str) {
        let mut server = self.lock();
        let is_it = |node: &Value| node["metadata"]["name"] == name;
        let index = server.nodes.iter().position(is_it);
        let node = server.nodes.remove(index.expect("the Node exists"));
        self.publish("DELETED", node);
    }

    /// The number of open watches.
    pub fn watches(&self) -> usize {
        self.changes.receiver_count()
    }

    /// Answers the next request whose path contains this with a wrong answer.
    pub fn fail_next(&self, path: &'static str, wrong: Wrong) {
        self.lock().wrong.push_back((path, wrong));
    }

    /// Refuses every request whose path contains this, with this status code.
    pub fn refuse(&self, path: &'static str, status: u16) {
        self.lock().refused.push((path, status));
    }

    /// Delays each change in watches that begin from now on.
    pub fn delay_watches(&self, delay: Duration) {
        self.lock().watch_delay = delay;
    }

    fn publish(&self, kind: &str, node: Value) {
        // There may be no open watch.
        let _ = self.changes.send(json!({"type": kind, "object": node}));
    }

    fn lock(&self) -> MutexGuard<'_, Server> {
        self.server.lock().expect("the mutex is not poisoned")
    }
}

impl Server {
    fn wrong(&mut self, path: &str) -> Option<Wrong> {
        let mut refused = self.refused.iter();
        if let Some((_, status)) = refused.find(|(part, _)| path.contains(part)) {
            return Some(Wrong::Status(*status));
        }
        let mut wrong = self.wrong.iter();
        let index = wrong.position(|(part, _)| path.contains(part))?;
        self.wrong.remove(index).map(|(_, wrong)| wrong)
    }
}

/// The Node `node-1`, with a condition and a taint of another writer.
pub fn new_node(uid: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Node",
        "metadata": {"name": "node-1", "uid": uid, "annotations": {"a": "b"}},
        "spec": {"taints": [
            {"key": "other", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"},
        ]},
        "status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    })
}

/// Waits until a condition is met. Panics with its name after a minute.
pub async fn until(name: &str, mut is_met: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_met() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {name}");
        sleep(Duration::from_millis(10)).await;
    }
}
