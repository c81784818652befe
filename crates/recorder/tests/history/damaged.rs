//! Forged and damaged files: nothing panics, hangs or takes unbounded memory, and undamaged entries
//! are read.

use std::fs;
use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::DeflateEncoder;
use proptest::prelude::*;
use recorder::store::{Limits, is_recording_file};

use crate::support::{all, death, number, numbers, recorder, segments, status, stop, time, write};

/// A segment with entries of both forms.
fn segment() -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let recorder = recorder(folder.path(), Limits::default());
    write(
        &recorder,
        (0..20).map(|it| match it % 5 {
            4 => status(time(it), 8),
            _ => death(it),
        }),
    );
    stop(recorder);
    fs::read(&segments(folder.path())[0]).unwrap()
}

fn read_bytes(bytes: &[u8]) -> (Vec<u64>, usize, recorder::store::Skipped) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("0000000001-x.plegrec");
    fs::write(&path, bytes).unwrap();
    let (entries, reader) = all(&path);
    (numbers(&entries), entries.len(), reader.skipped())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_bytes_after_the_header_are_read_to_their_end(
        bytes in proptest::collection::vec(any::<u8>(), 0..4000)
    ) {
        let mut file = segment_header();
        file.extend(bytes);
        let (_, entries, _) = read_bytes(&file);
        prop_assert_eq!(entries, 0);
    }

    #[test]
    fn a_damaged_place_loses_only_the_entries_that_it_overlaps(
        places in proptest::collection::vec((any::<prop::sample::Index>(), 1..64usize, any::<u8>()), 1..4)
    ) {
        let whole = SEGMENT.with(Clone::clone);
        let mut damaged = whole.clone();
        for (place, length, byte) in places {
            let place = 12 + place.index(whole.len() - 12);
            let end = (place + length).min(whole.len());
            damaged[place..end].fill(byte);
        }
        let (found, entries, _) = read_bytes(&damaged);
        // Each damage touches two frames at most.
        prop_assert!(entries >= 20 - 3 * 2, "{} entries", entries);
        prop_assert!(found.windows(2).all(|pair| pair[0] < pair[1]));
    }

    #[test]
    fn removed_or_inserted_bytes_lose_only_the_entries_that_they_overlap(
        place in any::<prop::sample::Index>(),
        length in 0..200usize,
        put in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let whole = SEGMENT.with(Clone::clone);
        let place = 12 + place.index(whole.len() - 12);
        let mut other = whole[..place].to_vec();
        other.extend(put);
        other.extend(&whole[(place + length).min(whole.len())..]);
        let (_, entries, _) = read_bytes(&other);
        prop_assert!(entries >= 20 - 4, "{} entries", entries);
    }
}

thread_local! {
    static SEGMENT: Vec<u8> = segment();
}

fn segment_header() -> Vec<u8> {
    SEGMENT.with(|segment| segment[..12].to_vec())
}

/// A frame with the right checksum and any content.
fn frame(flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0xf5, b'p', b'l', b'g'];
    let length = (payload.len() as u32).to_le_bytes();
    let mut rest = vec![flags];
    rest.extend(time(0).as_unix_nanos().to_le_bytes());
    rest.extend(payload);
    let mut crc = flate2::Crc::new();
    crc.update(&length);
    crc.update(&rest);
    frame.extend(length);
    frame.extend(crc.sum().to_le_bytes());
    frame.extend(rest);
    frame
}

fn deflated(bytes: &[u8]) -> Vec<u8> {
    let mut deflated = DeflateEncoder::new(Vec::new(), Compression::best());
    deflated.write_all(bytes).unwrap();
    deflated.finish().unwrap()
}

#[test]
fn an_unknown_kind_of_entry_is_counted_and_skipped() {
    let mut file = segment_header();
    let later = br#"{"time": "2027-01-15T08:00:00Z", "what": {"weather": {"rain": true}}}"#;
    for frame in [
        frame(0, later),
        frame(0, b"not json"),
        frame(1, &deflated(b"[1, 2]")),
        frame(1, b"not deflated"),
        frame(200, b"?"),
        frame(0, b""),
        // A bomb: 64 MB of blanks in 64 KB.
        frame(1, &deflated(&vec![b' '; 64 << 20])),
        // Brackets that are nested deeper than any parser allows.
        frame(1, &deflated(&vec![b'['; 1 << 20])),
    ] {
        file.extend(frame);
    }
    let last = serde_json::to_vec(&death(7)).unwrap();
    file.extend(frame(0, &last));
    let (numbers, _, skipped) = read_bytes(&file);
    assert_eq!(numbers, [7]);
    assert_eq!(skipped.unknown_entries, 8);
    assert_eq!(skipped.damaged_bytes, 0);
}

#[test]
fn many_false_markers_are_read_in_bounded_time() {
    let mut file = segment_header();
    // Each marker is followed by a length that covers many later ones, and by a wrong checksum.
    while file.len() < 6 << 20 {
        file.extend([0xf5, b'p', b'l', b'g', 0, 0, 0x10, 0]);
    }
    let began = std::time::Instant::now();
    let (_, entries, skipped) = read_bytes(&file);
    assert_eq!(entries, 0);
    assert!(skipped.damaged_bytes > 5 << 20);
    assert!(began.elapsed().as_secs() < 20);
}

#[test]
fn other_files_are_counted_and_neither_followed_nor_waited_for() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let mut newer = segment_header();
    newer[8] = 9;
    fs::write(place("0000000001-a.plegrec"), newer).unwrap();
    fs::write(place("0000000002-b.plegrec"), "").unwrap();
    fs::write(place("0000000003-c.plegrec"), "something else entirely").unwrap();
    fs::create_dir(place("0000000004-d.plegrec")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place("0000000005-e.plegrec")).unwrap();
    std::os::unix::fs::symlink("nowhere", place("0000000006-f.plegrec")).unwrap();
    let pipe = place("0000000007-g.plegrec");
    let made = std::process::Command::new("mkfifo").arg(pipe).status();
    assert!(made.unwrap().success());
    fs::write(place("0000000008-h.plegrec"), SEGMENT.with(Clone::clone)).unwrap();
    fs::write(place("notes"), "not ours").unwrap();
    let (entries, reader) = all(folder.path());
    assert_eq!(entries.len(), 20);
    assert_eq!(number(&entries[0]), Some(0));
    assert_eq!(reader.skipped().newer_segments, 1);
    assert_eq!(reader.skipped().unreadable_segments, 6);
    assert!(is_recording_file(&place("0000000008-h.plegrec")));
    assert!(!is_recording_file(&place("0000000003-c.plegrec")));
    assert!(recorder::store::read(Path::new("/nowhere"), Default::default()).is_err());
}
