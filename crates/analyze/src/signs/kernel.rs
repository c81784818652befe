//! What the kernel writes.

use causes::Cause::*;
use causes::finding::Confidence::*;

use super::{Sign, release, sign};
use crate::kind::Writer::Kernel;

/// Processes that a node needs.
const DAEMONS: &[&str] = &[
    "(containerd",
    "(dockerd",
    "(kubelet",
    "(crio",
    "(conmon",
    "(systemd)",
    "(runc",
];

pub(super) const SIGNS: &[Sign] = &[
    sign(
        "unregister_netdevice: waiting for ",
        Kernel,
        RtnlStuck,
        High,
    ),
    // Each of them has caches of its own, and one that was removed still has its.
    sign("kmem_cache_create(", Kernel, MemoryCgroupLeak, Medium).with(&["failed with error -17"]),
    sign(
        "not responding, still trying",
        Kernel,
        StorageUnresponsive,
        High,
    )
    .with(&["nfs: server", "server "]),
    sign(
        "not responding, timed out",
        Kernel,
        StorageUnresponsive,
        High,
    )
    .with(&["nfs: server", "server "]),
    sign("has not responded in", Kernel, StorageUnresponsive, High).with(&["CIFS", "cifs"]),
    sign("libceph: osd", Kernel, StorageUnresponsive, Medium)
        .with(&["socket closed", "down"])
        .lines(3),
    // Without a monitor a client works until it needs a new map.
    sign("libceph: mon", Kernel, StorageUnresponsive, Low)
        .with(&["socket closed", "connect error", "session lost"])
        .lines(3),
    sign("libceph: connect ", Kernel, StorageUnresponsive, Low)
        .with(&[" error -"])
        .lines(2),
    sign("BUG: unable to handle ", Kernel, KernelRegression, Medium).with(&[
        "NULL pointer",
        "page fault",
        "paging request",
    ]),
    sign(
        "stack-protector: Kernel stack is corrupted",
        Kernel,
        KernelRegression,
        Medium,
    ),
    sign("systemd[1]: segfault at ", Kernel, BusUnavailable, Medium),
    sign(
        "self-detected stall on CPU",
        Kernel,
        KernelRegression,
        Medium,
    ),
    sign("detected stalls on CPUs", Kernel, KernelRegression, Medium),
    sign(
        "detected expedited stalls on CPUs",
        Kernel,
        KernelRegression,
        Medium,
    ),
    // The kernel waits for a thread of its own that gets no CPU: a guest whose host gives it none,
    // or threads of real-time priority.
    sign(" kthread starved for ", Kernel, CpuStarved, High),
    // The bug of the lost epoll wake-ups.
    sign("LP: #1996678", Kernel, KernelRegression, Low),
    release("Linux version 5.4.0-132"),
    release("Linux version 5.4.214-120.368"),
    release("Linux version 5.4.217-126.408"),
    // As `uname` and `kubectl describe node` show them.
    release("5.4.214-120.368.amzn2"),
    release("5.4.217-126.408.amzn2"),
    sign(
        "SLUB: Unable to allocate memory on node -1",
        Kernel,
        MemoryCgroupLeak,
        Medium,
    ),
    // A disk that was taken away, perhaps by the program that offers it.
    sign(
        "device offline error, dev ",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    sign("Out of memory: Kill", Kernel, MemoryThrash, Medium),
    // Up to Linux 2.4.
    sign("Out of Memory: Kill", Kernel, MemoryThrash, Medium),
    // Where the lines after it are missing.
    sign(" invoked oom-killer", Kernel, MemoryThrash, Low).with(&[
        " kubelet invoked",
        " containerd invoked",
        " dockerd invoked",
        " dockerd-current invoked",
        " docker invoked",
        " crio invoked",
    ]),
    // Where the line before it is missing.
    sign("Killed process ", Kernel, MemoryThrash, Medium).with(&[
        "(kubelet)",
        "(containerd)",
        "(dockerd)",
        "(crio)",
    ]),
    sign(
        "Memory cgroup out of memory: Kill",
        Kernel,
        MemoryThrash,
        Medium,
    )
    .with(DAEMONS),
    sign("constraint=CONSTRAINT_NONE", Kernel, MemoryThrash, Medium),
    sign(
        "fork rejected by pids controller in /system.slice",
        Kernel,
        PidsExhausted,
        High,
    ),
    sign(
        "fork rejected by pids controller in ",
        Kernel,
        PidsExhausted,
        Low,
    )
    .without(&["/system.slice"]),
    sign("audit: backlog limit exceeded", Kernel, CpuStarved, Low).lines(3),
    sign("file-max limit", Kernel, FdOrInotifyExhausted, High),
    // What a RAID controller says every five seconds while it waits for its disks.
    sign(
        "commands to complete for scsi",
        Kernel,
        StorageUnresponsive,
        High,
    )
    .lines(3),
    sign(
        "Device offlined - not ready after error recovery",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    // iSCSI.
    sign(": ping timeout of ", Kernel, StorageUnresponsive, Medium).with(&["recv timeout"]),
    sign(
        "session recovery timed out after",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    sign(
        "rejecting I/O to offline device",
        Kernel,
        StorageUnresponsive,
        High,
    ),
    sign("EXT4-fs error", Kernel, StorageUnresponsive, Medium),
    sign(
        "Remounting filesystem read-only",
        Kernel,
        StorageUnresponsive,
        High,
    ),
    // Newer kernels put the process behind "XFS: ".
    sign(
        "possible memory allocation deadlock",
        Kernel,
        MemoryThrash,
        Medium,
    )
    .with(&["XFS: "]),
    sign(
        "Buffer I/O error on dev",
        Kernel,
        StorageUnresponsive,
        Medium,
    )
    .without(&["dev fd", "dev sr"]),
    // Since 5.18 without the function in front.
    sign(" I/O error, dev ", Kernel, StorageUnresponsive, Medium)
        // Drives without a disk in them, which every virtual machine has.
        .without(&["dev fd", "dev sr"]),
    sign(
        "critical medium error, dev ",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    // An NVMe device that does not answer within 30 s is reset, and disabled if that fails.
    sign("timeout, aborting", Kernel, StorageUnresponsive, Medium).with(&["nvme"]),
    sign(
        "timeout, reset controller",
        Kernel,
        StorageUnresponsive,
        Medium,
    )
    .with(&["nvme"]),
    // NVMe over a network, whose path to the storage is gone.
    sign(
        ": starting error recovery",
        Kernel,
        StorageUnresponsive,
        Medium,
    )
    .with(&["nvme"]),
    sign(
        "no usable path - requeuing I/O",
        Kernel,
        StorageUnresponsive,
        High,
    ),
    sign(
        "Disabling device after reset failure",
        Kernel,
        StorageUnresponsive,
        High,
    ),
    // A thin pool without space for its data: what is written to it waits, and fails later.
    sign("out-of-data-space", Kernel, DiskFull, High),
    sign(
        "unable to allocate new metadata block",
        Kernel,
        DiskFull,
        High,
    ),
    sign("errno=-28 No space left", Kernel, DiskFull, High).with(&["BTRFS"]),
    sign("I/O error -28 writing to inode", Kernel, DiskFull, High),
    // The limit of all pods together.
    sign("oom_memcg=/kubepods", Kernel, MemoryThrash, Medium)
        .with(&["oom_memcg=/kubepods,", "oom_memcg=/kubepods.slice,"]),
    sign("compulsory panic_on_oom", Kernel, MemoryThrash, High),
    sign(
        "cifs_reconnect: reconnect failed",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    sign("ceph: mds", Kernel, StorageUnresponsive, Medium)
        .with(&[" hung", "caps stale"])
        .lines(2),
    sign("libceph: mon", Kernel, StorageUnresponsive, Medium)
        .with(&["session lost"])
        .lines(2),
    // ZFS.
    sign(
        "has encountered an uncorrectable I/O failure and has been suspended",
        Kernel,
        StorageUnresponsive,
        High,
    ),
    release("5.4.0-132-generic"),
    // Error 28 is ENOSPC, of such a pool.
    sign("metadata I/O error", Kernel, StorageUnresponsive, Medium)
        .with(&["XFS"])
        .without(&["error 28"]),
    sign(
        "ilesystem has been shut down",
        Kernel,
        StorageUnresponsive,
        High,
    ),
    // It is full, and not dead, where a thin pool below it is.
    sign(
        "Shutting down filesystem",
        Kernel,
        StorageUnresponsive,
        Medium,
    )
    .with(&["XFS"]),
    sign(
        "xfs_log_force: error -5 returned",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    sign(
        "Aborting journal on device",
        Kernel,
        StorageUnresponsive,
        High,
    ),
    sign(
        "xfs_do_force_shutdown(",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    // The device or its path has gone.
    sign("hostbyte=DID_", Kernel, StorageUnresponsive, Medium)
        .with(&[
            "DID_TIME_OUT",
            "DID_NO_CONNECT",
            "DID_BAD_TARGET",
            "DID_TRANSPORT_DISRUPTED",
            "DID_TRANSPORT_FAILFAST",
            "DID_SOFT_ERROR",
        ])
        .without(&["[sr"]),
    sign("ask abort", Kernel, StorageUnresponsive, Medium).with(&[
        "attempting task abort",
        "task abort called for scmd",
        "task abort: FAILED",
    ]),
    sign("failed command: ", Kernel, StorageUnresponsive, Medium)
        .with(&["FPDMA QUEUED", "FLUSH CACHE", "READ DMA", "WRITE DMA"])
        .lines(2),
    // A task has looked for a free page for so long.
    sign("page allocation stalls for", Kernel, MemoryThrash, High),
    // Also where the limit is that of a cpuset.
    sign(",global_oom,", Kernel, MemoryThrash, Medium),
    sign(
        "Failing async write on buffer block",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    sign("target reset", Kernel, StorageUnresponsive, Medium).with(&[
        "attempting target reset",
        "target reset called",
        "target reset FAILED",
        "attempting host reset",
    ]),
    sign(
        "controller is down; will reset",
        Kernel,
        StorageUnresponsive,
        High,
    )
    .with(&["nvme"]),
    sign("forced readonly", Kernel, StorageUnresponsive, Low).with(&["BTRFS"]),
    sign("I/O error ", Kernel, StorageUnresponsive, Medium).with(&[
        "I/O error 10 writing to inode",
        "I/O error 3 writing to inode",
        "I/O error -5 writing to inode",
        "while writing superblock",
    ]),
    // Each restart of a daemon closes a connection.
    sign("libceph: osd", Kernel, StorageUnresponsive, Medium)
        .with(&["socket error on", "connect error", "protocol feature"])
        .lines(3),
    sign("libceph: tid ", Kernel, StorageUnresponsive, High).with(&["timeout"]),
    sign("Possible stuck request", Kernel, StorageUnresponsive, High),
    // DRBD has no copy left to read from or to write to.
    sign(
        "failed to meet the disk-timeout",
        Kernel,
        StorageUnresponsive,
        Medium,
    ),
    sign(
        "Out of memory and no killable processes",
        Kernel,
        MemoryThrash,
        High,
    )
    .without(&["Memory cgroup"]),
    sign("panic_on_oom is enabled", Kernel, MemoryThrash, High),
    // The guest does not run.
    sign(
        "kthread timer wakeup didn't happen for",
        Kernel,
        CpuStarved,
        Medium,
    ),
    sign("gets sufficient CPU time", Kernel, CpuStarved, High).with(&["OOM is now expected"]),
    // An assertion of the kernel's.
    sign("kernel BUG at ", Kernel, KernelRegression, High),
    sign("general protection fault", Kernel, KernelRegression, Medium)
        .with(&["[#1]"])
        .without(&["traps: "]),
    sign(
        "Please umount the filesystem and rectify the problem",
        Kernel,
        StorageUnresponsive,
        Medium,
    )
    .with(&["XFS"]),
    sign("result -108", Kernel, StorageUnresponsive, High).with(&["rbd: rbd"]),
    sign(
        "encountered watch error: -",
        Kernel,
        StorageUnresponsive,
        Medium,
    )
    .with(&["rbd"])
    .lines(2),
];
