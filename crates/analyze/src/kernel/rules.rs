//! What a kernel stack proves: by the lock, the device or the answer that the task waits for.

use causes::Cause;
use causes::finding::{Confidence, Culprit};
use causes::versions::kernel_faults;

use super::KernelStack;
use crate::proof::Proof;

use Cause::*;
use Confidence::*;

/// Functions in which a task waits, and the cause that each shows. The innermost frame that is
/// listed here decides; `nfs_` stands for all functions with this prefix.
const FUNCTIONS: &[(&str, Cause, Confidence)] = &[
    ("fanotify_handle_event", FanotifyBlocked, Certain),
    ("fanotify_get_response", FanotifyBlocked, Certain),
    ("__refrigerator", RuncInitFrozen, High),
    ("refrigerator", RuncInitFrozen, High),
    ("do_freezer_trap", RuncInitFrozen, Medium),
    // Local file systems and their journals.
    ("ovl_sync_fs", StorageUnresponsive, High),
    ("sync_filesystem", StorageUnresponsive, High),
    ("sync_inodes_sb", StorageUnresponsive, High),
    ("wb_wait_for_completion", StorageUnresponsive, High),
    ("xfs_log_force", StorageUnresponsive, High),
    ("xlog_", StorageUnresponsive, High),
    ("xfs_buf_", StorageUnresponsive, High),
    ("jbd2_log_wait_commit", StorageUnresponsive, High),
    (
        "jbd2_journal_commit_transaction",
        StorageUnresponsive,
        Medium,
    ),
    ("jbd2_", StorageUnresponsive, Medium),
    ("wait_transaction_locked", StorageUnresponsive, Medium),
    ("btrfs_commit_transaction", StorageUnresponsive, High),
    ("wait_current_trans", StorageUnresponsive, High),
    ("btrfs_", StorageUnresponsive, Medium),
    ("txg_wait_", StorageUnresponsive, High),
    ("zil_commit", StorageUnresponsive, High),
    ("zpl_", StorageUnresponsive, Medium),
    ("zfs", StorageUnresponsive, Medium),
    // A mount or an unmount of the same file system is under way.
    ("grab_super", StorageUnresponsive, Medium),
    ("gfs2_", StorageUnresponsive, Medium),
    ("ocfs2_", StorageUnresponsive, Medium),
    // The device mapper, which waits for what its devices have yet to do.
    ("dm_suspend", StorageUnresponsive, Medium),
    // The thread of a RAID, or whoever waits for it.
    ("md_unregister_thread", StorageUnresponsive, Medium),
    ("md_write_start", StorageUnresponsive, Medium),
    ("md_handle_request", StorageUnresponsive, Medium),
    ("__dm_suspend", StorageUnresponsive, Medium),
    // File systems behind a network or a process.
    ("rpc_wait_bit_killable", StorageUnresponsive, High),
    ("nfs_wait_bit_killable", StorageUnresponsive, High),
    ("nfs4_", StorageUnresponsive, High),
    ("nfs_", StorageUnresponsive, High),
    ("request_wait_answer", StorageUnresponsive, High),
    ("fuse_", StorageUnresponsive, High),
    ("ceph_", StorageUnresponsive, High),
    ("rbd_", StorageUnresponsive, Medium),
    ("cifs_", StorageUnresponsive, High),
    ("smb2_", StorageUnresponsive, Medium),
    ("SMB2_", StorageUnresponsive, High),
    ("compound_send_recv", StorageUnresponsive, High),
    ("smb_send_rqst", StorageUnresponsive, High),
    ("p9_client_rpc", StorageUnresponsive, High),
    // Lustre's.
    ("osc_", StorageUnresponsive, Medium),
    ("ptlrpc_", StorageUnresponsive, Medium),
    ("ldlm_", StorageUnresponsive, Medium),
    ("cl_io_", StorageUnresponsive, Medium),
    ("cl_sync_io_", StorageUnresponsive, Medium),
    ("llog_process", StorageUnresponsive, Medium),
    ("autofs_wait", StorageUnresponsive, High),
    // The threads of ZFS, and whoever waits for them.
    ("txg_sync_thread", StorageUnresponsive, High),
    ("spa_sync", StorageUnresponsive, Medium),
    ("dmu_tx_wait", StorageUnresponsive, Medium),
    ("zio_wait", StorageUnresponsive, Medium),
    // GPFS waits for its daemon.
    ("cxiWaitEventWait", StorageUnresponsive, High),
    // One request, or all that a device has not answered.
    ("blk_mq_freeze_queue_wait", StorageUnresponsive, High),
    ("submit_bio_wait", StorageUnresponsive, Medium),
    ("blk_execute_rq", StorageUnresponsive, Medium),
    ("scsi_execute", StorageUnresponsive, Medium),
    // A device that somebody else opens or closes.
    ("__blkdev_get", StorageUnresponsive, Medium),
    ("blkdev_get_by_dev", StorageUnresponsive, Medium),
    ("blkdev_put", StorageUnresponsive, Medium),
    ("bd_prepare_to_claim", StorageUnresponsive, Medium),
    // The one request that an SD card takes at a time.
    ("__mmc_claim_host", StorageUnresponsive, Medium),
    ("mmc_wait_", StorageUnresponsive, Medium),
    // A request that has not found a place in the queue of its device.
    ("get_request_wait", StorageUnresponsive, Medium),
    // The queue of a disk.
    ("blk_mq_get_tag", DiskSaturated, Medium),
    ("rq_qos_wait", DiskSaturated, Medium),
    ("wbt_wait", DiskSaturated, Medium),
    ("balance_dirty_pages", DiskSaturated, Medium),
    // The lock of all network devices, and that of all network namespaces.
    ("netdev_run_todo", RtnlStuck, High),
    ("netdev_wait_allrefs", RtnlStuck, Certain),
    ("rtnl_lock", RtnlStuck, High),
    ("rtnetlink_rcv", RtnlStuck, Medium),
    ("copy_net_ns", RtnlStuck, High),
    ("register_pernet_", RtnlStuck, Medium),
    ("unregister_pernet_", RtnlStuck, Medium),
    // Memory control groups.
    ("mem_cgroup_oom_synchronize", MemoryThrash, Medium),
    ("mem_cgroup_write", MemoryCgroupLeak, Medium),
    ("mem_cgroup_css_offline", MemoryCgroupLeak, Medium),
    (
        "kmem_cache_destroy_memcg_children",
        MemoryCgroupLeak,
        Medium,
    ),
    ("memcg_", MemoryCgroupLeak, Medium),
    // Memory that has to be found first.
    ("do_swap_page", MemoryThrash, Medium),
    ("shrink_inactive_list", MemoryThrash, Medium),
    ("shrink_node", MemoryThrash, Medium),
    ("reclaim_throttle", MemoryThrash, Medium),
    ("throttle_direct_reclaim", MemoryThrash, Medium),
    ("do_try_to_free_pages", MemoryThrash, Medium),
    // XFS tries again until it gets memory.
    ("kmem_zone_alloc", MemoryThrash, Medium),
    ("kmem_alloc", MemoryThrash, Medium),
    ("cgroup_drain_dying", KernelRegression, Medium),
    ("mb_cache_entry_wait_unused", KernelRegression, High),
    ("io_uring_cancel", KernelRegression, Medium),
    ("io_ring_exit_work", KernelRegression, Medium),
    ("vfio_", ShimUnresponsive, Medium),
    ("iommu_", ShimUnresponsive, Medium),
    ("audit_log_start", CpuStarved, Low),
];

