//! Every time limit and count of the engine.
//!
//! Each constant says what it bounds, why the bound exists, and where its figure is from. *Chosen*
//! means that no measurement determines the figure: nearby values work as well. A new constant
//! needs a promise to users that fails without it.
//!
//! Two kinds of figures are elsewhere. What differs from node to node is measured: how long lists
//! usually take (`list_times`), and status calls (`evidence`). What the owner of a node may choose
//! is in [`Config`](crate::Config).

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

/// How many lists the 95th percentile of their duration is computed from. Derived: about a minute
/// of relists, one each second.
pub(super) const REMEMBERED_LISTS: usize = 64;

/// After a late list, or a status call of a sweep, the pause is at least its duration divided by this.
/// So a slow runtime spends at most four fifths of its time on lists, which are the most expensive
/// calls. Chosen.
pub(super) const SLOW_PAUSE_DIVISOR: u32 = 4;

/// The longest pause before a list or `Version` that may crash the runtime. It is short, because
/// without these calls no pod is observed. Derived: the third pause of 1, 4, 16 s.
pub(super) const MAX_LOSS_PAUSE: Duration = seconds(16);

/// The pause between two calls of a sweep, which makes at most 200 calls per second. While lists are
/// answered but late each time, the runtime is overloaded, and the pause is [`PARALLEL_CALLS`] times as
/// long: at most 25 calls per second. Chosen: a sweep must not load a runtime that is already in trouble.
pub(super) const SWEEP_PACE: Duration = millis(5);

/// How many new ids are followed after their directory appeared. It bounds memory and calls; a list
/// shows the others. Chosen.
pub(super) const MAX_UNKNOWN_IDS: usize = 256;

// Retries.

/// The first pause before a process that could not be watched is tried again, and the shortest
/// after a list that was too large to be received, because a connection that is lost again and again
/// must not cause one such list after the other. It is also how long a new id is followed, which may
/// belong to another client of the runtime. Chosen.
pub(super) const FIRST_RETRY_PAUSE: Duration = seconds(5);

/// The longest pause before the event stream is opened again, or a process that is not visible is
/// tried again, and the usual pause after a list that was too large. Chosen: the default of
/// `relist_ceiling`.
pub(super) const MAX_RETRY_PAUSE: Duration = seconds(30);

/// The longest pause before a call during which the connection was lost each time is sent again, before a
/// process that cannot be watched is tried again, and before a missing exit code is requested again. Chosen:
/// all else is observed without it.
pub(super) const MAX_WITHHELD_PAUSE: Duration = seconds(300);

/// How long quarantined calls wait after a loss of the connection for an answer to another call,
/// which shows that the runtime is back. While lists are stuck there may be no other call. Chosen.
pub(super) const RECONNECT_WITHIN: Duration = seconds(3);

// Hints of the event stream.

/// How many inspections hints may cause at once; further hints cause one relist. Chosen: well above
/// the 150 events of fifty pods that end at once.
pub(super) const HINT_BURST: f64 = 300.0;

/// How many inspections per second hints may cause after that. Chosen: an inspection takes three
/// calls, of which a runtime answers thousands per second.
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
/// but not started. Derived: a start is reported within 100 ms, and the status call needs its share.
pub(super) const BIRTH_PAUSE: Duration = millis(50);

// Reports.

/// How long a pass waits for a pod whose calls are answered. Chosen: longer than an inspection of a
/// large pod takes.
pub(super) const INSPECTION_OVERDUE_AFTER: Duration = seconds(15);

/// A problem that returns within this time is the same problem, and health flaps. It is also how
/// long a pass does not wait for a pod that timed out, and the longest hold of an improvement.
/// Chosen.
pub(super) const RELAPSE_WITHIN: Duration = seconds(60);

/// How long an improvement must last after the first relapse; each further relapse doubles this. It
/// is also the interval at which changed details alone are reported. Chosen.
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
/// starved of CPU. A turn that takes this long is checked in the same way: answers may be waiting
/// in the socket. While calls are outstanding, the clock is checked three times as often. Chosen: far
/// above the delays of a loaded node.
pub(super) const PAUSED_AFTER: Duration = millis(300);

/// The shortest sleep. It prevents a busy loop if work is due but cannot begin. Derived: the
/// resolution of tokio's timer.
pub(super) const MIN_SLEEP: Duration = millis(1);

/// How long commands wait after a pause of this process, at most. Answers that arrived
/// during the pause are taken in first. Chosen: a Kubernetes probe times out after 1 s.
pub(super) const COMMANDS_HELD_FOR: Duration = millis(500);
