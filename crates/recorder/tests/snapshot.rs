//! A written snapshot is read, and other files are refused.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use doctor::bundle::BundleError;
use doctor::facts::{Fact, HostFacts, NodeFacts, ProbeFacts};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use pleg::model::wall_time::WallTime;
use recorder::snapshot::{Head, Parts, ReadError, is_snapshot, open, write};
use recorder::{Entry, Recorded};

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
fn a_written_snapshot_is_read_unchanged_and_only_by_its_owner() {
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
    assert!(snapshot.is_complete && snapshot.skipped_lines == 0);
    let mode = path.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    assert_eq!(folder.path().read_dir().unwrap().count(), 1);
}

#[test]
fn a_truncated_snapshot_is_read_and_marked_as_incomplete() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.gz");
    written(&path);
    let bytes = fs::read(&path).unwrap();
    for length in 0..bytes.len() {
        fs::write(&path, &bytes[..length]).unwrap();
        if let Ok(snapshot) = open(&path) {
            assert!(snapshot.entries.len() <= 50);
            assert!(!snapshot.is_complete || snapshot.entries.len() == 50);
        }
    }
}

#[test]
fn other_files_are_refused_and_unknown_lines_are_counted() {
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
    assert_eq!((snapshot.skipped_lines, snapshot.is_complete), (2, true));
    zip(&format!("{}{{\"bundle\":{{\"kind\":\"x\"}}}}\n", begin(1)));
    let snapshot = open(&path).unwrap();
    assert!(matches!(
        snapshot.unreadable_bundle,
        Some(BundleError::Other)
    ));
}

/// Facts that cannot be compressed well: most of the file is the bundle.
fn long_facts() -> NodeFacts {
    let mut facts = facts();
    let mut seed = 1_u64;
    let noise = (0..4000).map(|_| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        format!("{seed:016x}")
    });
    facts.host.versions.os = Fact::known(noise.collect(), "os");
    facts
}

#[test]
fn damage_in_the_bundle_loses_no_entry() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.gz");
    let parts = Parts {
        facts: Some(long_facts()),
        ..Parts::default()
    };
    write(&path, &head(), &parts, entries()).unwrap();
    let bytes = fs::read(&path).unwrap();
    // The last bytes belong to the end line: a cut in them does not damage the bundle.
    let end = bytes.len() - 200;
    for place in (bytes.len() / 4..end).step_by(997) {
        fs::write(&path, &bytes[..place]).unwrap();
        let snapshot = open(&path).unwrap();
        assert_eq!(snapshot.entries.len(), 50, "cut at {place}");
        assert!(!snapshot.is_complete && snapshot.parts.facts.is_none());
        let mut damaged = bytes.clone();
        damaged[place] ^= 0x55;
        fs::write(&path, &damaged).unwrap();
        let snapshot = open(&path).unwrap();
        assert_eq!(snapshot.entries.len(), 50, "damaged at {place}");
    }
    for place in end..bytes.len() {
        fs::write(&path, &bytes[..place]).unwrap();
        let snapshot = open(&path).unwrap();
        assert_eq!(snapshot.entries.len(), 50, "cut at {place}");
        let facts = snapshot.parts.facts;
        assert!(facts.is_none_or(|facts| facts == long_facts()), "{place}");
    }
}

#[test]
fn a_file_with_the_bundle_before_the_history_is_read_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot.gz");
    written(&path);
    let mut text = String::new();
    let file = fs::File::open(&path).unwrap();
    GzDecoder::new(file).read_to_string(&mut text).unwrap();
    let mut lines: Vec<_> = text.lines().collect();
    let bundle = lines
        .iter()
        .position(|line| line.starts_with("{\"bundle\""));
    let bundle = lines.remove(bundle.unwrap());
    lines.insert(2, bundle);
    let mut gzip = GzEncoder::new(fs::File::create(&path).unwrap(), Compression::fast());
    gzip.write_all((lines.join("\n") + "\n").as_bytes())
        .unwrap();
    gzip.finish().unwrap();
    let snapshot = open(&path).unwrap();
    assert_eq!(snapshot.parts.facts, Some(facts()));
    assert!(snapshot.entries.iter().cloned().eq(entries()));
    assert!(snapshot.is_complete && snapshot.skipped_lines == 0);
}
