//! Every time limit and count of the engine, with its reason and where it was learned.
//!
//! A new one needs a promise to users that fails without it. What depends on a node is learned, and not
//! here: how long its lists and statuses usually take (`list_times`, the ledger). What an owner of a
//! node may choose is in [`Config`](crate::Config).

use std::time::Duration;

pub use base::ledger::limits::{LATE, SMALLEST_WINDOW, STUCK_FACTOR, SUSPECT};
pub(super) use base::ledger::limits::{LONGEST_LIST, LONGEST_STATUS, SLOW, TIMES_USUAL};

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

// Calls. When one is stuck, and how many may be outstanding, is a matter of the ledger.

/// How many calls of one kind of want are made at once: for one pod, for deaths, for births, in a sweep.
pub(super) const SIDE_BY_SIDE: usize = 8;

// Lists and sweeps.

/// How many lists the 95th percentile is taken of.
pub(super) const REMEMBERED_LISTS: usize = 64;

/// Slow lists are followed by a pause of this part of their time: they cost the runtime most.
pub(super) const SLOW_PAUSE: u32 = 4;

/// A list that was too large is not requested again for so long, whatever happens: a connection may
/// be lost again and again.
pub(super) const TOO_LARGE_LEAST: Duration = seconds(5);

/// The longest pause before a list or `Version` that crashes a runtime: without them nothing is seen.
pub(super) const LONGEST_LOST_PAUSE: Duration = seconds(16);

/// A sweep makes at most 200 calls a second, and 25 while lists are slow each time: the runtime has
/// enough to do.
pub(super) const PACE: Duration = millis(5);
pub(super) const SLOW_PACE: Duration = millis(40);

/// For so long what did not exist is requested again: nobody is gone before that was said twice.
pub(super) const MISSING: Duration = seconds(10);

/// How many ids of unknown pods are remembered for a sweep, or followed: more are left to a list.
pub(super) const MOST_UNKNOWN: usize = 256;

// What fails is tried again.

/// The longest pause: of the event stream, and of a list that was too large.
pub(super) const LONGEST_RETRY: Duration = seconds(30);

/// A call that crashes a runtime does so within this time. A call that was sent earlier is not why
/// the connection is lost.
pub(super) const CRASH_WITHIN: Duration = seconds(1);

/// The pauses before a call that loses the connection each time: 1, 4, 16 s and so on; the longest is
/// also that of a process that cannot be watched.
pub(super) const FIRST_WITHHELD: Duration = seconds(1);
pub(super) const WITHHELD_FACTOR: u32 = 4;
pub(super) const LONGEST_WITHHELD: Duration = seconds(300);

/// How long quarantined calls wait after a loss for the answer to another call, which shows that the
/// runtime is back. Where lists hang there may be no other call.
pub(super) const BACK_WITHIN: Duration = seconds(3);

// Hints of the event stream.

/// How many status calls hints may cause at once, and how many a second after that: what is more is one
/// relist. Fifty pods that die at once are a hundred and fifty events, of which each asks for a sandbox
/// and a container or two.
pub(super) const BURST: u32 = 1200;
pub(super) const A_SECOND: u32 = 300;

/// An event of an unknown pod counts so much: there may be no such pod. One that does not say whose it
/// is counts less: it waits until there is room.
pub(super) const STRANGER: u32 = 6;
pub(super) const NOBODY: u32 = 1;

/// How soon a relist takes the place of hints that are not followed.
pub(super) const INSTEAD: Duration = millis(200);

/// How many changes the stream must have announced on this connection before lists become rare.
pub(super) const ENOUGH: usize = 10;

/// How much earlier than a change its announcement may have come: the status of what was announced
/// may hang for long before it shows the change. And of how many ids: far more than a node has.
pub(super) const MEMORY: Duration = seconds(3600);
pub(super) const MOST_HEARD: usize = 16_384;

/// The first pause before the stream is opened again, and the pause of a runtime that has none.
pub(super) const STREAM_PAUSE: Duration = millis(100);
pub(super) const UNSUPPORTED_PAUSE: Duration = seconds(60);

// Hints of the kernel.

/// By then a healthy runtime shows a change everywhere: the stream has announced it, the status of a
/// dead process says so, a pod that differs is inspected. containerd 1.7 needs up to two seconds after
/// a burst of fifty deaths, where it was measured.
pub(super) const SETTLED: Duration = seconds(2);

/// How many PIDs are requested at once: nothing waits for them.
pub(super) const PIDS: usize = 4;

/// The first pause before the status of a dead process, or of a new id, is requested; each further one
/// is half as long again. containerd takes 60 to 100 ms to know of a death, and some 100 ms to start.
pub(super) const DEATH_PAUSE: Duration = millis(5);
pub(super) const BIRTH_PAUSE: Duration = millis(20);

/// The longest pause for a container that is created: its start is reported within 0.1 s.
pub(super) const LONGEST_BIRTH: Duration = millis(80);

/// How often a runtime that contradicts the kernel is called again.
pub(super) const CONTRADICTED: Duration = seconds(4);

/// How long a process that could not be watched is left alone at first; one that is not visible at
/// most for the second time, for it may prove to have ended. And how long a new id is followed: it may
/// belong to another client of the runtime.
pub(super) const UNWATCHED: Duration = seconds(5);
pub(super) const LONGEST_UNSEEN: Duration = seconds(60);

// Statuses that are in doubt.

/// The first pause before a doubtful status is requested again, and the longest.
pub(super) const DOUBT_PAUSE: Duration = millis(500);
pub(super) const LONGEST_DOUBT: Duration = seconds(8);

/// How often an exit code that the runtime does not know yet is requested again (CRI-O).
pub(super) const EXIT_CODE_TRIES: u32 = 5;

// What is reported.

/// For so long a round waits for a pod whose calls are answered.
pub(super) const LASTING: Duration = seconds(15);

/// A problem that is back within a minute is the same one: health flaps, and a pod for which a round
/// has waited in vain is not waited for. It is also the longest hold of an improvement.
pub(super) const RELAPSE: Duration = seconds(60);

/// For how long an improvement must last after a relapse, at first; and how often mere details are
/// reported.
pub(super) const FIRST_HOLD: Duration = seconds(20);

/// The longest hold of a better state, and of the end of a reason that blames: neither must outlast
/// what it is said of.
pub(super) const LONGEST_BLAME: Duration = seconds(3);

/// Names that come within this time of the last report are reported in one.
pub(super) const TOGETHER: Duration = millis(100);

/// How many pods are named that were not seen.
pub(super) const MOST_NOT_SEEN: usize = 16;

// The driver.

/// How many events of the stream may wait. The reader never waits, for a reader that stalls blocks
/// containerd 2 itself: what is more is left to a relist.
pub(super) const MOST_UNREAD: usize = 1024;

/// How many answers and events are taken in before commands and the clock are looked at again.
pub(super) const AT_ONCE: usize = 64;

/// A wake-up that is so late is a pause of this process: it was stopped, frozen or starved.
pub(super) const PAUSED: Duration = millis(300);

/// While calls are outstanding the clock is looked at so often: a later wake-up does not say for how
/// long the process was paused.
pub(super) const TICK: Duration = millis(100);

/// The shortest sleep.
pub(super) const SHORTEST: Duration = millis(1);

/// After a pause, requests for the status wait for so long: what has happened meanwhile is taken in
/// first. Pauses may follow one another; a request is answered before a probe gives up, which waits for a
/// second.
pub(super) const HELD: Duration = millis(500);
pub(super) const LONGEST_HELD: Duration = millis(700);
