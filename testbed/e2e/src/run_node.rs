//! A containerd on which `pleg run` runs static pods.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use cri::v1::ContainerState;
use serde_json::Value;
use tempfile::TempDir;
use testbed_driver::{Driver, Pod, Testbed};

use crate::{Running, command};

/// The label of everything that `pleg run` creates.
const LABEL: (&str, &str) = ("pleg.dev/owner", "pleg-run");

/// A containerd and a directory of manifests.
pub struct Node {
    /// The containerd.
    pub testbed: Testbed,
    /// Another client of the containerd than the run.
    pub driver: Driver,
    /// The directory of the manifests and of the files of the run.
    pub place: TempDir,
}

impl Node {
    /// A node without manifests.
    pub fn on(testbed: Testbed) -> Self {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("manifests")).unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        Self {
            testbed,
            driver,
            place,
        }
    }

    /// The path of a pod's manifest.
    pub fn manifest(&self, name: &str) -> PathBuf {
        self.place.path().join(format!("manifests/{name}.yaml"))
    }

    /// Writes the manifest of a pod on the host's network, with one container that runs this script.
    pub fn want(&self, name: &str, policy: &str, script: &str) {
        let script = serde_json::to_string(script).unwrap();
        let text = format!(
            "apiVersion: v1\n\
             kind: Pod\n\
             metadata: {{name: {name}}}\n\
             spec:\n  \
               hostNetwork: true\n  \
               restartPolicy: {policy}\n  \
               terminationGracePeriodSeconds: 0\n  \
               containers:\n  \
               - name: app\n    \
                 image: pleg.test/busybox:latest\n    \
                 imagePullPolicy: Never\n    \
                 command: [/bin/sh, -c, {script}]\n"
        );
        fs::write(self.manifest(name), text).unwrap();
    }

    /// Writes the manifest of a pod that runs until it is ended.
    pub fn forever(&self, name: &str) {
        self.want(name, "Always", "exec sleep 1000");
    }

    /// The command `pleg run` with these options.
    pub fn command(&self, options: &[&str]) -> Command {
        let path = |name: &str| self.place.path().join(name).display().to_string();
        let mut command = command();
        command.env("PLEG_STATE_DIR", self.place.path().join("state"));
        command.args(["-o", "json", "run", "--beside-kubelet"]);
        command.args(["-r", &self.testbed.endpoint().to_string()]);
        command.args(["--listen", "127.0.0.1:0", "--listen", &path("agent.sock")]);
        command.args(["--root-dir", &path("root"), "--pod-logs-dir", &path("logs")]);
        command.args(options);
        command
    }

    /// Starts `pleg run` on the manifests.
    pub fn run(&self) -> Running {
        let folder = self.place.path().join("manifests").display().to_string();
        Running::of(&mut self.command(&["--manifests", &folder]))
    }

    /// The pods of all runs.
    pub async fn pods(&self) -> Vec<Pod> {
        self.driver.pods_with(LABEL).await.unwrap()
    }

    /// Removes all pods, and asserts that no volume and no log of them remains.
    pub async fn down(&self) {
        let output = self.command(&["--down"]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        assert!(self.pods().await.is_empty());
        let left = |name: &str| -> Vec<_> {
            let entries = fs::read_dir(self.place.path().join(name));
            let entries = entries.into_iter().flatten();
            entries.map(|entry| entry.unwrap().path()).collect()
        };
        let left = [left("root/pods"), left("logs")].concat();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Whether a line reports this action on this pod.
pub fn is(line: &Value, action: &str, pod: &str) -> bool {
    line["action"] == action && line["pod"]["name"] == pod
}

/// Waits for a line that reports this action on this pod. Returns the lines up to it.
#[track_caller]
pub fn until(run: &Running, action: &str, pod: &str) -> Vec<Value> {
    let lines = run.until(&format!("{action} of {pod}"), |line| is(line, action, pod));
    lines.into_iter().map(|(_, line)| line).collect()
}

/// Asserts that each pod has at most one ready sandbox, and at most one running container of each name.
pub fn assert_nothing_twice(pods: &[Pod]) {
    let mut ready = BTreeMap::<&str, usize>::new();
    let mut running = BTreeMap::<(&str, &str), usize>::new();
    for pod in pods {
        *ready.entry(&pod.name).or_default() += usize::from(pod.ready);
        for container in &pod.containers {
            let runs = container.state == ContainerState::ContainerRunning;
            *running.entry((&pod.name, &container.name)).or_default() += usize::from(runs);
        }
    }
    assert!(ready.values().all(|ready| *ready <= 1), "{pods:#?}");
    assert!(running.values().all(|running| *running <= 1), "{pods:#?}");
}
