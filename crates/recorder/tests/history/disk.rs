//! A disk that is full, removed or too small: the recorder continues, and records what it lost.

use std::fs;
use std::path::Path;
use std::process::Command;

use recorder::store::{Limits, is_being_recorded};
use recorder::{Loss, Recorded};

use crate::support::{all, death, numbers, recorder, segments, status, stop, time, until, write};

/// A file system of a few kilobytes, unmounted when the value is dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    /// `None` without the right to mount it.
    fn mount(place: &'a Path, bytes: u64) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "none"]);
        let mounted = mount.arg(place).status();
        mounted.is_ok_and(|it| it.success()).then_some(Self(place))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0).status();
    }
}

#[test]
fn with_a_full_disk_entries_beyond_the_queue_are_lost_and_the_loss_is_recorded() {
    let place = tempfile::tempdir().unwrap();
    let Some(_disk) = SmallDisk::mount(place.path(), 2 << 20) else {
        eprintln!("left out: a full disk needs the right to mount a tmpfs");
        return;
    };
    let ballast = place.path().join("ballast");
    let folder = place.path().join("history");
    let recorder = recorder(&folder, Limits::default());
    write(&recorder, (0..10).map(death));
    let fill = fs::write(&ballast, vec![0; 3 << 20]);
    assert!(fill.is_err());
    let mut recorded = 10;
    while recorder.written().lost == 0 {
        recorder.record(&death(recorded));
        recorded += 1;
    }
    let began = std::time::Instant::now();
    for it in 0..100_000 {
        recorder.record(&death(recorded + it));
    }
    assert!(
        began.elapsed().as_secs() < 30,
        "no caller waits for the disk"
    );
    assert!(recorder.written().lost > 100_000 - 100);
    fs::remove_file(&ballast).unwrap();
    // 4 MB were queued, and not all of them fit: the oldest are written first.
    until(|| {
        segments(&folder)
            .iter()
            .any(|it| it.metadata().unwrap().len() > 1 << 20)
    });
    let (entries, _) = all(&folder);
    let numbers = numbers(&entries);
    assert_eq!(numbers, (0..numbers.len() as u64).collect::<Vec<_>>());
    stop(recorder);
}

#[test]
fn lost_entries_are_recorded_once_writing_works_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("history");
    // A file takes the place of the folder.
    fs::write(&folder, "").unwrap();
    let recorder = recorder(&folder, Limits::default());
    let mut recorded = 0;
    while recorder.written().lost < 5 {
        recorder.record(&death(recorded));
        recorded += 1;
    }
    fs::remove_file(&folder).unwrap();
    until(|| recorder.written().written > recorded - 5);
    let (entries, _) = all(&folder);
    let lost: Vec<_> = entries
        .iter()
        .filter_map(|entry| match &entry.what {
            Recorded::Lost(lost) => Some((lost.entries, lost.since, lost.why)),
            _ => None,
        })
        .collect();
    assert_eq!(lost, [(5, time(recorded - 5), Loss::WriteError)]);
    assert_eq!(numbers(&entries), (0..recorded - 5).collect::<Vec<_>>());
    stop(recorder);
}

#[test]
fn a_removed_folder_is_created_again() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("history");
    let recorder = recorder(&folder, Limits::default());
    write(&recorder, (0..3).map(death));
    assert!(recorder.take_pods_request() && !recorder.take_pods_request());
    fs::remove_dir_all(&folder).unwrap();
    write(&recorder, (3..6).map(death));
    assert_eq!(numbers(&all(&folder).0), [3, 4, 5]);
    assert!(
        recorder.take_pods_request(),
        "the new segment has no pods yet"
    );
    stop(recorder);
}

#[test]
fn two_agents_do_not_write_in_one_folder() {
    let folder = tempfile::tempdir().unwrap();
    let first = recorder(folder.path(), Limits::default());
    write(&first, [death(0)]);
    let second = recorder(folder.path(), Limits::default());
    second.record(&death(1));
    write(&first, [death(2)]);
    stop(first);
    // The second recorder retries, and then holds the lock.
    until(|| second.written().written == 1);
    stop(second);
    assert_eq!(numbers(&all(folder.path()).0), [0, 2, 1]);
    assert_eq!(segments(folder.path()).len(), 2);
}

#[test]
fn the_history_never_exceeds_its_limit_of_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let max_bytes = 64 << 10;
    let limits = Limits {
        max_bytes,
        ..Limits::default()
    };
    let recorder = recorder(folder.path(), limits);
    for it in 0..600 {
        write(&recorder, [status(time(it), (it % 100) as usize)]);
        let sizes = segments(folder.path()).into_iter();
        let total: u64 = sizes.map(|path| path.metadata().unwrap().len()).sum();
        assert!(total <= max_bytes, "{total} bytes after {it} entries");
        assert_eq!(recorder.written().bytes, total);
    }
    stop(recorder);
    let (entries, reader) = all(folder.path());
    assert_eq!(reader.skipped(), Default::default());
    // The newest are there, without a gap.
    let first = entries[0].time;
    assert!(first > time(0));
    let missing = 600 - entries.len() as u64;
    assert_eq!(first, time(missing));
}

#[test]
fn only_the_owner_reads_the_history() {
    use std::os::unix::fs::PermissionsExt;
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("a/history");
    let recorder = recorder(&folder, Limits::default());
    write(&recorder, [death(0)]);
    stop(recorder);
    let mode = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    assert_eq!(mode(&segments(&folder)[0]), 0o600);
}

#[test]
fn a_folder_in_which_an_agent_records_is_recognised() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!is_being_recorded(folder.path()));
    let recorder = recorder(folder.path(), Limits::default());
    write(&recorder, [death(1)]);
    assert!(is_being_recorded(folder.path()));
    stop(recorder);
    until(|| !is_being_recorded(folder.path()));
}
