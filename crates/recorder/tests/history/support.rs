//! Entries, folders, and a recorder that has written everything.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pleg::model::wall_time::{WallClock, WallTime, system_clock};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use recorder::store::{Limits, Range, Reader, read};
use recorder::{Entry, Recorded, Recorder};
use serde_json::json;

pub const TIMEOUT: Duration = Duration::from_secs(60);

/// The time at this many seconds after a fixed beginning.
pub fn time(seconds: u64) -> WallTime {
    let nanos = (1_800_000_000 + seconds as i64) * 1_000_000_000;
    WallTime::from_unix_nanos(nanos).unwrap()
}

/// A container's exit, with its number as exit code.
pub fn death(number: u64) -> Entry {
    death_at(number, time(number))
}

pub fn death_at(number: u64, time: WallTime) -> Entry {
    let event = json!({"kind": "event", "time": time, "type": "ContainerDied",
        "pod": {"uid": "u", "namespace": "default", "name": "web-0"}, "id": "61ac7eca54e9",
        "subject": "container", "container": "app", "exitCode": number, "reason": "Error",
        "initial": false, "source": "kernel"});
    let record = serde_json::from_value(event).unwrap();
    Entry::published(record, None).unwrap()
}

/// The number of an exit; `None` for other entries.
pub fn number(entry: &Entry) -> Option<u64> {
    match &entry.what {
        Recorded::Published(published) => match &published.record {
            Record::Event(event) => event.exit_code.map(|code| code as u64),
            _ => None,
        },
        _ => None,
    }
}

pub fn numbers(entries: &[Entry]) -> Vec<u64> {
    entries.iter().filter_map(number).collect()
}

/// A status with `stuck` stuck calls: a long entry, which is deflated.
pub fn status(time: WallTime, stuck: usize) -> Entry {
    Entry::status(time, report("Degraded", "ContainerStuck", stuck))
}

pub fn report(state: &str, reason: &str, stuck: usize) -> StatusReport {
    let call = |number| {
        json!({"call": "ContainerStatus", "id": format!("c{number}"), "container": "app",
            "sinceSeconds": 5.0, "pod": {"uid": "u", "namespace": "n", "name": "p"}})
    };
    let stuck: Vec<_> = (0..stuck).map(call).collect();
    let since = "2026-11-22T20:00:00Z";
    let report = json!({
        "health": {"state": state, "reason": reason, "since": since, "message": "",
            "lastSeen": since, "ageSeconds": 0.1, "thresholdSeconds": 180.0},
        "kubeletView": {"ready": true, "message": "", "notReadyInSeconds": null},
        "relist": {"mode": "generic", "count": 1, "periodSeconds": 1.0,
            "lastDurationSeconds": 0.1, "lastKind": "list", "lastFailure": null,
            "sweeping": false},
        "stuck": stuck, "failing": [], "blind": [], "inFlight": [],
        "stream": {"state": "off", "events": 0, "missed": 0, "reconnects": 0},
        "kernel": {"state": "off", "watched": 0, "why": null},
        "runtime": {"name": null, "version": null, "apiVersion": null, "endpoint": "unix:///x"},
        "pods": 2, "containers": {},
    });
    serde_json::from_value(report).unwrap()
}

pub fn recorder(folder: &Path, limits: Limits) -> Recorder {
    recorder_with(folder, limits, system_clock())
}

pub fn recorder_with(folder: &Path, limits: Limits, clock: WallClock) -> Recorder {
    Recorder::start(folder.to_owned(), limits, Duration::ZERO, clock).unwrap()
}

/// Waits until the condition holds.
#[track_caller]
pub fn until(mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < TIMEOUT, "it never became true");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Records these entries and waits until they are on the disk.
pub fn write(recorder: &Recorder, entries: impl IntoIterator<Item = Entry>) {
    for entry in entries {
        let before = recorder.written();
        recorder.record(&entry);
        until(|| recorder.written().written > before.written);
    }
}

pub fn stop(recorder: Recorder) {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_time().build().unwrap();
    runtime.block_on(recorder.stop());
}

pub fn all(path: &Path) -> (Vec<Entry>, Reader) {
    let mut reader = read(path, Range::default()).unwrap();
    let entries = reader.by_ref().collect();
    (entries, reader)
}

pub fn segments(folder: &Path) -> Vec<PathBuf> {
    let entries = folder
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut segments: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "plegrec"))
        .collect();
    segments.sort();
    segments
}
