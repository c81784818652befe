//! Every time limit and count of the ledger, with its reason and where it was learned.

use std::time::Duration;

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A healthy runtime answers each call within milliseconds. After a second without an answer a call is
/// suspect, a runtime that answers nothing has stalled, `Version` is called to see whether it lives, and
/// the window shrinks.
pub const SUSPECT: Duration = seconds(1);

/// How many later calls of its kind must have been answered before a call is stuck: on a slow runtime,
/// one may be answered quickly by chance.
pub const WITNESSES: usize = 3;

/// How many times the usual time a status or a list may take before it is late.
pub const TIMES_USUAL: u32 = 4;

/// Whatever is usual, a status that takes longer is not just slow. Sweeps do not wait longer, and
/// another pod is called this often while nothing is answered.
pub const LONGEST_STATUS: Duration = seconds(10);

/// The same of a list, and of a sweep over all ids.
pub const LONGEST_LIST: Duration = seconds(30);

/// What hangs is reported within four seconds: no call is late later than this, unless that is
/// configured.
pub const LATE: Duration = millis(3500);

/// A call or an inspection that takes longer gives its place to others; after a witness that failed,
/// another is wanted so much later.
pub const SLOW: Duration = millis(250);

/// How far the window of outstanding status calls shrinks, half by half.
pub const SMALLEST_WINDOW: usize = 8;

/// Status calls leave so many places free: for both lists, `Version`, and one witness.
pub const RESERVED: usize = 4;

/// How many windows all outstanding calls may fill, the stuck ones included.
pub const STUCK_FACTOR: usize = 4;

/// While nothing is answered, not even `Version`, another pod is called, first after this time: a
/// runtime may answer for others than those whose calls fill the window.
pub const SIGN_OF_LIFE: Duration = seconds(2);

/// How many answers of a kind are remembered.
pub const REMEMBERED_CALLS: usize = 32;

/// What was measured longer ago says nothing of now: a quiet node makes no calls that would replace it.
pub const MEASURED: Duration = seconds(30);

/// For how long it is remembered that a call is slower than others.
pub const SLOWER: Duration = seconds(600);
/// Of how many calls that is remembered.
pub const MOST_SLOWER: usize = 1024;
