//! Builds a machine: a healthy Kubernetes node, and the changes that a test makes to it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use causes::Cause;
use causes::finding::Finding;
use cri::Rpc;
use doctor::collect::helper::Helpers;
use doctor::collect::host::{Host, collect};
use doctor::collect::task_folder::TaskFolder;
use doctor::diagnosis::diagnose;
use doctor::facts::host::{BusFacts, Ping, Reach, Service};
use doctor::facts::probes::{End, Probe};
use doctor::facts::{Fact, NodeFacts, ProbeFacts};
use pleg::model::wall_time::WallTime;
use pleg::runtime::Conditions;
use tempfile::TempDir;

use crate::files::{HEALTHY, write};
use crate::task::{Task, UPTIME};

/// The kubelet's unit, which systemd has restarted this many times.
pub fn kubelet(restarts: u32) -> Service {
    Service {
        unit: "kubelet.service".to_owned(),
        state: "running".to_owned(),
        main_pid: Some(600),
        restarts: Some(restarts),
    }
}

/// The runtime's unit, which systemd has never restarted.
fn containerd() -> Service {
    Service {
        unit: "containerd.service".to_owned(),
        main_pid: Some(500),
        ..kubelet(0)
    }
}

/// A machine, at the first sample and at the second.
pub struct Machine {
    folder: TempDir,
    later: BTreeMap<PathBuf, String>,
    later_tasks: Vec<Task>,
    pub bus: BusFacts,
    probes: ProbeFacts,
}

/// A call that was answered after this many seconds.
pub fn answered(call: Rpc, seconds: f64) -> Probe {
    Probe::new(call, End::Answered, seconds)
}

impl Machine {
    /// A healthy node.
    pub fn healthy() -> Self {
        let machine = Self {
            folder: tempfile::tempdir().expect("a folder"),
            later: BTreeMap::new(),
            later_tasks: Vec::new(),
            bus: BusFacts {
                reach: Fact::known(Reach::Connected, "bus"),
                owner: Fact::known(Some(":1.0".to_owned()), "bus"),
                ping: Fact::known(
                    Ping::Answered {
                        serial: 30_000,
                        seconds: 0.001,
                    },
                    "bus",
                ),
                systemd: Fact::known("252.39-1~deb12u1".to_owned(), "bus"),
                services: Fact::known(vec![kubelet(2), containerd()], "bus"),
                ..BusFacts::default()
            },
            probes: ProbeFacts {
                calls: vec![
                    answered(Rpc::Version, 0.001),
                    answered(Rpc::ListContainers, 0.02),
                ],
                conditions: Some(Conditions::default()),
                ..ProbeFacts::default()
            },
        };
        for (path, text) in HEALTHY {
            write(&machine.folder.path().join(path), text);
        }
        for folder in ["run", "var/lib/containerd", "sys/fs/fuse/connections"] {
            fs::create_dir_all(machine.folder.path().join(folder)).expect("a folder");
        }
        let shim = Task::new(700, 1, "containerd-shim");
        machine
            .task(&Task::new(1, 0, "systemd").aged(UPTIME))
            .task(&Task::new(400, 1, "dbus-daemon"))
            .task(&Task::new(500, 1, "containerd"))
            .task(&Task::new(600, 1, "kubelet"))
            .task(&shim)
            .task(&Task::new(710, 700, "app").in_container())
    }

    /// Adds this file.
    pub fn file(self, path: &str, text: &str) -> Self {
        write(&self.folder.path().join(path), text);
        self
    }

    /// Adds a program that is this script. Another process writes it, because a file that is open for
    /// writing cannot be executed, and a process that a test starts meanwhile would inherit the open file.
    pub fn program(self, path: &str, script: &str) -> Self {
        let machine = self.file("script", script);
        let target = machine.path(path);
        fs::create_dir_all(target.parent().expect("a parent")).expect("a folder");
        let installed = Command::new("install")
            .args(["-m", "755"])
            .args([machine.path("script"), target])
            .status();
        assert!(installed.is_ok_and(|status| status.success()));
        // An unprivileged user runs the program.
        let readable = fs::Permissions::from_mode(0o755);
        fs::set_permissions(machine.folder.path(), readable).expect("a folder");
        machine
    }