/// Functions that decide only if no other does: tasks wait in them for many reasons.
const WEAK: &[(&str, Cause, Confidence)] = &[
    ("cleanup_net", RtnlStuck, Medium),
    ("netlink_recvmsg", CniPluginHang, Medium),
    ("io_schedule", StorageUnresponsive, Medium),
    // For what the process has asked of a disk and not waited for.
    ("exit_aio", StorageUnresponsive, Medium),
    ("d_alloc_parallel", StorageUnresponsive, Medium),
    // The end of the last mount of a file system.
    ("generic_shutdown_super", StorageUnresponsive, Medium),
    ("deactivate_super", StorageUnresponsive, Medium),
    ("do_reconfigure_mnt", StorageUnresponsive, Medium),
    ("iterate_supers", StorageUnresponsive, Medium),
    ("__sb_start_write", StorageUnresponsive, Medium),
    // For what bcache and bcachefs have asked of a device.
    ("__closure_sync", StorageUnresponsive, Medium),
    ("bch2_", StorageUnresponsive, Medium),
    ("lookup_slow", StorageUnresponsive, Medium),
    // For whoever else opens a file in the same directory.
    ("do_last", StorageUnresponsive, Medium),
    ("wait_on_page_bit", StorageUnresponsive, Medium),
    ("folio_wait_bit", StorageUnresponsive, Medium),
    ("xfs_", StorageUnresponsive, Medium),
    ("ext4_", StorageUnresponsive, Low),
];

