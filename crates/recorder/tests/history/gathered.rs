//! What comes alone is written at once; what comes soon after it is written together.

use std::path::Path;
use std::time::Duration;

use pleg::model::wall_time::system_clock;
use recorder::Recorder;
use recorder::store::Limits;

use crate::support::{PATIENCE, all, death, numbers, status, stop, time, until, write};

/// A recorder that writes again only when nobody waits for it any more.
fn seldom(folder: &Path) -> Recorder {
    let between = 10 * PATIENCE;
    Recorder::start(
        folder.to_owned(),
        Limits::default(),
        between,
        system_clock(),
    )
    .unwrap()
}

#[test]
fn the_first_entry_is_written_at_once_and_the_next_ones_together_at_the_latest_by_a_stop() {
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
fn much_is_written_before_the_queue_is_full() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = seldom(folder.path());
    write(&recorder, [death(0)]);
    // A hundred stuck calls are more than 10 kB.
    for it in 0..100 {
        recorder.record(&status(time(it), 100));
    }
    until(|| recorder.written().written > 1);
    assert_eq!(recorder.written().lost, 0);
    stop(recorder);
}
