//! The table: which stacks prove what.

use causes::Cause;
use causes::finding::Confidence::{Certain, High, Low, Medium};

use super::Rule;
use crate::goroutines::Program;
use crate::goroutines::Wait::{
    self, Bus, Lock, Netlink, Process, Receive, Rpc, Send, Shim, Storage,
};

const ANY: Rule = Rule {
    calls: &[],
    under: "",
    waits: &[],
    programs: &[],
    crashed: false,
    minutes: 0,
    cause: Cause::KubeletInternal,
    confidence: Medium,
    says: "",
};

pub(super) const RULES: [Rule; 47] = [
    Rule {
        calls: &["pleg.(*GenericPLEG).relist", "pleg.(*GenericPLEG).Relist"],
        waits: &[Send],
        confidence: Certain,
        says: "the relist waits for space in its own event channel, and the sync loop waits for \
               the relist: a deadlock",
        ..ANY
    },
    Rule {
        // "fatal error: concurrent map writes", and the like.
        calls: &["runtime.throw", "runtime.fatal"],
        under: "runtime.map",
        programs: &[Program::Kubelet],
        says: "the kubelet crashed: two of its goroutines used a map at the same time",
        ..ANY
    },
    Rule {
        calls: &[
            "util/runtime.logPanic",
            "runtime.gopanic",
            "runtime.sigpanic",
        ],
        programs: &[Program::Kubelet],
        says: "the kubelet crashed in its own code",
        ..ANY
    },
    Rule {
        crashed: true,
        programs: &[Program::Kubelet],
        says: "the kubelet crashed in its own code",
        ..ANY
    },
    Rule {
        crashed: true,
        programs: &[Program::Containerd, Program::Dockerd, Program::CriO],
        cause: Cause::RuntimeUnresponsive,
        says: "the runtime crashed in its own code",
        ..ANY
    },
    Rule {
        calls: &["(*Kubelet).syncLoopIteration"],
        waits: &[Lock],
        minutes: 2,
        says: "the kubelet's sync loop waits for a lock of its own",
        ..ANY
    },
    Rule {
        calls: &["(*devicePluginClient)", "devicemanager.(*endpointImpl)"],
        under: "(*Kubelet).syncLoop",
        waits: &[Rpc],
        says: "the kubelet's sync loop waits for a device plugin, which does not respond",
        ..ANY
    },
    Rule {
        // It asks containerd for each of its containers.
        calls: &["daemon.(*Daemon).restore"],
        programs: &[Program::Dockerd],
        minutes: 5,
        cause: Cause::RuntimeUnresponsive,
        says: "dockerd has not finished its start: it waits for the state of its containers",
        ..ANY
    },
    Rule {
        // It is answered within a millisecond, so it is hardly ever seen in a dump by chance; whoever
        // holds a container's lock meanwhile waits for the same.
        calls: &["version/v1.(*versionClient).Version"],
        waits: &[Rpc],
        programs: &[Program::Dockerd],
        cause: Cause::RuntimeUnresponsive,
        confidence: Certain,
        says: "containerd does not answer dockerd's Version call, which waits for no container",
        ..ANY
    },
    Rule {
        calls: &["(*PluginManager).GetPodNetworkStatus"],
        waits: &[Lock],
        cause: Cause::CniPluginHang,
        confidence: High,
        says: "sandbox status calls wait for the lock of a pod whose CNI plugin has not returned",
        ..ANY
    },
    Rule {
        calls: &[
            "cni/pkg/invoke.(*RawExec).ExecPlugin",
            "cni/pkg/invoke.(*DefaultExec)",
            "invoke.ExecPluginWith",
        ],
        waits: &[Process],
        cause: Cause::CniPluginHang,
        confidence: High,
        says: "a CNI plugin was started and has not exited",
        ..ANY
    },
    Rule {
        calls: &["cni/pkg/skel."],
        waits: &[Rpc],
        cause: Cause::CniPluginHang,
        confidence: High,
        says: "the CNI plugin waits for its agent",
        ..ANY
    },
    Rule {
        calls: &["(*NetlinkSocket).Receive", "netlink.(*Conn).Receive"],
        waits: &[Netlink],
        minutes: 1,
        cause: Cause::CniPluginHang,
        confidence: High,
        says: "a netlink request has received no reply and has no deadline",
        ..ANY
    },
    Rule {
        calls: &["go-cni.(*libcni).Status"],
        waits: &[Lock],
        cause: Cause::CniPluginHang,
        confidence: High,
        says: "the runtime's Status call waits for a CNI plugin that is still setting up a pod",
        ..ANY
    },
    Rule {
        calls: &["updateContainerResources", "UpdateContainerResources"],
        waits: &[Shim, Receive, Rpc],
        programs: &[Program::Containerd],
        cause: Cause::ContainerStatusLock,
        confidence: Certain,
        says: "an update of a container's resources waits for the shim while it holds the \
               container's status lock",
        ..ANY
    },
    Rule {
        calls: &["(*statusStorage).Get", "(*statusStorage).Update"],
        waits: &[Lock],
        cause: Cause::ContainerStatusLock,
        confidence: High,
        says: "calls wait for the status lock of a container",
        ..ANY
    },
    Rule {
        calls: &[
            "oci.(*Runtime).",
            "oci.(*runtimeOCI).",
            "oci.(*runtimeVM).",
            "oci.(*Container).",
        ],
        waits: &[Lock],
        cause: Cause::ContainerLock,
        confidence: High,
        says: "calls wait for the lock of a container",
        ..ANY
    },
    Rule {
        calls: &["devmapper.(*DeviceSet)"],
        waits: &[Lock],
        cause: Cause::StorageUnresponsive,
        says: "calls wait for the lock of dockerd's device mapper",
        ..ANY
    },
    Rule {
        calls: &[
            "daemon.(*Daemon).ContainerInspect",
            "daemon.(*Daemon).containerInspect",
            "daemon/exec.(*Store)",
            "daemon.(*Daemon).Containers",
            "daemon.(*Daemon).Container",
            "daemon.(*Daemon).container",
            "container.(*State)",
            "container.(*Container)",
        ],
        waits: &[Lock],
        cause: Cause::ContainerLock,
        confidence: High,
        says: "calls wait for the lock of a container",
        ..ANY
    },
    Rule {
        // dockerd up to 1.13 holds the container's lock while it waits for the end of the output.
        calls: &["daemon.(*Daemon).StateChanged"],
        waits: &[Wait::Other],
        programs: &[Program::Dockerd],
        minutes: 2,
        cause: Cause::ContainerLock,
        says: "the exit of a container waits for its output to end and holds the container's lock meanwhile",
        ..ANY
    },
    Rule {
        waits: &[Lock],
        programs: &[Program::Dockerd],
        minutes: 2,
        cause: Cause::ContainerLock,
        confidence: Medium,
        says: "goroutines of dockerd wait for a lock",
        ..ANY
    },
    Rule {
        calls: &["nri.(*local).", "adaptation.(*Adaptation)."],
        waits: &[Lock],
        minutes: 2,
        cause: Cause::RuntimeUnresponsive,
        says: "calls wait for the lock of NRI, which a call of an NRI plugin may hold",
        ..ANY
    },
    Rule {
        calls: &["volumemanager/cache.(*desiredStateOfWorld)"],
        waits: &[Lock],
        minutes: 2,
        says: "the kubelet's volume manager waits for its own lock, so no pod starts",
        ..ANY
    },
    Rule {
        calls: &["containers/storage/pkg/lockfile."],
        waits: &[Lock],
        minutes: 2,
        cause: Cause::RuntimeUnresponsive,
        says: "calls wait for the lock of containers/storage, which another process may hold",
        ..ANY
    },
    Rule {
        waits: &[Lock],
        programs: &[Program::CriO],
        minutes: 2,
        cause: Cause::ContainerLock,
        says: "goroutines of CRI-O wait for a lock",
        ..ANY
    },
    Rule {
        calls: &[
            "StartTransientUnit",
            "SetUnitProperties",
            "systemd.UseSystemd",
            "dbus.(*Object).Call",
            "dbus.(*Conn).startJob",
        ],
        waits: &[Bus],
        cause: Cause::SystemdCookieOverflow,
        says: "runc waits for systemd's reply on the system bus; an overloaded systemd or a dead bus looks the same",
        ..ANY
    },
    Rule {
        calls: &["godbus/dbus.(*Conn)"],
        programs: &[Program::Runc],
        cause: Cause::SystemdCookieOverflow,
        confidence: Low,
        says: "runc is connected to the system bus and waits; an overloaded systemd or a dead bus \
               looks the same",
        ..ANY
    },
    Rule {
        calls: &[
            "toCRISandboxInfo",
            "task.(*local).Get",
            "PodSandboxStatus",
            "(*shimTask).State",
            "(*task).Status",
            "(*shim).State",
        ],
        waits: &[Shim],
        cause: Cause::ShimUnresponsive,
        confidence: High,
        says: "a status call waits for the response of a shim",
        ..ANY
    },
    Rule {
        waits: &[Shim],
        minutes: 2,
        cause: Cause::ShimUnresponsive,
        says: "a call to a shim has received no response",
        ..ANY
    },
    Rule {
        // One request after the other is written to a shim's connection: the one before has not
        // been read.
        calls: &["ttrpc.(*Client).createStream"],
        waits: &[Lock],
        minutes: 2,
        cause: Cause::ShimUnresponsive,
        confidence: High,
        says: "a call waits for its turn on the connection to a shim that does not read",
        ..ANY
    },
    Rule {
        calls: &["reaper.(*subscriber).do"],
        waits: &[Lock],
        minutes: 1,
        cause: Cause::ShimUnresponsive,
        confidence: High,
        says: "a shim cannot report the end of a process: the end before was not taken in",
        ..ANY
    },
    Rule {
        waits: &[Lock],
        programs: &[Program::Shim],
        minutes: 1,
        cause: Cause::ShimUnresponsive,
        confidence: High,
        says: "goroutines of a shim wait for a lock",
        ..ANY
    },
    Rule {
        calls: &["copyPipes"],
        waits: &[Receive],
        programs: &[Program::Shim],
        minutes: 2,
        cause: Cause::ShimUnresponsive,
        confidence: High,
        says: "the start of a process waits for the other end of its fifo and holds the shim's lock meanwhile",
        ..ANY
    },
    Rule {
        // An idle monitor waits in EpollWait and is not in this function.
        calls: &["supervisor.(*Monitor).processEvent"],
        programs: &[Program::Containerd],
        minutes: 2,
        cause: Cause::RuntimeUnresponsive,
        confidence: High,
        says: "the only event loop of containerd 0.2 has not finished an event, so no container \
               is started or ends",
        ..ANY
    },
    Rule {
        calls: &["go-metrics.", "cgroups.(*Collector)", "metrics/cgroups"],
        waits: &[Lock],
        cause: Cause::RuntimeUnresponsive,
        says: "containerd's cgroup metrics collector is deadlocked, and no task can be created",
        ..ANY
    },
    Rule {
        calls: &[
            "cleanupOrphanedPodDirs",
            "volume_stat_calculator",
            "(*volumeStatCalculator)",
            "operationexecutor",
        ],
        waits: &[Storage],
        minutes: 1,
        cause: Cause::StorageUnresponsive,
        confidence: High,
        says: "the kubelet waits for the file system of a volume",
        ..ANY
    },
    Rule {
        calls: &[
            "mount.(*Mounter)",
            "mount.(*NsenterMounter)",
            "mount.(*SafeFormatAndMount)",
            "mount-utils.(*Mounter)",
            "mount-utils.(*SafeFormatAndMount)",
        ],
        waits: &[Process, Storage],
        programs: &[Program::Kubelet],
        minutes: 2,
        cause: Cause::StorageUnresponsive,
        confidence: High,
        says: "a program that mounts, unmounts or checks a volume has not exited",
        ..ANY
    },
    Rule {
        calls: &["bolt.(*DB)", "bbolt.(*DB)", "bbolt.(*Tx)", "bolt.(*Tx)"],
        waits: &[Storage],
        cause: Cause::DiskSaturated,
        says: "containerd's database waits for the disk",
        ..ANY
    },
    Rule {
        calls: &["bolt.(*DB).begin"],
        waits: &[Lock],
        programs: &[Program::Containerd],
        minutes: 10,
        cause: Cause::RuntimeUnresponsive,
        says: "containerd waits for the lock of its own database",
        ..ANY
    },
    Rule {
        waits: &[Storage],
        minutes: 2,
        cause: Cause::StorageUnresponsive,
        says: "a system call on a file system has not returned",
        ..ANY
    },
    Rule {
        // Quick on any file system that answers, so it is hardly ever seen in a dump by chance.
        calls: &["fs.getVfsStats", "syscall.Statfs", "unix.Statfs"],
        waits: &[Storage],
        cause: Cause::StorageUnresponsive,
        confidence: Low,
        says: "a file system was asked how full it is, and has not answered yet",
        ..ANY
    },
    Rule {
        calls: &["devmapper.", "devicemapper."],
        waits: &[Storage, Process, Wait::Other],
        minutes: 2,
        cause: Cause::StorageUnresponsive,
        confidence: Medium,
        says: "dockerd's device mapper has not returned",
        ..ANY
    },
    Rule {
        calls: &["volumedrivers.", "volume/drivers.", "pkg/plugins.(*Client)"],
        waits: &[Rpc, Receive, Wait::Other],
        programs: &[Program::Dockerd],
        minutes: 2,
        cause: Cause::StorageUnresponsive,
        confidence: Medium,
        says: "dockerd waits for a volume plugin",
        ..ANY
    },
    Rule {
        calls: &[
            "cadvisor/manager.(*manager)",
            "cadvisor/manager.(*containerData)",
        ],
        waits: &[Lock],
        minutes: 2,
        confidence: Medium,
        says: "goroutines of the kubelet wait for a lock of cAdvisor",
        ..ANY
    },
    Rule {
        calls: &["(*tokenBucketRateLimiter).Wait"],
        under: "volumemanager",
        programs: &[Program::Kubelet],
        confidence: Low,
        says: "the kubelet's volume manager waits for its own limit of requests to the API server",
        ..ANY
    },
    Rule {
        calls: &["pleg.(*EventedPLEG)"],
        waits: &[Lock, Send],
        says: "the evented PLEG is deadlocked",
        ..ANY
    },
    Rule {
        calls: &["libcontainerd/remote.(*client)."],
        waits: &[Rpc],
        minutes: 5,
        cause: Cause::ShimUnresponsive,
        confidence: Low,
        says: "dockerd has waited for minutes for containerd's response about one container",
        ..ANY
    },
];