/// Locks of the kernel itself, which no disk and no network holds, but only a CPU that makes no
/// progress, or a kernel bug.
const KERNEL_LOCKS: &[&str] = &[
    "synchronize_srcu",
    "__synchronize_srcu",
    "synchronize_rcu",
    "synchronize_rcu_expedited",
    "__wait_rcu_gp",
    "rcu_barrier",
    "lru_add_drain_all",
    "__lru_add_drain_all",
    "cgroup_kn_lock_live",
    "cgroup_lock_live_group",
    "cgroup_mkdir",
    "cgroup_rmdir",
    "cgroup_procs_write",
    "__cgroup_procs_write",
    "proc_cgroup_show",
    "cgroup_attach_lock",
    // The lock of all shrinkers, which each mount and each memory cgroup needs.
    "register_shrinker",
    "register_shrinker_prepared",
    "prealloc_shrinker",
    "unregister_shrinker",
];

/// Where a FUSE server waits for the next request, which nobody else waits for.
const SERVER_IDLES: &str = "fuse_dev_do_read";

/// Functions of io_uring that take the lock of a ring.
const RING: &[&str] = &["__do_sys_io_uring_enter", "io_poll_task_func"];

/// Everything that is looked for in a stack.
#[cfg(test)]
pub(crate) fn needles() -> impl Iterator<Item = &'static str> {
    let functions = FUNCTIONS.iter().chain(WEAK).map(|(function, ..)| *function);
    functions.chain(KERNEL_LOCKS.iter().copied())
}

/// A disk that is only slow has done a request by then.
const ENDLESS_SECONDS: u64 = 480;

/// No host keeps a virtual machine's processor from running for so long.
const NO_HOST_PAUSES_SECONDS: u64 = 120;

/// Threads and commands that wait for nothing but a file system or its device.
const THREADS_OF_STORAGE: &[&str] = &["jbd2/", "xfsaild", "xfs-", "btrfs-", "flush-", "mount."];
const COMMANDS_OF_STORAGE: &[&str] = &["mount", "sync", "umount"];

/// The first entry that a function's name begins with; `ps` cuts names.
fn entry(
    table: &'static [(&str, Cause, Confidence)],
    name: &str,
) -> Option<(&'static str, Cause, Confidence)> {
    let found = table.iter().find(|(function, _, _)| {
        name.starts_with(function) || name.len() >= 5 && function.starts_with(name)
    });
    found.copied()
}

/// What waiting in this function tells.
pub fn cause_of_function(name: &str) -> Option<(Cause, Confidence)> {
    let found = entry(FUNCTIONS, name).or_else(|| entry(WEAK, name));
    found.map(|(_, cause, confidence)| (cause, confidence))
}

