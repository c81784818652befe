//! Every time limit and count of the engine.
//!
//! Each constant says what it bounds, why the bound exists, and where its figure is from. *Chosen*
//! means that no measurement determines the figure: nearby values work as well. Add a constant only
//! if a promise to users cannot be kept without it.
//!
//! Two kinds of figures are elsewhere. What differs from node to node is measured: the usual
//! durations of lists (`list_times`) and of status calls (`evidence`). What the owner of a node may
//! choose is in [`Config`](crate::Config).

use std::time::Duration;

pub(super) use base::ledger::limits::{
    MAX_LIST_OVERDUE, MAX_STATUS_OVERDUE, OVERDUE_FACTOR, SLOW_AFTER,
};
pub use base::ledger::limits::{MIN_WINDOW, OVERDUE_AT_LATEST, STUCK_FACTOR, SUSPECT_AFTER};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// Calls. The limits by which a call is overdue or stuck, and those of outstanding calls, are in
// `base::ledger::limits`.

/// How many calls of a sweep are outstanding at once while nothing is answered. It bounds what a sweep
/// takes from the others. Chosen.
pub(super) const PARALLEL_CALLS: usize = 8;

// Lists and sweeps.

/// The number of lists from whose durations the 95th percentile is computed. Derived: about a minute
/// of relists, one each second.
pub(super) const REMEMBERED_LISTS: usize = 64;

/// After a slow list or a status call of a sweep, the pause is at least the call's duration divided by
/// this. So a slow runtime spends at most four fifths of its time on lists, which are the most expensive
/// calls. Chosen.
pub(super) const SLOW_PAUSE_DIVISOR: u32 = 4;

/// The longest pause before a list or `Version` that may crash the runtime. It is short, because
/// without these calls no pod is observed. Derived: the third pause of 1, 4, 16 s.
pub(super) const MAX_LOSS_PAUSE: Duration = seconds(16);

/// The pause between two calls of a sweep, which makes at most 200 calls per second. While a list
/// is answered but slow each time, the runtime is overloaded, and the pause is [`PARALLEL_CALLS`] times as
/// long: at most 25 calls per second. Chosen: a sweep must not load a runtime that is already in trouble.
pub(super) const SWEEP_PACE: Duration = millis(5);

/// How many ids may be followed after their directory appeared or disappeared. It bounds memory and
/// calls; a list shows the other changes. Chosen.
pub(super) const MAX_UNKNOWN_IDS: usize = 256;

// Retries.

/// The first pause before watching a process is tried again. It is also the shortest pause after a
/// list that was too large to be received: connections that are lost repeatedly must not cause one
/// such list after the other. It is also how long an id that births reported is followed, because the
/// id may belong to another client of the runtime. Chosen.
pub(super) const FIRST_RETRY_PAUSE: Duration = seconds(5);

/// The longest pause before an event stream that is not withheld is opened again, and the usual pause
/// after a list that was too large. Chosen: the default of `relist_ceiling`.
pub(super) const MAX_RETRY_PAUSE: Duration = seconds(30);

/// The longest pause before each of these is tried again: a call, or the event stream, during which the
/// connection was lost each time; watching a process; requesting a missing exit code. Chosen: all else is
/// observed without them.
pub(super) const MAX_WITHHELD_PAUSE: Duration = seconds(300);

/// How long quarantined calls wait after a loss of the connection for an answer to another call,
/// which shows that the runtime is back. While lists are stuck there may be no other call. Chosen.
pub(super) const RECONNECT_WITHIN: Duration = seconds(3);

// Hints of the event stream.

/// How many inspections hints may cause at once; further hints cause one relist. Chosen: well above
/// the 150 events of fifty pods that end at once.
pub(super) const HINT_BURST: f64 = 300.0;

/// How many inspections per second hints may cause once [`HINT_BURST`] is used up. Chosen: an inspection
/// takes about three calls, and a runtime answers thousands of calls per second.
pub(super) const HINTS_PER_SECOND: f64 = 50.0;

/// How many changes the stream must have announced on this connection before lists become rare.
/// Chosen.
pub(super) const TRUSTED_AFTER_CHANGES: usize = 10;

/// How many announced ids are remembered. It bounds memory. Chosen: many times the ids of a node.
pub(super) const MAX_REMEMBERED_HINTS: usize = 16_384;

// Hints of the kernel.

/// The time after which a healthy runtime shows a change everywhere: the stream has announced it,
/// the status of an ended process shows its end, and a pod that differs is inspected. Measured:
/// after fifty containers ended at once, containerd 1.7 needed up to 2 s.
pub(super) const SETTLED_AFTER: Duration = seconds(2);

/// The first pause before the status of an ended process is requested; each further pause is half
/// as long again. Chosen small beside the measured delay: containerd reports an exit after 60 to
/// 100 ms.
pub(super) const FIRST_DEATH_PAUSE: Duration = millis(5);

/// The pause before the status of a new id is requested, and again while its container is created
/// but not started. Derived: a start is reported within 100 ms, part of which the status call takes.
pub(super) const BIRTH_PAUSE: Duration = millis(50);

// Reports.

/// How long a pass waits for a pod whose calls are answered. Chosen: longer than an inspection of a
/// large pod takes.
pub(super) const INSPECTION_OVERDUE_AFTER: Duration = seconds(15);

/// If a problem returns within this time, it counts as the same problem, and health flaps. It is also
/// how long passes do not wait for a pod that timed out, and the longest hold of an improvement.
/// Chosen.
pub(super) const RELAPSE_WITHIN: Duration = seconds(60);

/// How long an improvement must last after the first relapse; each further relapse doubles this. It
/// is also the interval between reports in which only details of health change. Chosen.
pub(super) const FIRST_HOLD: Duration = seconds(20);

/// The longest hold before a better state, or the end of a reason that names a culprit, is
/// reported. It bounds how long a report may blame a container after its fault has ended. Chosen.
pub(super) const MAX_BLAME_HOLD: Duration = seconds(3);

/// Culprits that are found within this time are reported together. Chosen: calls that were sent at
/// the same time become overdue at the same time.
pub(super) const REPORTED_TOGETHER_WITHIN: Duration = millis(100);

// The driver.

/// How many events of the stream may wait in this process; further events are replaced by a relist.
/// The reader must never wait, because a reader that stalls blocks containerd 2. Chosen.
pub(super) const MAX_UNREAD_EVENTS: usize = 1024;

/// A wake-up that is delayed by this time shows that this process was paused: stopped, frozen or
/// starved of CPU. Settling begins then, and also during a turn that takes this long: answers may be
/// waiting in the socket. While calls are outstanding, the driver wakes up after a third of this
/// time. Chosen: far above the delays of a loaded node.
pub(super) const PAUSED_AFTER: Duration = millis(300);

/// The shortest sleep. It prevents a busy loop if work is due but cannot begin. Derived: the
/// resolution of tokio's timer.
pub(super) const MIN_SLEEP: Duration = millis(1);

/// The longest time for which commands wait after a pause of this process. Answers that arrived during
/// the pause are taken in first. Chosen: a Kubernetes probe times out after 1 s.
pub(super) const COMMANDS_HELD_FOR: Duration = millis(500);
