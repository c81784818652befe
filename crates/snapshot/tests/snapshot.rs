//! What is written is read, and what is not a snapshot is refused.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use doctor::facts::{HostFacts, NodeFacts, ProbeFacts};
use flate2::Compression;
use flate2::write::GzEncoder;
use pleg::model::wall_time::WallTime;
use recorder::{Entry, Recorded};
use snapshot::{Head, Parts, ReadError, is_snapshot, open, write};

fn time(seconds: i64) -> WallTime {
    WallTime::from_unix_nanos((1_800_000_000 + seconds) * 1_000_000_000).unwrap()
}

fn head() -> Head {
    Head::new(time(100), time(0), vec!["no agent responds".to_owned()])
}

fn facts() -> NodeFacts {
    NodeFacts {
        taken: time(99),
        probes: ProbeFacts::default(),
        host: HostFacts::default(),
    }
}

fn entries() -> impl Iterator<Item = Entry> {
    (0..50).map(|second| Entry {
        time: time(second),
        what: Recorded::Ended,
    })
}

fn written(path: &Path) {
    let parts = Parts {
        status: None,
        pods: Some(Vec::new()),
        facts: Some(facts()),
    };
    assert_eq!(write(path, &head(), &parts, entries()).unwrap(), 50);
}

#[test]
fn what_was_written_is_read_the_same_and_only_by_its_owner() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.gz");
    fs::write(&path, "an older one").unwrap();
    written(&path);
    assert!(is_snapshot(&path));
    let snapshot = open(&path).unwrap();
    assert_eq!(snapshot.head, head());
    assert_eq!(snapshot.parts.facts, Some(facts()));
    assert_eq!(snapshot.parts.pods, Some(Vec::new()));
    assert_eq!(snapshot.parts.status, None);
    assert!(snapshot.entries.into_iter().eq(entries()));
    assert!(snapshot.is_whole && snapshot.skipped_lines == 0);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn a_part_of_a_file_is_read_and_said_to_be_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.gz");
    written(&path);
    let bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        if let Ok(snapshot) = open(&path) {
            assert!(snapshot.entries.len() <= 50);
            assert!(!snapshot.is_whole || snapshot.entries.len() == 50);
        }
    }
}

#[test]
fn what_is_no_snapshot_is_refused_and_unknown_lines_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.gz");
    let zip = |text: &str| {
        let mut gzip = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        gzip.finish().unwrap();
    };
    fs::write(&path, "text").unwrap();
    assert!(matches!(open(&path), Err(ReadError::Other)) && !is_snapshot(&path));
    for text in ["", "{}", "{\"kind\":\"pleg-bundle\",\"version\":2}\n"] {
        zip(text);
        assert!(matches!(open(&path), Err(ReadError::Other)) && !is_snapshot(&path));
    }
    assert!(!is_snapshot(folder.path()));
    let begin = |version| {
        format!(
            "{{\"kind\":\"pleg-snapshot\",\"version\":{version},\"madeBy\":\"pleg 9\",\
             \"taken\":\"2026-01-01T00:00:00Z\",\"since\":\"2026-01-01T00:00:00Z\",\"missing\":[]}}\n"
        )
    };
    zip(&begin(9));
    assert!(matches!(open(&path), Err(ReadError::Newer(9))));
    zip(&format!(
        "{}{{\"weather\":{{}}}}\nnot json\n{{\"end\":{{\"entries\":0}}}}\n",
        begin(1)
    ));
    let snapshot = open(&path).unwrap();
    assert_eq!((snapshot.skipped_lines, snapshot.is_whole), (2, true));
    zip(&format!("{}{{\"bundle\":{{\"kind\":\"x\"}}}}\n", begin(1)));
    assert!(matches!(open(&path), Err(ReadError::Bundle(_))));
}
