//! Processes and threads, as `/proc` shows them. Helpers read it, because a read may never return.

pub use base::host::{EndSignal, RuncCommand};
use causes::finding::PodName;
use serde::{Deserialize, Serialize};

use crate::facts::{Fact, Missing};

/// A process.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Process {
    /// Its id.
    pub pid: u32,
    /// The id of its parent.
    pub ppid: u32,
    /// The id of its user.
    pub uid: u32,
    /// Its name, as the kernel keeps it: at most fifteen bytes.
    pub comm: String,
    /// Its state in the first sample (`S`, `D`, `Z`), or in the second if it was stopped (`T`) or resumed
    /// between them.
    pub state: char,
    /// Whether it was stopped in the first sample, but not in the second.
    pub was_resumed: bool,
    /// The kernel function that its main thread waits in.
    pub wchan: Option<String>,
    /// How many seconds ago it was started.
    pub age_seconds: f64,
    /// Whether it is a kernel thread.
    pub kernel: bool,
    /// The CPU time that it used between the samples, in seconds per second.
    pub cpu_share: Option<f64>,
    /// How long its runnable threads waited for a CPU between the samples, in seconds per second.
    pub run_delay: Option<f64>,
    /// Its resident memory, if it is a daemon.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resident_kib: Option<u64>,
    /// Its network namespace, if it is a daemon or process 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network: Option<String>,
    /// How many threads it has.
    pub thread_count: u32,
    /// Its threads, up to a limit: all of them if calls may wait for the process, otherwise only those in
    /// uninterruptible sleep.
    pub threads: Vec<Thread>,
    /// A signal that ends it, if one is pending.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pending: Option<EndSignal>,
    /// The process that traces it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tracer: Option<u32>,
    /// Its command and container, if it is a `runc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runc: Option<RuncCommand>,
    /// The pod for which it was started, if it is a CNI plugin.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin_of: Option<PodName>,
    /// Its control groups in the hierarchies that judges use.
    pub cgroups: Vec<CgroupPath>,
    /// Its file descriptors.
    pub fds: Fact<FdUse>,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Thread {
    /// Its id.
    pub tid: u32,
    /// Its name.
    pub comm: String,
    /// Its state.
    pub state: char,
    /// The kernel function that it waits in.
    pub wchan: Option<String>,
    /// Whether it did not run between the two samples.
    pub still: bool,
    /// Its kernel stack from the innermost function outwards, if it could be read.
    pub stack: Vec<String>,
    /// Why its kernel stack could not be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_stack: Option<Missing>,
}

impl Thread {
    /// The kernel functions that it waits in: its stack, if that is known, and its wait channel.
    pub fn functions(&self) -> impl Iterator<Item = &str> {
        let wchan = self.wchan.as_deref();
        self.stack.iter().map(String::as_str).chain(wchan)
    }
}

/// A place in a hierarchy of control groups.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CgroupPath {
    /// The controllers of version 1, comma separated, or `name=systemd`; empty on version 2.
    pub controllers: String,
    /// The path.
    pub path: String,
}

/// File descriptors of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FdUse {
    /// How many file descriptors are open.
    pub open: u64,
    /// The soft limit on open files.
    pub limit: Option<u64>,
    /// The hard limit on open files.
    pub hard_limit: Option<u64>,
    /// How many file descriptors are inotify instances.
    pub inotify: u64,
    /// How many file descriptors are ends of pipes.
    pub pipes: u64,
    /// The numbers of the file descriptors that are fanotify groups.
    pub fanotify: Vec<u32>,
    /// The runtime's root directory, if the process is a runtime: the process has a database below it open.
    pub root: Option<String>,
    /// How many file descriptors could not be read for lack of permission. The kernel requires the same
    /// permission to show where the process waits.
    pub hidden: u64,
}

/// A process that the kernel notifies, or asks for permission, when files are opened.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct FanotifyListener {
    /// The id of the process.
    pub pid: u32,
    /// The name of the process.
    pub comm: String,
    /// How many marks it has set.
    pub marks: u64,
    /// How many of these marks make other processes wait for its permission.
    pub permission_marks: u64,
}

/// The maximum number of processes that are collected.
pub(crate) const MAX_PROCESSES: usize = 20_000;

/// Container runtimes, and the daemon in front of dockerd.
const RUNTIMES: [&str; 4] = ["containerd", "dockerd", "crio", "cri-dockerd"];
/// Programs that are, or contain, a kubelet.
const KUBELETS: [&str; 5] = ["kubelet", "k3s-server", "k3s-agent", "k0s", "kubelite"];

/// Whether a task in this state is stopped, by a signal or a debugger.
pub(crate) fn is_stopped(state: char) -> bool {
    matches!(state, 'T' | 't')
}

