//! The doctor's limits that are no fact of a cause: how long something is observed, read or waited for,
//! and from where on a daemon restarts too often or uses too much. Each with its reason.

use std::time::Duration;

use base::host::RUNC_OVERDUE_AFTER;
use pleg::engine::OVERDUE_AT_LATEST;

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// Observing the runtime.

/// A stuck call that is outstanding for longer is a fault: the engine has the same limit.
pub(crate) const HANGS_AFTER: Duration = OVERDUE_AT_LATEST;

/// The same of a status call to CRI-O. If a container's process has ended and there is no exit file of
/// its conmon, CRI-O looks for the file for 3.7 s before it answers, each time (`UpdateContainerStatus` in
/// `internal/oci/runtime_oci.go`).
pub(crate) const CRIO_STATUS_HANGS_AFTER: Duration = seconds(5);

/// The same of both lists together: they may take long on this node.
pub(crate) const BOTH_LISTS_HANG_AFTER: Duration = seconds(9);

/// After this time the doctor judges what was observed until then.
pub(crate) const OBSERVING: Duration = seconds(10);

/// The same if what was complete is not any more.
pub(crate) const OBSERVING_AGAIN: Duration = seconds(6);

/// A runtime that was restarted listens again within this time.
pub(crate) const RESTARTS_WITHIN: Duration = seconds(3);

/// A daemon that does not listen is late at this age: it listens within a second or two.
pub(crate) const STARTS_WITHIN_SECONDS: f64 = 10.0;

/// If nothing was answered for longer, in seconds, the runtime is unresponsive, and not paused.
pub(crate) const UNRESPONSIVE_AFTER: f64 = 6.0;

/// Within this time, a healthy runtime has noticed the exit of a process.
pub(crate) const EXIT_NOTICED_WITHIN: Duration = seconds(3);

/// As few calls as an engine can do with: an unhealthy runtime is what the doctor is for.
pub(crate) const MAX_OUTSTANDING: usize = 12;

/// A runtime that takes longer for a call does not respond normally, and delays a kubelet, which makes one
/// call after the other. A healthy one answers within milliseconds.
pub(crate) const SLOW_CALL_SECONDS: f64 = 1.0;

// Reading the machine.

/// How long reading the runtime's state directories and its goroutines may take.
pub(crate) const STATE_DIRECTORIES: Duration = seconds(8);

/// The time that is kept for it if the calls use up all of theirs.
pub(crate) const RESERVED_FOR_READING: Duration = seconds(4);

/// How long reading the first processes of containers may take.
pub(crate) const FIRST_PROCESSES: Duration = seconds(1);

/// How long it may take to learn which process listens on a socket. The kernel makes the connection: the
/// process need not accept it.
pub(crate) const LISTENER: Duration = seconds(1);

/// How long a runtime may take to write its goroutines.
pub(crate) const WRITING_STACKS: Duration = seconds(3);

/// What takes microseconds on a healthy machine may take this long in a helper.
pub(crate) const READ_IN_HELPER: Duration = seconds(1);

/// The same of the table of unix sockets, which the kernel has in memory.
pub(crate) const SOCKETS: Duration = seconds(2);

/// How long `rpm` may run: a query by names takes tens of milliseconds.
pub(crate) const RPM: Duration = seconds(3);

/// How many lines of the kernel's log are kept: the newest, which show the current state.
pub(crate) const MAX_KERNEL_LINES: usize = 200;

// The kubelet and its reports.

/// How long the kubelet's `/healthz` may take to accept a connection, and to answer.
pub(crate) const HEALTHZ: Duration = seconds(2);

/// How long the API server may take. A kubelet gives up a renewal of its lease after ten seconds, and a
/// healthy server answers within milliseconds.
pub(crate) const API_SERVER: Duration = seconds(4);

/// A lease takes less than a kilobyte.
pub(crate) const MAX_LEASE_BYTES: usize = 64 << 10;

/// A kubelet that has not renewed its lease for longer does not report: it renews it every ten seconds,
/// and a node becomes Unknown after 40 s (50 s since Kubernetes 1.32).
pub(crate) const LEASE_OVERDUE_SECONDS: u64 = 60;

// Logs.

/// Logs are read for this long, unless another time is requested.
pub const LOGS_OF: Duration = seconds(15 * 60);

/// How long one log may take to be read: a helper ends journalctl after `JOURNAL`.
pub(crate) const LOG: Duration = seconds(5);

/// How long journalctl may run.
pub(crate) const JOURNAL: Duration = seconds(4);

/// The size of what journalctl prints: 20,000 lines take a few MiB.
pub(crate) const MAX_JOURNAL_BYTES: u64 = 16 << 20;

/// How much of the end of a file is read: a kubelet writes less in 15 minutes.
pub(crate) const LOG_TAIL_BYTES: u64 = 4 << 20;

/// How many lines of a log are kept, so that a bundle stays small.
pub(crate) const MAX_LOG_LINES: usize = 2000;

/// Longer lines are cut; what a rule searches stands before.
pub(crate) const MAX_LOG_LINE_CHARS: usize = 2000;

/// A problem that no line of a log reports for this long may be over.
pub(crate) const RECENT: Duration = seconds(5 * 60);

// runc, which normally takes less than a second.

/// A call hangs, and waits for a runc that is this old: the runc holds it up.
pub(crate) const RUNC_WAITED_FOR_SECONDS: f64 = 5.0;

/// A runc of this age is a fault although no call hangs.
pub(crate) const RUNC_ALONE_SECONDS: f64 = RUNC_OVERDUE_AFTER.as_secs_f64();

// Daemons that restart, are busy, or grow.

/// The share of a CPU from which on process 1 is busy, so that it may only be slow.
pub(crate) const BUSY_CPU_SHARE: f64 = 0.5;

/// systemd's own limit for starts in quick succession (DefaultStartLimitBurst).
pub(crate) const MIN_RESTARTS: u32 = 5;

/// No round of a repair loop takes longer: PLEG is unhealthy 3 minutes after the start, `/healthz` fails 5
/// minutes later, the repair cools down for one minute, and a stop may take 90 s.
pub(crate) const MAX_ROUND_SECONDS: f64 = 720.0;

/// A service that has run for this many average rounds has left the loop.
pub(crate) const ROUNDS_TO_RECOVER: f64 = 3.0;

/// A kubelet with shorter rounds exits by itself: node-problem-detector leaves a kubelet alone for two
/// minutes after its start, and GKE's monitor for one.
pub(crate) const MAX_ROUND_OF_EXITS_SECONDS: f64 = 60.0;

/// The share of the machine's memory from which on a daemon uses too much. GKE reserves a
/// quarter of the first 4 GiB, and less of the rest, for all daemons of a node together.
pub(crate) const MEMORY_SHARE: f64 = 0.25;

/// A daemon that uses less is no leak, however small the machine is.
pub(crate) const MIN_LEAK_KIB: u64 = 1 << 20;

/// A daemon that uses more is a leak, however large the machine is: thousands of containers need some
/// GiB.
pub(crate) const MAX_LEAK_KIB: u64 = 8 << 20;

/// The share of a limit of memory, files or watches from which on it may soon be reached.
pub(crate) const NEAR_SHARE: f64 = 0.85;

/// Half of the number of threads at which Go ends a program (`SetMaxThreads`). A daemon has some dozens;
/// each further one is blocked in the kernel.
pub(crate) const MANY_THREADS: u32 = 5_000;

/// A thousand containers need some ten thousand descriptors.
pub(crate) const MANY_DESCRIPTORS: u64 = 50_000;
