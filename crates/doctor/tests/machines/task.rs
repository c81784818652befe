//! A task of a machine, as `/proc` shows it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use crate::files::write;

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

    pub fn write(&self, proc: &Path) {
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
