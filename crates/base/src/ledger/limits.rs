//! The time limits and counts of the ledger that are not configured ([`Places`](super::Places) is).
//!
//! Each constant says what it bounds, why the bound exists, and where its figure is from. *Chosen*
//! means that no measurement determines the figure: nearby values work as well.

use std::time::Duration;

/// The time without an answer after which a call is suspect. It is also the time without any answer
/// after which the runtime has stalled, `Version` is sent as a heartbeat, and the window shrinks. A
/// runtime that crashes on a call does so before the call is suspect; such a call is first withheld for
/// this time. Chosen: a healthy runtime answers each call within milliseconds.
pub const SUSPECT_AFTER: Duration = Duration::from_secs(1);

/// How many later calls of the same kind must have been answered before a status call is stuck, unless
/// the call has taken several times longer. A slow runtime may answer one later call quickly by chance.
/// The figure is from the definition of *stuck*.
pub const STUCK_AFTER_LATER_ANSWERS: usize = 3;

/// A call is overdue when it takes this many times as long as usual (the 95th percentile). Chosen: it
/// leaves room for the load of a busy node.
pub const OVERDUE_FACTOR: u32 = 4;

/// The upper bound of every limit for a status call that is derived from the usual time: even on the
/// slowest runtime, a call that takes longer is overdue, and a sweep stops waiting for it. This is also
/// how long sweeps keep requesting an id that was not found: it counts as removed only if it is not found
/// twice. And it is the longest pause between two calls that check the same thing: whether the runtime
/// answers, or whether it still reports what contradicts the kernel or its list. Chosen.
pub const MAX_STATUS_OVERDUE: Duration = Duration::from_secs(10);

/// The upper bound of the time limit of a list that is derived from the usual time, and of the time of
/// one sweep over all ids. Chosen.
pub const MAX_LIST_OVERDUE: Duration = Duration::from_secs(30);

/// The age at which a call is reported as overdue at the latest, whatever is usual on the node, unless
/// the configured limit is longer. Derived: a stuck call is reported within 4 s.
pub const OVERDUE_AT_LATEST: Duration = Duration::from_millis(3500);

/// The time after which a call or an inspection is slow, and no longer occupies a place that another one
/// could use. It is also the pause after a witness that failed, and the first pause before the event
/// stream is opened again, a doubtful status is requested again, or lists replace hints that are not
/// followed. Chosen: a healthy runtime needs about 1 ms for each call of an inspection.
pub const SLOW_AFTER: Duration = Duration::from_millis(250);

/// The lower bound of the window of outstanding status calls, which halves each second without any
/// answer. Chosen: it must show quickly that a runtime is back, and calls must not accumulate in a
/// runtime that is down.
pub const MIN_WINDOW: usize = 8;

/// How many places of the window status calls leave free. Derived: two lists, `Version`, and one witness.
pub const RESERVED_CALLS: usize = 4;

/// How many windows all outstanding calls may fill, stuck calls included. It bounds what stuck
/// calls cost the runtime and this process. Chosen.
pub const STUCK_FACTOR: usize = 4;

/// How many answers of each kind of call are remembered. It bounds memory. Chosen: enough for a
/// 95th percentile.
pub const REMEMBERED_ANSWERS: usize = 32;

/// How long a measured duration is used. A quiet node makes no calls that would replace an old
/// measurement. Chosen.
pub const MEASUREMENT_VALID_FOR: Duration = Duration::from_secs(30);

/// How long the ledger remembers that one id is answered more slowly than others. Chosen.
pub const SLOWNESS_REMEMBERED_FOR: Duration = Duration::from_secs(600);

/// How many of the ids that are answered more slowly than others are remembered. It bounds memory.
/// Chosen: more ids than a node has.
pub const MAX_SLOWER_IDS: usize = 1024;
