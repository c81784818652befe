//! A double of a Kubernetes API server, as far as pleg uses one: nodes in pages and watches of
//! them, server-side apply, JSON Patch, events; and whatever can go wrong with one.
//!
//! ```text
//!   Double (what tests say and ask) --> Server (nodes, events, what goes wrong)
//!                                          ^
//!   requests over HTTP --> answer ---------/--> write: apply and patch
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

/// How many changes a watch that is not read may miss before it is broken.
const CHANGES: usize = 256;

/// What it was asked.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The method.
    pub method: String,
    /// The path, with its query.
    pub path: String,
    /// The body's type.
    pub content_type: String,
    /// The body; null if it was no JSON.
    pub body: Value,
}

/// What it answers instead of what is right, once.
#[derive(Clone, Debug)]
pub enum Wrong {
    /// This status code.
    Status(u16),
    /// 200 and this text.
    Body(&'static str),
    /// Less than it says that it will send.
    Half,
}

/// The double; clones are the same one.
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
    asked: Vec<Asked>,
    /// For requests whose path holds this.
    wrong: VecDeque<(&'static str, Wrong)>,
    /// So long after a change watches show it.
    watches_late: Duration,
    /// What is refused always, by a part of its path, and how.
    refused: Vec<(&'static str, u16)>,
}

impl Double {
    /// It listens, and has the Node `node-1`.
    pub async fn start() -> Self {
        Self::with_nodes(vec![new_node("uid-1")]).await
    }

    /// It listens, and has these Nodes.
    pub async fn with_nodes(nodes: Vec<Value>) -> Self {
        let server = Server {
            nodes,
            ..Server::default()
        };
        let double = Self {
            server: Arc::new(Mutex::new(server)),
            changes: broadcast::channel(CHANGES).0,
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
        std::fs::write(double.kubeconfig(), kubeconfig.to_string()).expect("the folder is ours");
        let router = Router::new()
            .fallback(answer::answer)
            .with_state(double.clone());
        tokio::spawn(async move { axum::serve(listener, router).await });
        double
    }

    /// A kubeconfig that leads here; its context `nowhere` leads nowhere.
    pub fn kubeconfig(&self) -> PathBuf {
        self.directory.path().join("config")
    }

    /// All that it was asked.
    pub fn asked(&self) -> Vec<Asked> {
        self.lock().asked.clone()
    }

    /// The events that it has.
    pub fn events(&self) -> Vec<Value> {
        self.lock().events.clone()
    }

    /// Gives it other events.
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

    /// A Node is there, and so.
    pub fn set_node(&self, node: Value) {
        let mut server = self.lock();
        let name = &node["metadata"]["name"];
        let known = server.nodes.iter_mut();
        let mut known = known.filter(|known| known["metadata"]["name"] == *name);
        let what = match known.next() {
            Some(known) => {
                known.clone_from(&node);
                "MODIFIED"
            }
            None => {
                server.nodes.push(node.clone());
                "ADDED"
            }
        };
        self.publish(what, node);
    }

    /// A Node is gone.
    pub fn remove_node(&self, name: &str) {
        let mut server = self.lock();
        let is_it = |node: &Value| node["metadata"]["name"] == name;
        let gone = server.nodes.iter().position(is_it).expect("it is there");
        let node = server.nodes.remove(gone);
        self.publish("DELETED", node);
    }

    /// How many watch.
    pub fn watches(&self) -> usize {
        self.changes.receiver_count()
    }

    /// The next request whose path holds this is answered wrongly.
    pub fn go_wrong(&self, path: &'static str, wrong: Wrong) {
        self.lock().wrong.push_back((path, wrong));
    }

    /// Every request whose path holds this is refused.
    pub fn refuse(&self, path: &'static str, status: u16) {
        self.lock().refused.push((path, status));
    }

    /// Watches that begin from now on show each change late.
    pub fn watch_late(&self, late: Duration) {
        self.lock().watches_late = late;
    }

    fn publish(&self, what: &str, node: Value) {
        // There may be no watcher.
        let _ = self.changes.send(json!({"type": what, "object": node}));
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

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(60), "never: {what}");
        sleep(Duration::from_millis(10)).await;
    }
}