/// What the stack shows; `None` if nothing in it is known. The release of the kernel is named only
/// if the stack shows a fault that the release has.
pub fn proof(stack: &KernelStack) -> Option<Proof> {
    let shown = shown(stack);
    let fault = known_fault(stack).filter(|_| {
        let is_other = |proof: &Proof| proof.cause != KernelRegression;
        !shown.as_ref().is_some_and(is_other)
    });
    match (shown, fault) {
        (shown, Some(fault)) => {
            let mut proof = shown.unwrap_or_else(|| of(stack, KernelRegression, Low, ""));
            proof.says += &fault;
            Some(proof)
        }
        (shown, None) => shown,
    }
}

fn shown(stack: &KernelStack) -> Option<Proof> {
    if stack.is_running {
        return of_running(stack);
    }
    let process = stack.process.as_deref().unwrap_or_default();
    let calls = |function: &str| {
        let mut functions = stack.functions.iter();
        functions.any(|name| name.starts_with(function))
    };
    if calls("crash_kexec") || calls("__crash_kexec") {
        return Some(of_crash(stack));
    }
    if calls(SERVER_IDLES) {
        return None;
    }
    if process.starts_with("runc") && (calls("pipe_write") || calls("pipe_wait")) {
        return Some(of(stack, RuncSeccompPipe, High, "pipe_write"));
    }
    let innermost = |table| {
        let mut functions = stack.functions.iter();
        functions.find_map(|name| entry(table, name))
    };
    // A ring is waited for without its lock for as long as nothing happens.
    let of_a_ring = || {
        let mut functions = stack.functions.iter();
        let of_ring = functions.find_map(|name| RING.iter().find(|ring| name.starts_with(**ring)));
        let is_hung = stack.blocked_seconds.is_some() && calls("__mutex_lock");
        let function = of_ring.filter(|_| is_hung)?;
        Some((*function, KernelRegression, Medium))
    };
    let found = innermost(FUNCTIONS).or_else(of_a_ring);
    // What the kernel itself waits for in a file system is not the file system.
    if found.is_none() && kernel_lock(stack).is_some() {
        return None;
    }
    if let Some((function, cause, confidence)) = found.or_else(|| innermost(WEAK)) {
        let is_endless = stack.blocked_seconds >= Some(ENDLESS_SECONDS);
        let cause = match cause {
            DiskSaturated if is_endless => StorageUnresponsive,
            cause => cause,
        };
        return Some(of(stack, cause, confidence, function));
    }
    // Without a stack only the task itself can tell for what it waits.
    let is_hung = stack.blocked_seconds.is_some();
    if is_hung && stack.decides_on_files {
        let mut proof = of(stack, FanotifyBlocked, Medium, "");
        proof.says += ", and decides by fanotify which files others may open";
        return Some(proof);
    }
    let is_of_storage = COMMANDS_OF_STORAGE.contains(&process)
        || THREADS_OF_STORAGE
            .iter()
            .any(|name| process.starts_with(name));
    (is_hung && is_of_storage).then(|| of(stack, StorageUnresponsive, Medium, ""))
}

/// The fault of this kernel's release that the stack shows.
fn known_fault(stack: &KernelStack) -> Option<String> {
    let release = stack.release.as_deref()?;
    let is_stuck = stack.blocked_seconds.is_some() || stack.locked_up_seconds.is_some();
    let functions = || stack.instruction.iter().chain(&stack.functions);
    let mut faults = kernel_faults(release).into_iter();
    let fault = faults.find(|fault| is_stuck && fault.is_in(functions().map(String::as_str)))?;
    let fixed = fault.fixed.map(|fixed| format!("; fixed in {fixed}"));
    Some(format!(
        "; its release, {release}, has a known fault: {}{}",
        fault.what,
        fixed.unwrap_or_default()
    ))
}

