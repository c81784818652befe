//! What a kernel stack proves: a table of functions.

use causes::Cause;
use causes::finding::Confidence;

use super::KernelStack;

/// What a stack proves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof {
    /// The cause.
    pub cause: Cause,
    /// How sure it is.
    pub confidence: Confidence,
    /// The function that tells.
    pub function: &'static str,
}

use Cause::*;
use Confidence::*;

/// Functions in which a task waits, the most telling first. The innermost calls are always
/// the scheduler's.
const FUNCTIONS: [(&str, Cause, Confidence); 38] = [
    ("fanotify_handle_event", FanotifyBlocked, Certain),
    ("fanotify_get_response", FanotifyBlocked, Certain),
    ("__refrigerator", RuncInitFrozen, High),
    ("refrigerator", RuncInitFrozen, High),
    ("do_freezer_trap", RuncInitFrozen, Medium),
    ("ovl_sync_fs", StorageUnresponsive, High),
    ("sync_filesystem", StorageUnresponsive, High),
    ("sync_inodes_sb", StorageUnresponsive, High),
    ("wb_wait_for_completion", StorageUnresponsive, High),
    ("xfs_log_force", StorageUnresponsive, High),
    ("jbd2_log_wait_commit", StorageUnresponsive, High),
    (
        "jbd2_journal_commit_transaction",
        StorageUnresponsive,
        Medium,
    ),
    ("wait_transaction_locked", StorageUnresponsive, Medium),
    ("rpc_wait_bit_killable", StorageUnresponsive, High),
    ("nfs_wait_bit_killable", StorageUnresponsive, High),
    ("nfs4_", StorageUnresponsive, High),
    ("nfs_", StorageUnresponsive, High),
    ("request_wait_answer", StorageUnresponsive, High),
    ("fuse_", StorageUnresponsive, High),
    ("ceph_", StorageUnresponsive, High),
    ("cifs_", StorageUnresponsive, High),
    ("smb2_", StorageUnresponsive, Medium),
    ("io_schedule", StorageUnresponsive, Medium),
    ("blk_mq_get_tag", DiskSaturated, Medium),
    ("netdev_run_todo", RtnlStuck, High),
    ("netdev_wait_allrefs", RtnlStuck, Certain),
    ("rtnl_lock", RtnlStuck, High),
    ("rtnetlink_rcv", RtnlStuck, Medium),
    ("cleanup_net", RtnlStuck, Medium),
    ("cgroup_drain_dying", KernelRegression, Medium),
    ("mb_cache_entry_wait_unused", KernelRegression, High),
    ("io_uring_cancel", KernelRegression, Medium),
    ("io_ring_exit_work", KernelRegression, Medium),
    ("vfio_", ShimUnresponsive, Medium),
    ("iommu_", ShimUnresponsive, Medium),
    ("audit_log_start", CpuStarved, Low),
    ("mem_cgroup_oom_synchronize", MemoryThrash, Medium),
    ("netlink_recvmsg", CniPluginHang, Medium),
];

/// What waiting in this function tells; `ps` cuts its names.
pub fn cause_of_function(name: &str) -> Option<(Cause, Confidence)> {
    let found = FUNCTIONS.iter().find(|(function, _, _)| {
        name.starts_with(function) || name.len() >= 5 && function.starts_with(name)
    });
    found.map(|(_, cause, confidence)| (*cause, *confidence))
}

/// What the stack proves.
pub fn proof(stack: &KernelStack) -> Option<Proof> {
    let process = stack.process.as_deref().unwrap_or_default();
    let calls = |function: &str| {
        stack
            .functions
            .iter()
            .any(|name| name.starts_with(function))
    };
    if process.starts_with("runc") && (calls("pipe_write") || calls("pipe_wait")) {
        return Some(Proof {
            cause: RuncSeccompPipe,
            confidence: High,
            function: "pipe_write",
        });
    }
    let found = FUNCTIONS.iter().find(|(function, _, _)| calls(function));
    let proof = found.map(|(function, cause, confidence)| Proof {
        cause: *cause,
        confidence: *confidence,
        function,
    });
    // The kernel itself says that it hangs; where it waits is not known here.
    let hung = stack.blocked_seconds.is_some().then_some(Proof {
        cause: StorageUnresponsive,
        confidence: Low,
        function: "",
    });
    proof.or(hung)
}
