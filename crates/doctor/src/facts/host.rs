//! What the machine shows of itself: no command lines, no environment, no annotations.

use serde::{Deserialize, Serialize};

use super::Fact;

pub mod bus;
pub mod cgroup;
pub mod cni;
pub mod gaps;
pub mod limits;
pub mod process;
pub mod resources;
pub mod sockets;
pub mod storage;
pub mod version;

pub use bus::{BusFacts, Ping, Reach, Serial, Service};
pub use cgroup::{CgroupFacts, FrozenCgroup, MemoryCgroups, PidsUse, Throttling};
pub use cni::CniNetwork;
pub use gaps::{Gap, Gaps};
pub use limits::KernelLimits;
pub use process::{CgroupPath, FanotifyListener, FdUse, Process, Thread};
pub use resources::{CpuTimes, Memory, Pressure, PressureFacts, Stalls};
pub use sockets::{Listener, Talk, UnixSockets};
pub use storage::{Disk, Filesystem, FuseConnection, Mounts, RemoteMount, RootMount};
pub use version::VersionFacts;

/// The machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostFacts {
    /// For how many seconds the machine has been up.
    pub uptime_seconds: Fact<f64>,
    /// What runs, with its threads where they matter.
    pub processes: Fact<Vec<Process>>,
    /// What of them could not be read.
    pub gaps: Gaps,
    /// Who listens to every open or exec.
    pub fanotify: Fact<Vec<FanotifyListener>>,
    /// Who waits for whom at unix sockets.
    pub sockets: Fact<UnixSockets>,
    /// Control groups.
    pub cgroups: CgroupFacts,
    /// Pressure stall information; kernels before 4.20 have none.
    pub pressure: PressureFacts,
    /// Where the processors' time went.
    pub cpu: Fact<CpuTimes>,
    /// Memory.
    pub memory: Fact<Memory>,
    /// The disks, over the time between the two looks.
    pub disks: Fact<Vec<Disk>>,
    /// What is mounted.
    pub mounts: Fact<Mounts>,
    /// Connections of FUSE.
    pub fuse: Fact<Vec<FuseConnection>>,
    /// Space and inodes of the local roots.
    pub filesystems: Vec<Fact<Filesystem>>,
    /// What the kernel allows in all.
    pub limits: KernelLimits,
    /// The system bus, and systemd on it.
    pub bus: BusFacts,
    /// Lines of the kernel's log that tell of something.
    pub kernel_log: Fact<Vec<KernelLine>>,
    /// Releases and versions.
    pub versions: VersionFacts,
    /// The networks that CNI is configured for.
    pub cni: Fact<Vec<CniNetwork>>,
}

/// A line of the kernel's log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct KernelLine {
    /// When it was written, in seconds since the machine started.
    pub seconds: f64,
    /// What it says.
    pub text: String,
}

impl HostFacts {
    /// The processes; none where they could not be read.
    pub fn all_processes(&self) -> &[Process] {
        self.processes.value().map_or(&[], Vec::as_slice)
    }

    /// Whether who is not among the processes does not run: of too many only the first are
    /// read, and some of these have ended before the second look.
    pub fn shows_all_processes(&self) -> bool {
        self.all_processes().len() < process::MOST_PROCESSES / 10 * 9
            && self.gaps.processes == 0
            && self.gaps.first_of("stat").is_none()
    }

    /// The process with this id.
    pub fn process(&self, pid: u32) -> Option<&Process> {
        self.all_processes()
            .iter()
            .find(|process| process.pid == pid)
    }

    /// Whose parent it is.
    pub fn children(&self, pid: u32) -> impl Iterator<Item = &Process> {
        self.all_processes()
            .iter()
            .filter(move |process| process.ppid == pid)
    }

    /// Threads that sleep where no signal reaches them, and did not move between the looks.
    pub fn blocked_threads(&self) -> impl Iterator<Item = (&Process, &Thread)> {
        self.all_processes()
            .iter()
            .flat_map(|process| process.threads.iter().map(move |thread| (process, thread)))
            .filter(|(_, thread)| thread.state == 'D' && thread.still)
    }

    /// Whether somebody waits until a listener of fanotify permits an open or an exec: then
    /// whoever starts a program may wait, too.
    pub fn waits_for_fanotify(&self) -> bool {
        let mut blocked = self.blocked_threads();
        blocked.any(|(_, thread)| {
            thread
                .functions()
                .any(|function| function.starts_with("fanotify_"))
        })
    }

    /// Lines that the kernel wrote during the last `seconds`; all where the time is not known.
    pub fn kernel_lines_of_last(&self, seconds: f64) -> impl Iterator<Item = &KernelLine> {
        let since = self.uptime_seconds.value().map_or(0.0, |up| up - seconds);
        let lines = self.kernel_log.value().map_or(&[][..], Vec::as_slice);
        lines.iter().filter(move |line| line.seconds >= since)
    }
}