/// The relist of a kubelet.
const RELIST: &str = "pleg.(*GenericPLEG).";

/// A stack shows one moment, in which a healthy kubelet may make such a call, too: these hold only
/// of one whose PLEG was unhealthy, while nothing else shows what its relist waits for.
pub(super) const UNHEALTHY: [Rule; 3] = [
    Rule {
        calls: &["(*runtimeServiceClient).PodSandboxStatus"],
        under: RELIST,
        waits: &[Rpc],
        cause: Cause::ShimUnresponsive,
        confidence: Low,
        says: "the relist waits for the status of one sandbox, so the lists were answered",
        ..ANY
    },
    Rule {
        calls: &["(*runtimeServiceClient).ContainerStatus"],
        under: RELIST,
        waits: &[Rpc],
        cause: Cause::ContainerLock,
        confidence: Low,
        says: "the relist waits for the status of one container, so the lists were answered",
        ..ANY
    },
    Rule {
        calls: &["(*runtimeServiceClient).ListContainers"],
        under: RELIST,
        waits: &[Rpc],
        cause: Cause::ContainerStatusLock,
        confidence: Low,
        says: "the relist waits for the list of containers, after that of sandboxes was answered",
        ..ANY
    },
];

/// A healthy program has some of these at any moment: they hold only of goroutines that somebody
/// has picked out of a dump.
pub(super) const EXCERPT: [Rule; 3] = [
    Rule {
        calls: &["oci.(*Container).WaitOnStopTimeout"],
        waits: &[Receive],
        programs: &[Program::CriO],
        minutes: 1,
        cause: Cause::ContainerLock,
        confidence: Low,
        says: "the stop of a container waits for its end and holds a lock of it meanwhile",
        ..ANY
    },
    Rule {
        calls: &["bolt.(*DB).begin"],
        waits: &[Lock],
        cause: Cause::DiskSaturated,
        confidence: Low,
        says: "a write to a database waits until another one is on the disk",
        ..ANY
    },
    Rule {
        calls: &["container.(*Container).ToDisk"],
        under: "syscall.Fsync",
        programs: &[Program::Dockerd],
        cause: Cause::DiskSaturated,
        confidence: Low,
        says: "dockerd writes the state of a container to the disk and holds its lock meanwhile",
        ..ANY
    },
];
