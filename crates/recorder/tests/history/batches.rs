//! Events that follow each other soon are written together, and everything else at once.

use std::path::Path;
use std::time::Duration;

use pleg::model::wall_time::system_clock;
use recorder::Recorder;
use recorder::store::Limits;

use crate::support::{TIMEOUT, all, death, numbers, status, stop, time, until, write};

/// A recorder whose write interval is longer than the test.
fn seldom(folder: &Path) -> Recorder {
    let write_interval = 10 * TIMEOUT;
    Recorder::start(
        folder.to_owned(),
        Limits::default(),
        write_interval,
        system_clock(),
    )
    .unwrap()
}

#[test]
fn the_first_event_is_written_at_once_and_the_next_ones_together() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = seldom(folder.path());
    write(&recorder, [death(0)]);
    recorder.record(&death(1));
    recorder.record(&death(2));
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(recorder.written().written, 1);
    stop(recorder);
    assert_eq!(numbers(&all(folder.path()).0), [0, 1, 2]);
}

#[test]
fn a_status_is_written_at_once_with_the_events_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = seldom(folder.path());
    write(&recorder, [death(0)]);
    recorder.record(&death(1));
    recorder.record(&status(time(2), 1));
    until(|| recorder.written().written == 3);
    stop(recorder);
}

#[test]
fn many_events_are_written_before_the_queue_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = seldom(folder.path());
    write(&recorder, [death(0)]);
    for it in 1..5000 {
        recorder.record(&death(it));
    }
    until(|| recorder.written().written > 1);
    assert_eq!(recorder.written().lost, 0);
    stop(recorder);
}