/// For a task that has been blocked for long by a lock of the kernel itself, or of which the head of
/// its stack, which tells that, was cut off.
pub fn held_up(stack: &KernelStack) -> Option<Proof> {
    let may_be_hung = stack.blocked_seconds.is_some() || stack.process.is_none();
    let function = kernel_lock(stack).filter(|_| may_be_hung)?;
    let mut proof = of(stack, KernelRegression, Low, function);
    proof.says += ", for the kernel itself: a CPU without progress or a fault of the kernel holds \
                   it up";
    // Whoever waits does not hold it.
    proof.culprit = Culprit::default();
    Some(proof)
}

/// The function in which it waits for the kernel itself. Who holds that up, the stack of whoever
/// waits does not show.
pub fn kernel_lock(stack: &KernelStack) -> Option<&str> {
    let mut functions = stack.functions.iter();
    let found = functions.find(|name| KERNEL_LOCKS.contains(&name.as_str()));
    found.map(String::as_str)
}

/// The kernel itself has crashed in this task.
fn of_crash(stack: &KernelStack) -> Proof {
    let who = stack.who().unwrap_or_else(|| "a task".to_owned());
    let says = format!("the kernel crashed while it ran {who}");
    Proof::new(KernelRegression, Medium, stack.line, says)
}

/// A task that runs does not wait, whatever its frames; one that finds no page tells that the
/// memory is used up, unless it is only that of a memory cgroup.
fn of_running(stack: &KernelStack) -> Option<Proof> {
    let calls = |function: &str| {
        stack
            .functions
            .iter()
            .any(|name| name.starts_with(function))
    };
    if let Some(seconds) = stack.locked_up_seconds {
        return of_locked_up(stack, seconds);
    }
    let is_global = calls("out_of_memory") && calls("__alloc_pages");
    let is_of_a_group = calls("mem_cgroup") || calls("try_charge");
    (is_global && !is_of_a_group).then(|| {
        let who = stack.who().unwrap_or_else(|| "a task".to_owned());
        let says = format!("{who} finds no free page on the whole node");
        Proof::new(MemoryThrash, Medium, stack.line, says)
    })
}

/// A task that keeps its processor. For a while that may be the host of a virtual machine, which
/// does not let it run; where it is seen what it does, or after minutes, it is the kernel, unless it
/// waits for another processor.
fn of_locked_up(stack: &KernelStack, seconds: u64) -> Option<Proof> {
    let who = stack.who().unwrap_or_else(|| "a task".to_owned());
    let long = format!("a processor has made no progress for {seconds} s in {who}");
    let proof = |cause, confidence, says| Some(Proof::new(cause, confidence, stack.line, says));
    let no_host_pauses = seconds >= NO_HOST_PAUSES_SECONDS;
    let confidence = if no_host_pauses { High } else { Medium };
    let mut functions = stack.instruction.iter().chain(&stack.functions);
    match functions.next() {
        Some(function) if function.starts_with("smp_call_function") => {
            let says =
                format!("{long}: it waits in {function} for another, which does not respond");
            proof(CpuStarved, Low, says)
        }
        Some(function) => proof(
            KernelRegression,
            confidence,
            format!("{long}, in {function}"),
        ),
        None if no_host_pauses => proof(KernelRegression, confidence, long),
        None => {
            let says = format!("{long}: the kernel is busy, or its host does not let it run");
            proof(CpuStarved, Low, says)
        }
    }
}

fn of(stack: &KernelStack, cause: Cause, confidence: Confidence, function: &str) -> Proof {
    let long = match stack.blocked_seconds {
        Some(seconds) => format!(" for more than {seconds} s"),
        None => String::new(),
    };
    let place = match function {
        "" => String::new(),
        function => format!(" in {function}"),
    };
    let who = stack.who().unwrap_or_else(|| "a task".to_owned());
    let says = format!("{who} waits{long}{place} in the kernel");
    let culprit = Culprit {
        pid: stack.pid,
        process: stack.process.clone(),
        ..Culprit::default()
    };
    Proof::new(cause, confidence, stack.line, says).of(culprit)
}
