//! The kernel, and memory that it has not.

use super::{Failure, failure};

const GPU_IS_GONE: &str = "a GPU no longer responds: it has fallen off the PCI bus";

const NO_KERNEL_MEMORY: &str = "the kernel cannot allocate memory";

pub(super) const KERNEL: &[Failure] = &[
    failure(
        "BUG: soft lockup",
        "a processor made no progress for a while",
    ),
    failure(
        "Watchdog detected hard LOCKUP on ",
        "a processor did not even react to interrupts for a while",
    ),
    failure(
        "Kernel panic - not syncing: ",
        "the kernel failed, and stopped or restarted the node",
    ),
    failure(
        "not syncing: hung_task: blocked tasks",
        "the kernel restarted the node because a process was blocked in it for too long",
    ),
    // What a mail client left of it on its second line.
    Failure {
        with: &["CPU#"],
        ..failure(" stuck for ", "a processor made no progress for a while")
    },
    Failure {
        with: &["cannot allocate memory"],
        ..failure(
            "fork/exec /",
            "a program cannot be started: the kernel has no memory for it",
        )
    },
    failure("vmalloc: allocation failure", NO_KERNEL_MEMORY),
    failure("page allocation failure: order:0", NO_KERNEL_MEMORY),
    failure(
        "BUG: workqueue lockup",
        "a worker of the kernel made no progress for a while",
    ),
    failure(
        "BUG: kernel NULL pointer dereference",
        "the kernel failed in one of its own functions",
    ),
    Failure {
        // ENOMEM, where too many threads are EAGAIN.
        with: &["errno=12"],
        ..failure(
            "failed to create new OS thread",
            "a program cannot create a thread: the kernel has no memory for it",
        )
    },
    failure(
        // NVIDIA's Xid 79.
        "GPU has fallen off the bus",
        GPU_IS_GONE,
    ),
    failure("fallen off the bus and is not responding", GPU_IS_GONE),
];
