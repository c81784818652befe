//! Every time limit and count of the engine, with its reason and where it was learned.
//!
//! A new one needs a promise to users that fails without it. What depends on a node is learned, and not
//! here: how long its lists and statuses usually take (`list_times`, `evidence`). What an owner of a
//! node may choose is in [`Config`](crate::Config).

use std::time::Duration;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// Calls: when one is stuck, and how many may be outstanding.

/// A healthy runtime answers each call within milliseconds. After a second without an answer a call is
/// suspect, a runtime that answers nothing has stalled, `Version` is called to see whether it lives, and
/// the window shrinks.
pub const SUSPECT: Duration = seconds(1);

/// How many later calls of its kind must have been answered before a call is stuck: on a slow runtime,
/// one may be answered quickly by chance.
pub(super) const STUCK_AFTER_LATER_ANSWERS: usize = 3;

/// How many times the usual time a status or a list may take before it is late.
pub(super) const OVERDUE_FACTOR: u32 = 4;

/// Whatever is usual, a status that takes longer is not just slow. Sweeps do not wait longer, and
/// another pod is called this often while nothing is answered.
pub(super) const MAX_STATUS_OVERDUE: Duration = seconds(10);

/// The same of a list, and of a sweep over all ids.
pub(super) const MAX_LIST_OVERDUE: Duration = seconds(30);

/// What hangs is reported within four seconds: no call is late later than this, unless that is
/// configured.
pub const LATE: Duration = millis(3500);

/// A call or an inspection that takes longer gives its place to others; after a witness that failed,
/// another is wanted so much later.
pub(super) const SLOW_AFTER: Duration = millis(250);

/// How many calls of one kind of want are made at once: for one pod, for deaths, for births, in a sweep.
pub(super) const PARALLEL_CALLS: usize = 8;

/// How far the window of outstanding status calls shrinks, half by half.
pub const SMALLEST_WINDOW: usize = 8;

/// Status calls leave so many places free: for both lists, `Version`, and one witness.
pub(super) const RESERVED_CALLS: usize = 4;

/// How many windows all outstanding calls may fill, the stuck ones included.
pub const STUCK_FACTOR: usize = 4;

/// While nothing is answered, not even `Version`, another pod is called, first after this time: a
/// runtime may answer for others than those whose calls fill the window.
pub(super) const SIGN_OF_LIFE_AFTER: Duration = seconds(2);

/// How many answers of a kind are remembered.
pub(super) const REMEMBERED_ANSWERS: usize = 32;

/// What was measured longer ago says nothing of now: a quiet node makes no calls that would replace it.
pub(super) const MEASUREMENT_VALID_FOR: Duration = seconds(30);

/// For how long, and of how many, it is remembered that a call is slower than others.
pub(super) const SLOWNESS_REMEMBERED_FOR: Duration = seconds(600);
pub(super) const MAX_SLOWER_IDS: usize = 1024;

// Lists and sweeps.

/// How many lists the 95th percentile is taken of.
pub(super) const REMEMBERED_LISTS: usize = 64;

/// Slow lists are followed by a pause of this part of their time: they cost the runtime most.
pub(super) const SLOW_PAUSE_DIVISOR: u32 = 4;

/// A list that was too large is not requested again for so long, whatever happens: a connection may
/// be lost again and again.
pub(super) const TOO_LARGE_RETRY_PAUSE: Duration = seconds(5);

/// The longest pause before a list or `Version` that crashes a runtime: without them nothing is seen.
pub(super) const MAX_LOSS_PAUSE: Duration = seconds(16);

/// A sweep makes at most 200 calls a second, and 25 while lists are slow each time: the runtime has
/// enough to do.
pub(super) const SWEEP_PACE: Duration = millis(5);
pub(super) const SLOW_SWEEP_PACE: Duration = millis(40);

/// For so long what did not exist is requested again: nobody is gone before that was said twice.
pub(super) const NOT_FOUND_RETRIED_FOR: Duration = seconds(10);

/// How many ids of unknown pods are remembered for a sweep, or followed: more are left to a list.
pub(super) const MAX_UNKNOWN_IDS: usize = 256;

// What fails is tried again.

/// The longest pause: of the event stream, and of a list that was too large.
pub(super) const MAX_RETRY_PAUSE: Duration = seconds(30);

/// A call that crashes a runtime does so within this time. A call that was sent earlier is not why
/// the connection is lost.
pub(super) const CRASH_WITHIN: Duration = seconds(1);

/// The pauses before a call that loses the connection each time: 1, 4, 16 s and so on; the longest is
/// also that of a process that cannot be watched.
pub(super) const FIRST_WITHHELD_PAUSE: Duration = seconds(1);
pub(super) const WITHHELD_FACTOR: u32 = 4;
pub(super) const MAX_WITHHELD_PAUSE: Duration = seconds(300);

/// How long quarantined calls wait after a loss for the answer to another call, which shows that the
/// runtime is back. Where lists hang there may be no other call.
pub(super) const RECONNECT_WITHIN: Duration = seconds(3);

// Hints of the event stream.

/// How many status calls hints may cause at once, and how many a second after that: what is more is one
/// relist. Fifty pods that die at once are a hundred and fifty events, of which each asks for a sandbox
/// and a container or two.
pub(super) const HINT_BURST: u32 = 1200;
pub(super) const HINTS_PER_SECOND: u32 = 300;

