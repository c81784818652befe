//! A runtime on a unix socket that answers from a simulated world.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cri::ApiVersion;
use sim::Sim;
use sim::grpc::serve_as;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::runtime::{Builder, Runtime};

/// A runtime that can be stopped and started again, with its world.
pub struct FakeRuntime {
    pub sim: Sim,
    place: TempDir,
    server: Option<Runtime>,
}

impl FakeRuntime {
    /// A runtime with these pods, each with these running containers.
    pub fn with_pods(pods: &[(&str, &[&str])]) -> Self {
        let mut runtime = Self::nowhere();
        for (pod, containers) in pods {
            runtime.sim.run(pod, containers);
        }
        runtime.come_back();
        runtime
    }

    /// A runtime that is not started yet.
    pub fn nowhere() -> Self {
        Self {
            sim: Sim::new(),
            place: tempfile::tempdir().unwrap(),
            server: None,
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.place.path().join("runtime.sock")
    }

    pub fn path(&self) -> String {
        self.socket().display().to_string()
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.path())
    }

    pub fn come_back(&mut self) {
        self.come_back_as(ApiVersion::V1);
    }

    pub fn come_back_as(&mut self, api: ApiVersion) {
        let sim = self.sim.clone();
        self.server = Some(serve_on(&self.socket(), async move |listener| {
            serve_as(sim, listener, api).await.unwrap();
        }));
    }

    /// Only root may use its socket, in a folder that all users may list.
    pub fn for_root_alone(self) -> Self {
        let mode = |path: &Path, mode| {
            std::fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
        };
        mode(self.place.path(), 0o755);
        mode(&self.socket(), 0o600);
        self
    }

    /// Ends the server with its connections; the file of the socket remains.
    pub fn go_away(&mut self) {
        if let Some(server) = self.server.take() {
            server.shutdown_background();
        }
    }
}

impl Drop for FakeRuntime {
    fn drop(&mut self) {
        self.go_away();
    }
}

/// Runs a server on `socket` in threads of its own. When these end, its connections end.
pub fn serve_on<F>(socket: &Path, server: impl FnOnce(UnixListener) -> F) -> Runtime
where
    F: Future<Output = ()> + Send + 'static,
{
    // Removes what an earlier server may have left behind.
    let _ = std::fs::remove_file(socket);
    let threads = Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let listener = {
        let _within = threads.enter();
        UnixListener::bind(socket).unwrap()
    };
    threads.spawn(server(listener));
    threads
}