    /// Adds or replaces this file in the second sample.
    pub fn later(mut self, path: &str, text: &str) -> Self {
        self.later.insert(path.into(), text.to_owned());
        self
    }

    /// Removes this file or folder.
    pub fn without(self, path: &str) -> Self {
        let path = self.folder.path().join(path);
        let _ = fs::remove_dir_all(&path).or_else(|_| fs::remove_file(&path));
        self
    }

    pub fn task(self, task: &Task) -> Self {
        task.write(&self.folder.path().join("proc"));
        self
    }

    /// Adds or replaces this task in the second sample.
    pub fn task_later(mut self, task: Task) -> Self {
        self.later_tasks.push(task);
        self
    }

    pub fn bus(mut self, change: impl FnOnce(&mut BusFacts)) -> Self {
        change(&mut self.bus);
        self
    }

    /// Changes the facts about the runtime, such as its answers.
    pub fn asked(mut self, change: impl FnOnce(&mut ProbeFacts)) -> Self {
        change(&mut self.probes);
        self
    }

    /// Makes the runtime slow.
    pub fn suffering(mut self) -> Self {
        self.probes.calls[1].seconds = 3.2;
        self
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// Puts a pipe in the place of this file, so that a read of the file never returns.
    pub fn blocked(self, path: &str) -> Self {
        let machine = self.without(path);
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        let pipe = rustix::fs::FileType::Fifo;
        let path = machine.path(path);
        rustix::fs::mknodat(rustix::fs::CWD, path, pipe, mode, 0).expect("a pipe");
        machine
    }

    /// The facts that are collected. Between the samples, the files of the second one replace those of the
    /// first, as if a second had passed.
    pub fn facts(&self) -> NodeFacts {
        self.facts_within(Host::at("/").step)
    }

    /// The facts that are collected with this limit for each step.
    pub fn facts_within(&self, step: Duration) -> NodeFacts {
        let root = self.folder.path();
        let mut helpers = Helpers::threads(3).expect("threads");
        let host = Host {
            step,
            ..Host::at(root)
        };
        let mut host = collect(&host, &mut helpers, || {
            for (path, text) in &self.later {
                write(&root.join(path), text);
            }
            for task in &self.later_tasks {
                task.write(&root.join("proc"));
            }
            Duration::from_secs(1)
        });
        // The bus is not a file, so its facts are those that the test sets, if it sets any.
        if self.bus != BusFacts::default() {
            host.bus = self.bus.clone();
        }
        // The disk on which the test runs may be full, which is not a property of this machine.
        for root in &mut host.filesystems {
            if let Fact::Known { value, .. } = root {
                value.bytes_available = value.bytes;
                value.inodes_available = value.inodes;
            }
        }
        let mut probes = self.probes.clone();
        if let Some(socket) = probes.endpoint.strip_prefix("unix:///") {
            let folder = TaskFolder::of(&root.join(socket), &root.join("run"), &root.join("proc"));
            probes.tasks = folder.all();
        }
        NodeFacts {
            taken: WallTime::from_unix_nanos(1_700_000_000_000_000_000).expect("a time"),
            probes,
            host,
        }
    }

    /// The findings of this cause, which must have been checked.
    #[track_caller]
    pub fn findings(&self, cause: Cause) -> Vec<Finding> {
        let diagnosis = diagnose(&self.facts(), |wanted| wanted == cause);
        assert!(
            diagnosis.not_checked.is_empty(),
            "{:?}",
            diagnosis.not_checked
        );
        diagnosis.findings
    }

    /// The only finding of this cause.
    #[track_caller]
    pub fn finding(&self, cause: Cause) -> Finding {
        let mut findings = self.findings(cause);
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    }

    /// Asserts that there is no finding of this cause.
    #[track_caller]
    pub fn has_no_finding(&self, cause: Cause) {
        assert_eq!(self.findings(cause), []);
    }
}

/// Asserts that the evidence contains this text.
#[track_caller]
pub fn shows(finding: &Finding, text: &str) {
    let held = finding.evidence.iter().any(|line| line.contains(text));
    assert!(held, "{text:?} is not in {:?}", finding.evidence);
}

/// Asserts that the first advice contains this text.
#[track_caller]
pub fn advises(finding: &Finding, text: &str) {
    let first = &finding.advice[0];
    assert!(first.contains(text), "{text:?} is not in {first:?}");
}