/// An event of an unknown pod counts so much: there may be no such pod. One that does not say whose it
/// is counts less: it waits until there is room.
pub(super) const UNKNOWN_POD_COST: u32 = 6;
pub(super) const UNNAMED_POD_COST: u32 = 1;

/// How soon a relist takes the place of hints that are not followed.
pub(super) const RELIST_FOR_HINTS_WITHIN: Duration = millis(200);

/// How many changes the stream must have announced on this connection before lists become rare.
pub(super) const TRUSTED_AFTER_CHANGES: usize = 10;

/// How much earlier than a change its announcement may have come: the status of what was announced
/// may hang for long before it shows the change. And of how many ids: far more than a node has.
pub(super) const ANNOUNCEMENT_VALID_FOR: Duration = seconds(3600);
pub(super) const MAX_ANNOUNCEMENTS: usize = 16_384;

/// The first pause before the stream is opened again, and the pause of a runtime that has none.
pub(super) const FIRST_STREAM_PAUSE: Duration = millis(100);
pub(super) const UNSUPPORTED_STREAM_PAUSE: Duration = seconds(60);

// Hints of the kernel.

/// By then a healthy runtime shows a change everywhere: the stream has announced it, the status of a
/// dead process says so, a pod that differs is inspected. containerd 1.7 needs up to two seconds after
/// a burst of fifty deaths, where it was measured.
pub(super) const SETTLED_AFTER: Duration = seconds(2);

/// How many PIDs are requested at once: nothing waits for them.
pub(super) const PARALLEL_PID_CALLS: usize = 4;

/// The first pause before the status of a dead process, or of a new id, is requested; each further one
/// is half as long again. containerd takes 60 to 100 ms to know of a death, and some 100 ms to start.
pub(super) const FIRST_DEATH_PAUSE: Duration = millis(5);
pub(super) const FIRST_BIRTH_PAUSE: Duration = millis(20);

/// The longest pause for a container that is created: its start is reported within 0.1 s.
pub(super) const MAX_BIRTH_PAUSE: Duration = millis(80);

/// How often a runtime that contradicts the kernel is called again.
pub(super) const CONTRADICTION_RETRY_PAUSE: Duration = seconds(4);

/// How long a process that could not be watched is left alone at first; one that is not visible at
/// most for the second time, for it may prove to have ended. And how long a new id is followed: it may
/// belong to another client of the runtime.
pub(super) const FIRST_UNWATCHED_PAUSE: Duration = seconds(5);
pub(super) const MAX_UNSEEN_PAUSE: Duration = seconds(60);

// Statuses that are in doubt.

/// The first pause before a doubtful status is requested again, and the longest.
pub(super) const FIRST_DOUBT_PAUSE: Duration = millis(500);
pub(super) const MAX_DOUBT_PAUSE: Duration = seconds(8);

/// How often an exit code that the runtime does not know yet is requested again (CRI-O).
pub(super) const MAX_EXIT_CODE_TRIES: u32 = 5;

// What is reported.

/// For so long a round waits for a pod whose calls are answered.
pub(super) const INSPECTION_OVERDUE_AFTER: Duration = seconds(15);

/// A problem that is back within a minute is the same one: health flaps, and a pod for which a round
/// has waited in vain is not waited for. It is also the longest hold of an improvement.
pub(super) const RELAPSE_WITHIN: Duration = seconds(60);

/// For how long an improvement must last after a relapse, at first; and how often mere details are
/// reported.
pub(super) const FIRST_HOLD: Duration = seconds(20);

/// The longest hold of a better state, and of the end of a reason that blames: neither must outlast
/// what it is said of.
pub(super) const MAX_BLAME_HOLD: Duration = seconds(3);

/// Names that come within this time of the last report are reported in one.
pub(super) const REPORTED_TOGETHER_WITHIN: Duration = millis(100);

/// How many pods are named that were not seen.
pub(super) const MAX_UNEXPLAINED_PODS: usize = 16;

// The driver.

/// How many events of the stream may wait. The reader never waits, for a reader that stalls blocks
/// containerd 2 itself: what is more is left to a relist.
pub(super) const MAX_UNREAD_EVENTS: usize = 1024;

/// How many answers and events are taken in before commands and the clock are looked at again.
pub(super) const MAX_INPUTS_PER_TURN: usize = 64;

/// A wake-up that is so late is a pause of this process: it was stopped, frozen or starved.
pub(super) const PAUSED_AFTER: Duration = millis(300);

/// While calls are outstanding the clock is looked at so often: a later wake-up does not say for how
/// long the process was paused.
pub(super) const CLOCK_CHECK_PERIOD: Duration = millis(100);

/// The shortest sleep.
pub(super) const MIN_SLEEP: Duration = millis(1);

/// After a pause, requests for the status wait for so long: what has happened meanwhile is taken in
/// first. Pauses may follow one another; a request is answered before a probe gives up, which waits for a
/// second.
pub(super) const STATUS_HELD_FOR: Duration = millis(500);
pub(super) const MAX_STATUS_HELD_FOR: Duration = millis(700);
