//! The writer is killed: exactly the entries that were written before are read.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};

use recorder::store::{Limits, Skipped};

use crate::support::{all, death, number, numbers, recorder, segments, status, stop, time, write};

/// Small segments, so that there are several.
fn small() -> Limits {
    Limits {
        max_bytes: 256 << 10,
        ..Limits::default()
    }
}

/// A kill ends a segment at any byte, and no later segment exists.
#[test]
fn after_a_kill_at_any_of_a_thousand_times_all_written_entries_are_read() {
    let folder = tempfile::tempdir().unwrap();
    let written = recorder(folder.path(), small());
    write(
        &written,
        (0..250).map(|it| match it % 10 {
            9 => status(time(it), 20),
            _ => death(it),
        }),
    );
    stop(written);
    let (whole, _) = all(folder.path());
    assert_eq!(whole.len(), 250);
    let segments = segments(folder.path());
    assert!(segments.len() > 1);
    let segments: Vec<_> = segments
        .iter()
        .map(|path| (path.file_name().unwrap(), fs::read(path).unwrap()))
        .collect();
    let total: usize = segments.iter().map(|(_, bytes)| bytes.len()).sum();
    let mut random = fastrand::Rng::with_seed(7);
    let mut entries_before = Vec::new();
    for moment in 0..1000 {
        let mut left = match moment {
            0 => 0,
            1 => total,
            _ => random.usize(..total),
        };
        let cut = tempfile::tempdir().unwrap();
        for (name, bytes) in &segments {
            let kept = left.min(bytes.len());
            fs::write(cut.path().join(name), &bytes[..kept]).unwrap();
            left -= kept;
            if left == 0 {
                break;
            }
        }
        let (entries, reader) = all(cut.path());
        assert_eq!(entries, whole[..entries.len()], "cut at moment {moment}");
        let skipped = reader.skipped();
        assert!(skipped.torn_segments + skipped.unreadable_segments <= 1);
        assert_eq!(skipped.damaged_bytes, 0);
        entries_before.push(entries.len());
    }
    assert_eq!(entries_before[..2], [0, 250]);
}

/// The process that the test below starts and kills. In an ordinary run it does nothing.
#[test]
fn a_process_that_records_until_it_is_killed() {
    let Some(folder) = std::env::var_os("RECORDER_TEST_FOLDER") else {
        return;
    };
    let recorder = recorder(Path::new(&folder), Limits::default());
    for it in 0.. {
        write(&recorder, [death(it)]);
        // The parent reads which entries were on the disk.
        println!("{it}");
    }
}

/// The recording begins anew after this many kills, because each check reads all of it.
const KILLS_PER_HISTORY: usize = 20;

/// `PLEG_KILLS=1000` kills a thousand processes, each at a random time.
#[test]
fn a_process_that_is_killed_while_it_writes_loses_no_written_entry() {
    let mut lines = vec![1, 7, 40, 200, 900];
    if let Ok(kills) = std::env::var("PLEG_KILLS") {
        let kills: usize = kills.parse().expect("PLEG_KILLS is a number");
        let seed = fastrand::u64(..);
        println!("{kills} kills, seed {seed}");
        let mut random = fastrand::Rng::with_seed(seed);
        lines = (0..kills).map(|_| random.usize(..300)).collect();
    }
    for lines in lines.chunks(KILLS_PER_HISTORY) {
        let folder = tempfile::tempdir().unwrap();
        for (kills_before, lines) in lines.iter().enumerate() {
            let written = killed_after(*lines, folder.path());
            check_history(folder.path(), kills_before + 1, written);
        }
    }
}

/// Starts a process that records into `folder`, and kills it when it has reported more than `lines`
/// entries. Returns the last entry that it reported.
fn killed_after(lines: usize, folder: &Path) -> u64 {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "--exact",
            "killed::a_process_that_records_until_it_is_killed",
        ])
        .arg("--nocapture")
        .env("RECORDER_TEST_FOLDER", folder)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let mut said = String::new();
    let numbers = |said: &str| {
        let numbers = said.lines().filter(|line| line.parse::<u64>().is_ok());
        numbers.count()
    };
    while numbers(&said) <= lines {
        let mut more = [0; 64];
        let read = out.read(&mut more).unwrap();
        said.push_str(std::str::from_utf8(&more[..read]).unwrap());
    }
    // SIGKILL.
    child.kill().unwrap();
    child.wait().unwrap();
    out.read_to_string(&mut said).unwrap();
    // The last line may be cut, because the process was killed.
    let whole = said.trim_end_matches(|it: char| it.is_ascii_digit());
    let written = whole.lines().filter_map(|line| line.parse::<u64>().ok());
    written.max().unwrap()
}

/// Each of `sessions` processes recorded its beginning, and the last one all entries up to `written`.
#[track_caller]
fn check_history(folder: &Path, sessions: usize, written: u64) {
    let (entries, reader) = all(folder);
    assert_eq!(reader.skipped().damaged_bytes, 0);
    let starts = entries.iter().filter(|entry| number(entry) == Some(0));
    assert_eq!(starts.count(), sessions);
    let from = numbers(&entries).iter().rposition(|it| *it == 0).unwrap();
    let last: Vec<_> = numbers(&entries)[from..].to_vec();
    assert!(last.len() as u64 > written, "{} of {written}", last.len());
    assert_eq!(last, (0..last.len() as u64).collect::<Vec<_>>());
}

#[test]
fn a_new_start_never_appends_to_a_torn_segment() {
    let folder = tempfile::tempdir().unwrap();
    let first = recorder(folder.path(), Limits::default());
    write(&first, (0..10).map(death));
    stop(first);
    let torn = segments(folder.path()).remove(0);
    let bytes = fs::read(&torn).unwrap();
    fs::write(&torn, &bytes[..bytes.len() - 3]).unwrap();
    let second = recorder(folder.path(), Limits::default());
    write(&second, (10..20).map(death));
    stop(second);
    let (entries, reader) = all(folder.path());
    let expected: Vec<_> = (0..9).chain(10..20).collect();
    assert_eq!(numbers(&entries), expected);
    let torn = Skipped {
        torn_segments: 1,
        ..Skipped::default()
    };
    assert_eq!(reader.skipped(), torn);
}
