//! The kernel, the node's resources and its operation.

use super::About;

pub(super) const FD_OR_INOTIFY: About = About {
    title: "file descriptors or inotify instances are used up",
    advice: &[
        "set fs.inotify.max_user_instances to 8192 or more",
        "raise LimitNOFILE of the unit that ran out, and find what leaks",
    ],
    fixed_in: &["containerd 1.6.0 (one inotify instance for each shim before)"],
    references: &["https://github.com/containerd/containerd/pull/11652"],
};

pub(super) const RTNL_STUCK: About = About {
    title: "the kernel's network lock is held: a network namespace cannot be taken down",
    advice: &[
        "reboot the node: nothing else frees the lock",
        "then use a newer kernel",
    ],
    fixed_in: &[],
    references: &["https://github.com/moby/moby/issues/5618"],
};

pub(super) const KERNEL_REGRESSION: About = About {
    title: "this kernel has a known fault that stops processes",
    advice: &["compare the kernel's release with the fixed ones, and boot another"],
    fixed_in: &[
        "Ubuntu 5.4.0-135.152 (lost epoll wake-ups)",
        "Amazon Linux 2 5.4.219-126.411 (lost epoll wake-ups)",
        "Amazon Linux 2023 6.1.119-129.201 (io_uring)",
    ],
    references: &[
        "https://bugs.launchpad.net/bugs/1996678",
        "https://github.com/opencontainers/runc/issues/3641",
    ],
};

pub(super) const MEMORY_CGROUP_LEAK: About = About {
    title: "memory cgroups leak until none can be made",
    advice: &[
        "compare num_cgroups in /proc/cgroups with the folders under the hierarchy",
        "reboot; then boot with cgroup.memory=nokmem, or update the kernel and runc",
    ],
    fixed_in: &["RHEL/CentOS 7: kernel-3.10.0-1075.el7", "runc 1.0.0-rc94"],
    references: &["https://github.com/kubernetes/kubernetes/issues/61937"],
};

pub(super) const STORAGE_UNRESPONSIVE: About = About {
    title: "a file system does not answer: a process waits in the kernel for its storage",
    advice: &[
        "find the server or device behind the mount of the process that waits",
        "unmount a dead network share with `umount -f -l`; abort a dead FUSE mount by its connection",
        "where unmounting overlayfs waits for a sync, take load off the disk or mount it `volatile`",
    ],
    fixed_in: &[],
    references: &[
        "https://github.com/containerd/containerd/issues/5325",
        "https://github.com/kubernetes/kubernetes/issues/94829",
    ],
};

pub(super) const FANOTIFY_BLOCKED: About = About {
    title: "an agent that must permit every open or exec does not answer",
    advice: &["stop the agent that holds the fanotify marks; ending it lets everybody go on"],
    fixed_in: &[],
    references: &["https://github.com/Azure/AgentBaker/issues/9089"],
};

pub(super) const DISK_SATURATED: About = About {
    title: "the disk is slower than what the node asks of it",
    advice: &[
        "look at /proc/pressure/io and at the device's queue; a flat ceiling is a quota of the cloud",
        "use a larger or a local disk for the runtime's root, and limit logs",
    ],
    fixed_in: &[],
    references: &["https://github.com/Azure/AKS/issues/1373"],
};

pub(super) const CPU_STARVED: About = About {
    title: "the node's processes did not get the CPU: it was paused, stolen or over-used",
    advice: &[
        "look for a live migration, a snapshot or a suspended machine at that time",
        "reserve CPU for the kubelet and the runtime; look at steal and at /proc/pressure/cpu",
    ],
    fixed_in: &[],
    references: &["https://github.com/kubernetes/kubernetes/issues/45419"],
};

pub(super) const MEMORY_THRASH: About = About {
    title: "the node is out of memory",
    advice: &[
        "look at /proc/pressure/memory, and at what the kernel killed",
        "set memory limits, and reserve memory for the system (systemReserved, evictionHard)",
    ],
    fixed_in: &[],
    references: &[
        "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
    ],
};

pub(super) const DISK_FULL: About = About {
    title: "a file system is full",
    advice: &[
        "look at `df` and `df -i` of the runtime's root, /var/lib/kubelet, /run and /var/log",
        "a full /run breaks runc and the shims even if the disk has room",
    ],
    fixed_in: &[],
    references: &[
        "https://kubernetes.io/docs/concepts/scheduling-eviction/node-pressure-eviction/",
    ],
};

pub(super) const PIDS_EXHAUSTED: About = About {
    title: "no more processes or threads can be made",
    advice: &[
        "compare the number of tasks with kernel.pid_max and with pids.max of the unit",
        "look for zombies, and set podPidsLimit",
    ],
    fixed_in: &[],
    references: &["https://github.com/kubernetes/kubernetes/issues/54313"],
};

pub(super) const REPAIR_LOOP: About = About {
    title: "the kubelet is restarted again and again, which only resets its clock",
    advice: &[
        "stop what restarts it (a health script, node-problem-detector's repair, a watchdog)",
        "find what hangs from the start: a restart does not change it",
    ],
    fixed_in: &[],
    references: &["https://github.com/kubernetes/node-problem-detector"],
};
