//! The clock of the node is set while an agent records.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pleg::model::wall_time::WallClock;
use recorder::store::{Limits, Range, read};

use crate::support::{all, death_at, numbers, recorder_with, segments, stop, time, write};

const YEAR: u64 = 365 * 24 * 3600;

#[test]
fn entries_are_read_in_the_order_in_which_they_were_recorded_even_if_the_clock_was_set() {
    let folder = tempfile::tempdir().unwrap();
    let shown = Arc::new(AtomicU64::new(2 * YEAR));
    let clock: WallClock = {
        let shown = shown.clone();
        Arc::new(move || time(shown.load(Ordering::Relaxed)))
    };
    // Set back by a year, forward by fifty, and back again; with a restart each time.
    let steps = [2 * YEAR, YEAR, 51 * YEAR, 2 * YEAR + 60];
    for (number, step) in steps.into_iter().enumerate() {
        shown.store(step, Ordering::Relaxed);
        let recorder = recorder_with(folder.path(), Limits::default(), clock.clone());
        write(&recorder, [death_at(2 * number as u64, time(step))]);
        write(&recorder, [death_at(2 * number as u64 + 1, time(step + 1))]);
        stop(recorder);
    }
    let (entries, _) = all(folder.path());
    assert_eq!(numbers(&entries), [0, 1, 2, 3, 4, 5, 6, 7]);
    let since = Range::since(time(2 * YEAR));
    let since: Vec<_> = read(folder.path(), since).unwrap().collect();
    assert_eq!(numbers(&since), [0, 1, 4, 5, 6, 7]);
    let of_a_year = Range {
        from: Some(time(YEAR)),
        to: Some(time(2 * YEAR)),
    };
    let of_a_year: Vec<_> = read(folder.path(), of_a_year).unwrap().collect();
    assert_eq!(numbers(&of_a_year), [0, 2, 3]);
}

#[test]
fn a_clock_that_jumps_within_one_run_removes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let shown = Arc::new(AtomicU64::new(0));
    let clock: WallClock = {
        let shown = shown.clone();
        Arc::new(move || time(shown.load(Ordering::Relaxed)))
    };
    let limits = Limits {
        max_bytes: 8 << 10,
        ..Limits::default()
    };
    let recorder = recorder_with(folder.path(), limits, clock);
    for (number, step) in [0, 50 * YEAR, 10, YEAR].into_iter().enumerate() {
        shown.store(step, Ordering::Relaxed);
        write(&recorder, [death_at(number as u64, time(step))]);
    }
    stop(recorder);
    assert_eq!(numbers(&all(folder.path()).0), [0, 1, 2, 3]);
    assert!(segments(folder.path()).len() > 1);
}
