//! Reading while the recorder writes, and while segments are removed.

use std::sync::atomic::{AtomicBool, Ordering};

use recorder::store::Limits;

use crate::support::{all, death, number, recorder, stop, until, write};

#[test]
fn two_readers_see_whole_entries_without_gaps_while_it_writes_and_removes_segments() {
    let folder = tempfile::tempdir().unwrap();
    let limits = Limits {
        max_bytes: 64 << 10,
        ..Limits::default()
    };
    let recorder = recorder(folder.path(), limits);
    write(&recorder, [death(0)]);
    let is_over = AtomicBool::new(false);
    let reading = || {
        let (mut reads, mut newest) = (0, 0);
        while !is_over.load(Ordering::Relaxed) || reads == 0 {
            let (entries, reader) = all(folder.path());
            let skipped = reader.skipped();
            assert_eq!((skipped.damaged_bytes, skipped.unknown_entries), (0, 0));
            let numbers: Vec<_> = entries.iter().map(|entry| number(entry).unwrap()).collect();
            // Segments that are removed between the listing and the reading are missing, and counted.
            let gaps = numbers.windows(2).filter(|pair| pair[0] + 1 != pair[1]);
            assert!(gaps.count() as u64 <= skipped.removed_segments);
            assert!(numbers.is_sorted());
            if skipped.removed_segments == 0
                && let Some(last) = numbers.last()
            {
                assert!(*last >= newest, "{last} after {newest}");
                newest = *last;
            }
            reads += 1;
        }
        reads
    };
    std::thread::scope(|scope| {
        let readers = [scope.spawn(reading), scope.spawn(reading)];
        for it in 1..20_000 {
            recorder.record(&death(it));
            if it % 500 == 0 {
                until(|| recorder.written().written > it);
            }
        }
        until(|| recorder.written().written == 20_000);
        is_over.store(true, Ordering::Relaxed);
        for reader in readers {
            assert!(reader.join().unwrap() > 1);
        }
    });
    stop(recorder);
}
