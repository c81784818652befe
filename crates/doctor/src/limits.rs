//! The doctor's limits, each with its reason: how long it observes, reads and waits, and the values above which
//! a daemon restarts too often or uses too much. Limits that belong to one cause are in its judge.

use std::time::Duration;

use base::host::RUNC_OVERDUE_AFTER;
use pleg::engine::OVERDUE_AT_LATEST;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// Observing the runtime.

/// A stuck call that is outstanding for this long hangs: the engine has the same limit.
pub(crate) const HANGS_AFTER: Duration = OVERDUE_AT_LATEST;

/// A stuck status call to CRI-O hangs once it is outstanding for this long. If a container's process has
/// ended and its conmon has not written an exit file, CRI-O waits 3.7 s for the file before each answer
/// (`UpdateContainerStatus` in `internal/oci/runtime_oci.go`).
pub(crate) const CRIO_STATUS_HANGS_AFTER: Duration = seconds(5);

/// If both lists are stuck, they hang once they are outstanding for this long: lists may take long on this
/// node.
pub(crate) const BOTH_LISTS_HANG_AFTER: Duration = seconds(9);

/// How long the runtime is observed if the report does not become complete.
pub(crate) const OBSERVING: Duration = seconds(10);

/// How much longer the runtime is observed if a report that was complete no longer is.
pub(crate) const OBSERVING_AGAIN: Duration = seconds(6);

/// How long a runtime may be unreachable during a restart.
pub(crate) const RESTARTS_WITHIN: Duration = seconds(3);

/// A daemon of this age should listen: it takes a second or two to start.
pub(crate) const STARTS_WITHIN_SECONDS: f64 = 10.0;

/// If no call was answered for this many seconds, the runtime is unresponsive, not only paused.
pub(crate) const UNRESPONSIVE_AFTER: f64 = 6.0;

/// Within this time, a healthy runtime has noticed the exit of a process.
pub(crate) const EXIT_NOTICED_WITHIN: Duration = seconds(3);

/// The smallest number of outstanding calls with which an engine works, because the runtime may be overloaded.
pub(crate) const MAX_OUTSTANDING: usize = 12;

/// A runtime that takes longer to answer a call delays the kubelet, which makes one call after the other. A
/// healthy runtime answers within milliseconds.
pub(crate) const SLOW_CALL_SECONDS: f64 = 1.0;

/// A status call of CRI-O for a container that has ended takes 3.7 s if no conmon has recorded the exit: CRI-O
/// then looks for the exit file again and again, with pauses that grow. Measured with CRI-O 1.36 and 1.37.
pub(crate) const EXIT_FILE_AWAITED_SECONDS: f64 = 3.0;

// Reading the machine.

/// How long reading the runtime's state directories and its goroutines may take.
pub(crate) const STATE_DIRECTORIES: Duration = seconds(8);

/// The time that is reserved for reading the runtime's state directories and its goroutines, however long
/// the runtime is observed.
pub(crate) const RESERVED_FOR_READING: Duration = seconds(4);

/// How long reading the first processes of containers may take.
pub(crate) const FIRST_PROCESSES: Duration = seconds(1);

/// How long connecting to a socket may take, which shows the process that listens on it. The kernel
/// establishes the connection, even if the process does not accept it.
pub(crate) const LISTENER: Duration = seconds(1);

/// How long a runtime may take to write its goroutines.
pub(crate) const WRITING_STACKS: Duration = seconds(3);

/// How long a helper may take for a read that takes microseconds on a healthy machine.
pub(crate) const READ_IN_HELPER: Duration = seconds(1);

/// How long a helper may take to read the kernel's table of unix sockets.
pub(crate) const SOCKETS: Duration = seconds(2);

/// How long `rpm` may run: a query by names takes tens of milliseconds.
pub(crate) const RPM: Duration = seconds(3);

/// How many lines of the kernel's log are kept. These are the newest, which show the current state.
pub(crate) const MAX_KERNEL_LINES: usize = 200;

// The kubelet and its reports.

/// How long the kubelet's `/healthz` may take to accept a connection, and to answer.
pub(crate) const HEALTHZ: Duration = seconds(2);

