//! A node for `pleg run`: a simulated runtime, a folder, and the lines of a run.

use std::fs;
use std::path::{Path, PathBuf};

use pleg::model::listed::ContainerState;
use pleg::runtime::Rpc;
use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    Ended, FakeRuntime, Pleg, Running, TEST_LIMIT, assert_keys, assert_time, eventually,
};

/// The calls that change a pod.
pub(super) const CHANGES: [Rpc; 7] = [
    Rpc::RunPodSandbox,
    Rpc::StopPodSandbox,
    Rpc::RemovePodSandbox,
    Rpc::CreateContainer,
    Rpc::StartContainer,
    Rpc::StopContainer,
    Rpc::RemoveContainer,
];

/// A manifest of a pod with one container, and with `more` lines in its spec.
pub(super) fn pod(name: &str, more: &str) -> String {
    format!(
        "apiVersion: v1\n\
         kind: Pod\n\
         metadata:\n  name: {name}\n\
         spec:\n{more}  terminationGracePeriodSeconds: 2\n  \
           containers:\n  - name: app\n    image: example.test/app:1\n"
    )
}

pub(super) fn job(name: &str) -> String {
    pod(name, "  restartPolicy: Never\n")
}

/// A simulated runtime, with a folder for all files of a host.
pub(super) struct Node {
    pub(super) runtime: FakeRuntime,
    pub(super) folder: TempDir,
}

impl Node {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("manifests")).unwrap();
        fs::write(folder.path().join("agent.yaml"), "relistPeriod: 100ms\n").unwrap();
        let runtime = FakeRuntime::with_pods(&[]);
        Self { runtime, folder }
    }

    pub(super) fn with(file: &str, manifest: &str) -> Self {
        let node = Self::new();
        node.write(file, manifest);
        node
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(super) fn manifest(&self, file: &str) -> PathBuf {
        self.path("manifests").join(file)
    }

    pub(super) fn write(&self, file: &str, manifest: &str) {
        fs::write(self.manifest(file), manifest).unwrap();
    }

    pub(super) fn remove(&self, file: &str) {
        fs::remove_file(self.manifest(file)).unwrap();
    }

    pub(super) fn socket(&self, owner: &str) -> String {
        self.path(&format!("agent-{owner}.sock"))
            .display()
            .to_string()
    }

    /// `pleg run` for this owner, with all files in the folder.
    pub(super) fn command_of(&self, owner: &str, more: &[&str]) -> Pleg {
        let text = |name: &str| self.path(name).display().to_string();
        let (config, root, logs) = (text("agent.yaml"), text("root"), text("logs/pods"));
        let (socket, endpoint) = (self.socket(owner), self.runtime.endpoint());
        let args = [
            &["-v", "run", "-r", &endpoint, "--config", &config][..],
            &["--root-dir", &root, "--pod-logs-dir", &logs],
            &["--listen", &socket, "--listen", "127.0.0.1:0"],
            &["--owner", owner, "--node-name", "node-1"],
            more,
        ];
        Pleg::new(&args.concat()).env("PLEG_STATE_DIR", &text("state"))
    }

    pub(super) fn command(&self, more: &[&str]) -> Pleg {
        let manifests = self.path("manifests").display().to_string();
        // Another test listens on the kubelet's port.
        let usual = ["--manifests", &manifests, "--beside-kubelet"];
        self.command_of("test", &[&usual, more].concat())
    }

    pub(super) fn run(&self) -> Run {
        self.run_with(&[])
    }

    pub(super) fn run_with(&self, more: &[&str]) -> Run {
        Run(self.command(&[&["-o", "json"], more].concat()).start())
    }

    pub(super) fn down(&self) -> Ended {
        let down = ["--down", "--beside-kubelet", "-o", "json"];
        self.command_of("test", &down).run()
    }

    /// The number of calls of each kind that changes a pod.
    pub(super) fn changes(&self) -> [usize; CHANGES.len()] {
        CHANGES.map(|call| self.runtime.sim.calls_made(call))
    }

    pub(super) fn state(&self, pod: &str) -> Option<ContainerState> {
        let mut world = self.runtime.sim.world();
        let pod = world.pods.get_mut(pod)?;
        Some(pod.container("app")?.state)
    }

    #[track_caller]
    pub(super) fn wait_running(&self, pod: &str) {
        eventually(&format!("{pod} runs"), || {
            (self.state(pod) == Some(ContainerState::Running)).then_some(())
        });
    }

    /// Ends the running container of a pod.
    #[track_caller]
    pub(super) fn exit(&self, pod: &str, code: i32) {
        self.wait_running(pod);
        self.runtime.sim.exit(pod, "app", code);
    }

    pub(super) fn pods(&self) -> Vec<String> {
        self.runtime.sim.world().pods.keys().cloned().collect()
    }

    /// Waits for a few more relists.
    #[track_caller]
    pub(super) fn look_again(&self) {
        let lists = || self.runtime.sim.calls_made(Rpc::ListContainers);
        let before = lists();
        eventually("there are more looks", || {
            (lists() > before + 5).then_some(())
        });
    }
}

/// A run that prints its decisions in JSON.
pub(super) struct Run(pub(super) Running);

impl Run {
    /// The next line that matches; each line until then has the documented shape.
    #[track_caller]
    pub(super) fn line(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        self.0.record(what, |line| {
            assert_line(line);
            wanted(line)
        })
    }

    #[track_caller]
    pub(super) fn action(&mut self, action: &str) -> Value {
        self.line(action, |line| line["action"] == action)
    }

    /// The next line about the pod as a whole.
    #[track_caller]
    pub(super) fn pod(&mut self, action: &str) -> Value {
        let wanted = |line: &Value| line["kind"] == "pod" && line["action"] == action;
        self.line(action, wanted)
    }

    /// The TCP address of the run.
    #[track_caller]
    pub(super) fn address(&mut self) -> String {
        eventually("it reports where it serves", || {
            let log = self.0.log();
            let after = log.split("serving health and metrics on http://").nth(1)?;
            let (address, _) = after.split_once('\n')?;
            Some(address.to_owned())
        })
    }

    #[track_caller]
    pub(super) fn end(self, signal: Signal) -> Ended {
        self.0.signal(signal);
        self.0.end(TEST_LIMIT)
    }
}

#[track_caller]
pub(super) fn assert_line(line: &Value) {
    assert_keys(line, &["kind", "time", "pod", "container", "action", "why"]);
    assert_time(&line["time"]);
    let kinds = ["step", "wait", "probe", "pod", "manifest"];
    assert!(kinds.contains(&line["kind"].as_str().unwrap()), "{line}");
    if !line["pod"].is_null() {
        assert_keys(&line["pod"], &["uid", "namespace", "name"]);
    }
    assert!(line["container"].is_null() || line["container"].is_string());
    assert!(!line["action"].as_str().unwrap().is_empty());
    assert!(!line["why"].as_str().unwrap().is_empty());
}

pub(super) fn why(line: &Value) -> &str {
    line["why"].as_str().unwrap()
}

pub(super) fn names(folder: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}
