//! A power cycle is the usual remedy for a stuck node: the history must be on the disk by then.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use pleg::model::wall_time::system_clock;
use recorder::store::Limits;
use recorder::{Entry, Recorder, SyncFile};
use serde_json::json;

use crate::support::{all, death, numbers, segments, status, stop, time, until, write};

fn recorder(folder: &Path, sync: SyncFile) -> Recorder {
    let limits = Limits::default();
    Recorder::start_with(
        folder.to_owned(),
        limits,
        Duration::ZERO,
        system_clock(),
        sync,
    )
    .unwrap()
}

/// A sync that stores the size of the last synced file, and the number of synced directories.
fn counted(bytes: &Arc<AtomicUsize>, folders: &Arc<AtomicUsize>) -> SyncFile {
    let (bytes, folders) = (bytes.clone(), folders.clone());
    Box::new(move |file: &File| {
        let about = file.metadata()?;
        match about.is_dir() {
            true => folders.fetch_add(1, Ordering::SeqCst),
            false => bytes.swap(about.len() as usize, Ordering::SeqCst),
        };
        file.sync_all()
    })
}

fn health() -> Entry {
    let health = json!({"kind": "health", "time": time(7), "state": "Degraded",
        "reason": "ContainerStuck", "message": "", "stuck": [], "failing": [], "blind": []});
    Entry::published(serde_json::from_value(health).unwrap(), None).unwrap()
}

#[test]
fn a_change_of_health_is_synced_with_all_entries_before_it_and_with_the_name_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let (bytes, folders) = <(Arc<AtomicUsize>, Arc<AtomicUsize>)>::default();
    let recorder = recorder(folder.path(), counted(&bytes, &folders));
    let size = || segments(folder.path())[0].metadata().unwrap().len() as usize;
    write(&recorder, (0..3).map(death));
    std::thread::sleep(Duration::from_millis(100));
    assert_eq!(
        bytes.load(Ordering::SeqCst),
        0,
        "events alone are not synced"
    );
    write(&recorder, [health()]);
    until(|| bytes.load(Ordering::SeqCst) == size() && folders.load(Ordering::SeqCst) == 1);
    // The calls that are stuck are in the status that follows.
    write(&recorder, [status(time(8), 3)]);
    until(|| bytes.load(Ordering::SeqCst) == size() && folders.load(Ordering::SeqCst) == 2);
    stop(recorder);
}

#[test]
fn a_sync_that_hangs_delays_neither_the_daemon_nor_the_writes_nor_the_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (release, held) = channel::<()>();
    let begun = Arc::new(AtomicUsize::new(0));
    let count = begun.clone();
    let recorder = recorder(
        folder.path(),
        Box::new(move |_| {
            count.fetch_add(1, Ordering::SeqCst);
            // This blocks until the test ends.
            let _ = held.recv();
            Ok(())
        }),
    );
    write(&recorder, [health()]);
    until(|| begun.load(Ordering::SeqCst) == 1);
    let began = Instant::now();
    write(&recorder, (0..50).map(death));
    write(&recorder, (0..50).map(|it| status(time(it), 3)));
    stop(recorder);
    assert!(
        began.elapsed() < Duration::from_secs(5),
        "nothing waits for the disk"
    );
    assert_eq!(
        begun.load(Ordering::SeqCst),
        1,
        "the disk has one sync at a time"
    );
    let (entries, _) = all(folder.path());
    assert_eq!(entries.len(), 101);
    assert_eq!(numbers(&entries).len(), 50);
    drop(release);
}

#[test]
fn a_failing_sync_does_not_end_the_recording() {
    let folder = tempfile::tempdir().unwrap();
    let failing = Box::new(|_: &File| Err(std::io::Error::other("the disk is broken")));
    let recorder = recorder(folder.path(), failing);
    write(&recorder, [health(), death(1), health(), death(2)]);
    stop(recorder);
    assert_eq!(numbers(&all(folder.path()).0), [1, 2]);
}
