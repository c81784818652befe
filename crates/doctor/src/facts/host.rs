//! The state of the machine: without command lines, environments and annotations.

use serde::{Deserialize, Serialize};

use super::Fact;
use super::logs::LogFacts;

pub mod bus;
pub mod cgroup;
pub mod cni;
pub mod gaps;
pub mod kubelet;
pub mod limits;
pub mod process;
pub mod resources;
pub mod sockets;
pub mod storage;
pub mod version;

pub use bus::{BusFacts, Ping, Reach, Serial, Service};
pub use cgroup::{CgroupFacts, FrozenCgroup, MemoryCgroups, MemoryLimit, PidsUse, Throttling};
pub use cni::CniNetwork;
pub use gaps::{Gap, Gaps};
pub use kubelet::{ApiAnswer, ApiServer, ClientCertificate, ClockDifference, KubeletFiles, Lease};
pub use limits::KernelLimits;
pub use process::{CgroupPath, EndSignal, FanotifyListener, FdUse, Process, Thread};
pub use resources::{CpuTimes, Memory, Pressure, PressureFacts, Stalls};
pub use sockets::{Listener, Talk, UnixSockets};
pub use storage::{Disk, Filesystem, FuseConnection, Mounts, RemoteMount, RootMount};
pub use version::VersionFacts;

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFacts {
    /// How many seconds ago the machine was started.
    pub uptime_seconds: Fact<f64>,
    /// All processes, with the threads of some.
    pub processes: Fact<Vec<Process>>,
    /// Files of processes that could not be read.
    pub gaps: Gaps,
    /// The effective capabilities of the doctor, as bits.
    pub capabilities: Fact<u64>,
    /// Processes that the kernel notifies, or asks for permission, when files are opened.
    pub fanotify: Fact<Vec<FanotifyListener>>,
    /// Which processes wait for each other on unix sockets.
    pub sockets: Fact<UnixSockets>,
    /// Control groups.
    pub cgroups: CgroupFacts,
    /// Pressure stall information; kernels before 4.20 have none.
    pub pressure: PressureFacts,
    /// How the CPU time was used.
    pub cpu: Fact<CpuTimes>,
    /// Memory.
    pub memory: Fact<Memory>,
    /// The disks, between the two samples.
    pub disks: Fact<Vec<Disk>>,
    /// What is mounted.
    pub mounts: Fact<Mounts>,
    /// Connections of FUSE.
    pub fuse: Fact<Vec<FuseConnection>>,
    /// Space and inodes of the local roots.
    pub filesystems: Vec<Fact<Filesystem>>,
    /// Limits of the whole machine.
    pub limits: KernelLimits,
    /// The system bus, and systemd on it.
    pub bus: BusFacts,
    /// Relevant lines of the kernel's log.
    pub kernel_log: Fact<Vec<KernelLine>>,
    /// Releases and versions.
    pub versions: VersionFacts,
    /// The networks that CNI is configured for.
    pub cni: Fact<Vec<CniNetwork>>,
    /// The configuration files of a kubelet.
    pub kubelet_files: Fact<KubeletFiles>,
    /// The certificate with which the kubelet authenticates.
    pub client_certificate: Fact<ClientCertificate>,
    /// The API server that the kubelet reports to.
    pub api_server: Fact<ApiServer>,
    /// Recent log lines of the kubelet and the runtime.
    pub logs: Fact<LogFacts>,
}

/// A line of the kernel's log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KernelLine {
    /// When the line was written, in seconds since the machine started.
    pub seconds: f64,
    /// The text of the line.
    pub text: String,
}

impl HostFacts {
    /// The processes; none if they could not be read.
    pub fn all_processes(&self) -> &[Process] {
        self.processes.value().map_or(&[], Vec::as_slice)
    }

    /// Whether all processes were read, so that one that is missing here does not exist. If there are more
    /// than `MAX_PROCESSES`, only that many are read, and some of these exit before the second sample: so a
    /// list that is nearly that long may be incomplete.
    pub fn shows_all_processes(&self) -> bool {
        self.all_processes().len() < process::MAX_PROCESSES / 10 * 9
            && self.gaps.processes == 0
            && self.gaps.first_of("stat").is_none()
    }

    /// The process with this id.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        let mut all = self.all_processes().iter();
        all.find(|process| process.pid == pid)
    }

    /// The frozen control group that contains a process, if one is known.
    pub fn frozen_group(&self, process: &Process) -> Option<&FrozenCgroup> {
        let path = process.cgroup("freezer")?;
        let mut groups = self.cgroups.frozen.value()?.iter();
        groups.find(|group| process::is_within(path, &group.path))
    }

    /// The child processes of the process with this id.
    pub fn children(&self, pid: u32) -> impl Iterator<Item = &Process> {
        let all = self.all_processes().iter();
        all.filter(move |process| process.ppid == pid)
    }

    /// Threads in uninterruptible sleep that did not run between the samples.
    pub fn blocked_threads(&self) -> impl Iterator<Item = (&Process, &Thread)> {
        let all = self.all_processes().iter();
        all.flat_map(|process| {
            let threads = process.blocked_threads();
            threads.map(move |thread| (process, thread))
        })
    }

    /// Whether a thread waits for a fanotify listener to permit an open or an exec: then starting
    /// a program may block, too.
    pub fn waits_for_fanotify(&self) -> bool {
        let mut functions = self
            .blocked_threads()
            .flat_map(|(_, thread)| thread.functions());
        functions.any(|function| function.starts_with("fanotify_"))
    }

    /// Lines that the kernel logged in the last `seconds`; all lines if the uptime is not known.
    pub fn kernel_lines_of_last(&self, seconds: f64) -> impl Iterator<Item = &KernelLine> {
        let since = self.uptime_seconds.value().map_or(0.0, |up| up - seconds);
        let lines = self.kernel_log.value().map_or(&[][..], Vec::as_slice);
        lines.iter().filter(move |line| line.seconds >= since)
    }
}