/// How long the API server may take to answer. A healthy server answers within milliseconds, and a kubelet
/// abandons a renewal of its lease after ten seconds.
pub(crate) const API_SERVER: Duration = seconds(4);

/// The maximum size of a lease, which usually has less than a kilobyte.
pub(crate) const MAX_LEASE_BYTES: usize = 64 << 10;

/// A kubelet that has not renewed its lease for longer does not report to the API server. It renews the lease
/// every ten seconds, and a node becomes Unknown after 40 s (50 s since Kubernetes 1.32).
pub(crate) const LEASE_OVERDUE_SECONDS: u64 = 60;

// Logs.

/// How far back logs are read by default.
pub const LOGS_OF: Duration = seconds(15 * 60);

/// How long a helper may take to read one log. The helper ends journalctl after `JOURNAL`.
pub(crate) const LOG: Duration = seconds(5);

/// How long journalctl may run.
pub(crate) const JOURNAL: Duration = seconds(4);

/// The maximum output of journalctl: 20,000 lines have a few MiB.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 16 << 20;

/// How much of the end of a log file is read: a kubelet writes less in 15 minutes.
pub(crate) const LOG_TAIL_BYTES: u64 = 4 << 20;

/// How many lines of a log are kept, so that a bundle stays small.
pub(crate) const MAX_LOG_LINES: usize = 2000;

/// The length to which log lines are cut. What rules search for is in this part.
pub(crate) const MAX_LOG_LINE_CHARS: usize = 2000;

/// A problem that no log line has reported for this long may be over.
pub(crate) const RECENT: Duration = seconds(5 * 60);

// runc, which normally takes less than a second.

/// If a call hangs and a runc has run for this many seconds, the call waits for the runc.
pub(crate) const RUNC_WAITED_FOR_SECONDS: f64 = 5.0;

/// A runc that has run for this many seconds is a fault even if no call hangs.
pub(crate) const RUNC_ALONE_SECONDS: f64 = RUNC_OVERDUE_AFTER.as_secs_f64();

// Daemons that restart, are busy, or grow.

/// If process 1 uses at least this share of a CPU, it may only be slow.
pub(crate) const BUSY_CPU_SHARE: f64 = 0.5;

/// systemd's own limit on starts in quick succession (`DefaultStartLimitBurst`).
pub(crate) const MIN_RESTARTS: u32 = 5;

/// The maximum time from one restart of a repair loop to the next: PLEG is unhealthy 3 minutes after the start,
/// `/healthz` fails 5 minutes later, the repair waits one minute, and a stop may take 90 s.
pub(crate) const MAX_ROUND_SECONDS: f64 = 720.0;

/// A service that has run for this many average rounds is no longer in the loop.
pub(crate) const ROUNDS_TO_RECOVER: f64 = 3.0;

/// A kubelet with shorter rounds exits by itself: node-problem-detector does not restart a kubelet in the
/// first two minutes after its start, and GKE's monitor does not in the first minute.
pub(crate) const MAX_ROUND_OF_EXITS_SECONDS: f64 = 60.0;

/// The share of the machine's memory above which a daemon uses too much. GKE reserves a quarter of the first
/// 4 GiB, and less of the rest, for all daemons of a node together.
pub(crate) const MEMORY_SHARE: f64 = 0.25;

/// A daemon that uses less memory does not leak, however small the machine is.
pub(crate) const MIN_LEAK_KIB: u64 = 1 << 20;

/// A daemon that uses more memory leaks, however large the machine is: thousands of containers need a few GiB.
pub(crate) const MAX_LEAK_KIB: u64 = 8 << 20;

/// If at least this share of a limit on memory, files or watches is used, it may soon be reached.
pub(crate) const NEAR_SHARE: f64 = 0.85;

/// Half of the number of threads at which Go ends a program (`SetMaxThreads`). A daemon has some dozens; any
/// others are blocked in the kernel.
pub(crate) const MANY_THREADS: u32 = 5_000;

/// More descriptors than a daemon needs: a thousand containers need about ten thousand.
pub(crate) const MANY_DESCRIPTORS: u64 = 50_000;
