//! Builds a machine: a healthy Kubernetes node, and the changes that a test makes to it.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
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

/// For how many seconds the machine has been up.
pub const UPTIME: u64 = 1_000_000;
/// The container that runs here, and its pod.
pub const ID: &str = "4f1c0a5b4f1c0a5b4f1c0a5b4f1c0a5b4f1c0a5b4f1c0a5b4f1c0a5b4f1c0a5b";
pub const POD: &str = "/kubepods/burstable/pod0e2f4a9c-1111-2222-3333-444455556666";

/// A task as `/proc` shows it.
#[derive(Clone)]
pub struct Task {
    pub pid: u32,
    pub ppid: u32,
    pub comm: &'static str,
    pub state: char,
    pub wchan: &'static str,
    pub stack: &'static [&'static str],
    pub age: u64,
    pub cgroup: String,
    pub fds: Vec<&'static str>,
    pub fd_limit: u64,
    /// Ticks of processor time.
    pub ticks: u64,
    /// Nanoseconds on the run queue.
    pub delay: u64,
    /// The number of its context switches.
    pub switches: u64,
}

impl Task {
    pub fn new(pid: u32, ppid: u32, comm: &'static str) -> Self {
        Self {
            pid,
            ppid,
            comm,
            state: 'S',
            wchan: "ep_poll",
            stack: &[],
            age: 5000,
            cgroup: "/system.slice/containerd.service".to_owned(),
            fds: vec!["socket:[1]", "pipe:[2]"],
            fd_limit: 1024,
            ticks: 100,
            delay: 1_000_000,
            switches: 10,
        }
    }

    /// The task in uninterruptible sleep, in this function of the kernel.
    pub fn blocked_in(mut self, wchan: &'static str) -> Self {
        self.state = 'D';
        self.wchan = wchan;
        self
    }

    pub fn aged(mut self, seconds: u64) -> Self {
        self.age = seconds;
        self
    }

    pub fn in_container(mut self) -> Self {
        self.cgroup = format!("{POD}/{ID}");
        self
    }

    fn write(&self, proc: &Path) {
        let folder = proc.join(self.pid.to_string());
        let task = folder.join("task").join(self.pid.to_string());
        let start = UPTIME.saturating_sub(self.age) * 100;
        let stat = format!(
            "{} ({}) {} {} 1 1 0 -1 4194560 1 2 3 4 {} 0 0 0 20 0 1 0 {start} 0 0\n",
            self.pid, self.comm, self.state, self.ppid, self.ticks
        );
        let status = format!(
            "Name:\t{}\nUid:\t0\t0\t0\t0\nvoluntary_ctxt_switches:\t{}\nnonvoluntary_ctxt_switches:\t0\n",
            self.comm, self.switches
        );
        for folder in [&folder, &task] {
            write(&folder.join("stat"), &stat);
            write(&folder.join("status"), &status);
            write(&folder.join("comm"), &format!("{}\n", self.comm));
            write(&folder.join("wchan"), self.wchan);
            write(&folder.join("schedstat"), &format!("1 {} 1\n", self.delay));
        }
        let stack: String = self
            .stack
            .iter()
            .map(|function| format!("[<0>] {function}+0x1/0x2\n"))
            .collect();
        write(&task.join("stack"), &stack);
        let cgroup = format!(
            "9:freezer:{0}\n8:pids:{0}\n4:memory:{0}\n2:cpu,cpuacct:{0}\n0::{0}\n",
            self.cgroup
        );
        write(&folder.join("cgroup"), &cgroup);
        let limits = format!(
            "Max open files            {}      4096       files\n",
            self.fd_limit
        );
        write(&folder.join("limits"), &limits);
        fs::create_dir_all(folder.join("fd")).expect("a folder");
        for (number, target) in self.fds.iter().enumerate() {
            let _ = symlink(target, folder.join("fd").join(number.to_string()));
        }
    }
}

fn write(path: &Path, text: &str) {
    fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
    fs::write(path, text).expect("to write");
}

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

const HEALTHY: &[(&str, &str)] = &[
    ("proc/uptime", "1000000.00 1.0\n"),
    ("proc/loadavg", "0.55 0.40 0.20 2/400 9999\n"),
    ("proc/stat", "cpu  1000 0 1000 8000 0 0 0 0 0 0\n"),
    (
        "proc/meminfo",
        "MemTotal: 8000000 kB\nMemAvailable: 4000000 kB\nDirty: 10 kB\n",
    ),
    (
        "proc/vmstat",
        "workingset_refault_file 100\npgmajfault 100\n",
    ),
    (
        "proc/diskstats",
        "   8       0 sda 1000 0 0 1000 1000 0 0 1000 0 1000 2000\n",
    ),
    (
        "proc/pressure/io",
        "some avg10=2.00 avg60=2.00 avg300=1.00 total=1\nfull avg10=1.00 avg60=1.00 avg300=1.00 total=1\n",
    ),
    (
        "proc/pressure/memory",
        "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
    ),
    (
        "proc/pressure/cpu",
        "some avg10=20.00 avg60=20.00 avg300=20.00 total=1\n",
    ),
    (
        "proc/1/mountinfo",
        "22 1 8:0 / / rw - ext4 /dev/sda rw\n23 22 0:22 / /run rw - tmpfs tmpfs rw\n\
         24 22 0:60 / /var/lib/kubelet/pods/p/volumes/data rw - nfs4 filer:/export rw\n\
         25 22 0:61 / /mnt/s3 rw - fuse.s3fs s3fs rw\n\
         26 22 0:30 / /sys/fs/fuse/connections rw - fusectl none rw\n",
    ),
    (
        "proc/cgroups",
        "#subsys_name hierarchy num_cgroups enabled\nmemory 4 5 1\n",
    ),
    ("proc/sys/kernel/osrelease", "6.1.0-31-amd64\n"),
    ("proc/sys/kernel/pid_max", "32768\n"),
    ("proc/sys/kernel/threads-max", "60000\n"),
    ("proc/sys/fs/file-nr", "3000 0 900000\n"),
    ("proc/sys/fs/inotify/max_user_instances", "128\n"),
    ("proc/sys/fs/pipe-user-pages-soft", "16384\n"),
    ("sys/fs/cgroup/freezer/kubepods/freezer.state", "THAWED\n"),
    ("sys/fs/cgroup/pids/system.slice/pids.current", "50\n"),
    ("sys/fs/cgroup/pids/system.slice/pids.max", "max\n"),
    ("sys/fs/cgroup/memory/kubepods/memory.stat", ""),
    (
        "sys/fs/cgroup/cpu,cpuacct/system.slice/containerd.service/cpu.stat",
        "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
    ),
    (
        "etc/os-release",
        "PRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n",
    ),
    (
        "etc/cni/net.d/10-pods.conflist",
        "{\"name\":\"pods\",\"plugins\":[{\"type\":\"ptp\"},{\"type\":\"portmap\"}]}",
    ),
    (
        "var/lib/dpkg/status",
        "Package: systemd\nStatus: install ok installed\nVersion: 252.39-1~deb12u1\n\n\
         Package: zsh\nStatus: install ok installed\nVersion: 5.9\n",
    ),
    ("dev/kmsg", "6,1,999990000000,-;eth0: link becomes ready\n"),
    ("usr/sbin/runc", "\u{7f}ELF -X main.version=1.1.12 -s"),
];
