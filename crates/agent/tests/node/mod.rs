//! A simulated runtime, and a whole daemon that watches it.

use std::path::Path;

use agent::{AgentConfig, Daemon, HistoryConfig, HistoryFolder, Listeners, RunError, run};
use cri::Endpoint;
use sim::Sim;
use sim::grpc::{serve, socket};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub struct Node {
    pub sim: Sim,
    pub place: TempDir,
    #[allow(dead_code, reason = "not every test stops the daemon")]
    pub shutdown: oneshot::Sender<()>,
    #[allow(dead_code, reason = "not every test waits for its end")]
    pub daemon: JoinHandle<Result<(), RunError>>,
}

impl Node {
    /// A node with these pods, of one container each, and a daemon with this configuration.
    #[allow(dead_code, reason = "not every test needs a folder of its own")]
    pub async fn up(pods: &[&str], config: AgentConfig) -> Self {
        let place = tempfile::tempdir().unwrap();
        Self::up_in(place, pods, config).await
    }

    /// A node with these pods in this folder, whose daemon is behind the guard on `cri.sock` in the
    /// folder, if there is one.
    pub async fn up_in(place: TempDir, pods: &[&str], config: AgentConfig) -> Self {
        let sim = Sim::new();
        for pod in pods {
            sim.run(pod, &["app"]);
        }
        let endpoint = Endpoint::new(place.path().join("runtime.sock"));
        let listener = socket::listen(endpoint.path()).await.unwrap();
        tokio::spawn(serve(sim.clone(), listener));
        let mut config = AgentConfig {
            socket: place.path().join("agent.sock"),
            listen: "127.0.0.1:0".parse().unwrap(),
            ..config
        };
        if config.history == HistoryConfig::default() {
            config.history = HistoryConfig::On(HistoryFolder {
                directory: place.path().join("history"),
                ..HistoryFolder::default()
            });
        }
        let listeners = Listeners::bind(&config).await.unwrap();
        let (shutdown, requested) = oneshot::channel();
        let daemon = Daemon {
            endpoint,
            config,
            state_directory: place.path().join("state"),
            guard: Some(place.path().join("cri.sock")).filter(|guard| guard.exists()),
            doctor: "false".into(),
            static_pods: None,
        };
        let daemon = tokio::spawn(run(daemon, listeners, async {
            let _ = requested.await;
        }));
        Self {
            sim,
            place,
            shutdown,
            daemon,
        }
    }

    #[allow(dead_code, reason = "not every test asks the daemon itself")]
    pub fn socket(&self) -> Box<Path> {
        self.place.path().join("agent.sock").into()
    }
}