/// Whether a process of this name is a `runc init`.
pub(crate) fn is_runc_init(comm: &str) -> bool {
    comm.starts_with("runc:[")
}

/// Whether a path is this control group or folder, or below it.
pub(crate) fn is_within(path: &str, group: &str) -> bool {
    path.strip_prefix(group)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether this is a kernel function in which the tasks of a frozen control group wait.
pub(crate) fn is_of_freezer(function: &str) -> bool {
    function.contains("refrigerator") || function == "do_freezer_trap"
}

/// The service of this machine's systemd to which a control group belongs: only slices are above it.
/// `None` for a service in a container or below `user@`, which belongs to another systemd.
pub(crate) fn unit_of(path: &str) -> Option<&str> {
    let mut parts = path.split('/').filter(|part| !part.is_empty());
    let unit = parts.find(|part| !part.ends_with(".slice"))?;
    (unit.ends_with(".service") && !unit.starts_with("user@")).then_some(unit)
}

impl Process {
    /// Whether it is a kubelet or a container runtime.
    pub fn is_daemon(&self) -> bool {
        self.is_kubelet() || self.is_runtime()
    }

    /// Whether it is, or contains, a kubelet.
    pub fn is_kubelet(&self) -> bool {
        KUBELETS.contains(&self.comm.as_str())
    }

    /// Whether it is a container runtime.
    pub fn is_runtime(&self) -> bool {
        RUNTIMES.contains(&self.comm.as_str())
    }

    /// Whether it is a containerd shim or a conmon.
    pub fn is_shim(&self) -> bool {
        base::host::is_shim(&self.comm)
    }

    /// Whether it is a `runc` command, which normally takes less than a second.
    pub fn is_runc(&self) -> bool {
        base::host::is_runc(&self.comm)
    }

    /// Whether it is a `runc init`, which becomes the container's process.
    pub fn is_runc_init(&self) -> bool {
        is_runc_init(&self.comm)
    }

    /// Whether calls for containers wait for processes of this kind: daemons, shims and runc.
    pub fn serves_containers(&self) -> bool {
        self.is_daemon() || self.is_shim() || self.is_runc() || self.is_runc_init()
    }

    /// Whether it is stopped (SIGSTOP, a debugger).
    pub fn is_stopped(&self) -> bool {
        is_stopped(self.state)
    }

    /// Whether it has ended, and its parent has not waited for it yet.
    pub fn has_ended(&self) -> bool {
        base::host::has_ended(self.state, self.thread_count)
    }

    /// Its state as a phrase.
    pub fn doing(&self) -> String {
        let doing = match self.state {
            'R' => "runs",
            'S' | 'I' => "sleeps",
            'D' => "waits in the kernel and cannot be killed (state D)",
            'T' => "is stopped (state T)",
            't' => "is stopped by a debugger (state t)",
            'Z' if !self.has_ended() => "lives on in threads other than its first",
            'Z' => "is a zombie (state Z)",
            _ => "is in an unknown state",
        };
        match &self.wchan {
            Some(wchan) => format!("{doing}, in {wchan}"),
            None => doing.to_owned(),
        }
    }

    /// The kernel functions that its threads wait in.
    pub fn waits(&self) -> impl Iterator<Item = &str> {
        let threads = self.threads.iter().flat_map(Thread::functions);
        self.wchan.as_deref().into_iter().chain(threads)
    }

    /// Its threads in uninterruptible sleep that did not run between the samples.
    pub fn blocked_threads(&self) -> impl Iterator<Item = &Thread> {
        let threads = self.threads.iter();
        threads.filter(|thread| thread.state == 'D' && thread.still)
    }

    /// Its name and id.
    pub fn label(&self) -> String {
        format!("{} ({})", self.comm, self.pid)
    }

    /// The systemd service that it belongs to, according to its control group.
    pub fn service(&self) -> Option<&str> {
        self.cgroups.iter().find_map(|cgroup| unit_of(&cgroup.path))
    }

    /// Its path in the freezer hierarchy of version 1.
    pub fn freezer_v1(&self) -> Option<&str> {
        self.cgroup_of("freezer")
    }

    /// Its path in the hierarchy of a controller: of version 1, else of version 2.
    pub fn cgroup(&self, controller: &str) -> Option<&str> {
        self.cgroup_of(controller).or_else(|| self.cgroup_of(""))
    }

    /// Its path in the hierarchy with this controller; the empty name is that of version 2.
    fn cgroup_of(&self, controller: &str) -> Option<&str> {
        let mut cgroups = self.cgroups.iter();
        let found =
            cgroups.find(|cgroup| cgroup.controllers.split(',').any(|name| name == controller));
        found.map(|cgroup| cgroup.path.as_str())
    }
}
