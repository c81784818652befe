//! Hostile input: it is analysed in time, its lines are counted, and memory is bounded.

mod read;

use std::time::{Duration, Instant};

use analyze::input::MAX_LINE_BYTES;
use read::text;

/// The maximum duration for a line of a megabyte, without optimisation and on a busy machine.
const MAX_DURATION: Duration = Duration::from_secs(60);

#[track_caller]
fn ends_in_time(what: &str, bytes: &[u8]) -> analyze::analysis::Analysis {
    let begun = Instant::now();
    let found = text(bytes);
    assert!(
        begun.elapsed() < MAX_DURATION,
        "{what} took {:?}",
        begun.elapsed()
    );
    found
}

fn line_of(piece: &str) -> Vec<u8> {
    piece.bytes().cycle().take(MAX_LINE_BYTES).collect()
}

#[test]
fn one_long_line_of_anything_ends_in_time() {
    for piece in [
        "(",
        "a.(",
        "a.( ",
        "a.b()",
        "a.b(0x1",
        "goroutine 1 [x]: ",
        "goroutine 1 [x]:\u{1}a.b() ",
        "](http",
        "[a](http://b ",
        "too many open files ",
        "pod=\"a/b\" ",
        "from runtime service failed context deadline exceeded ",
        "pleg was last seen active 3m ago ",
        "0x1 ",
        "\\_ ",
        "{\"log\":\"",
        "[[[[",
        "{{{{",
        "\"MESSAGE\"",
        "+0x1/0x1 ",
        "1 D ",
        "kubelet_x{le=\"1\",",
        "&quot;",
        "\\\"",
        "9",
        "May ",
        ": ",
        "\0",
        "\u{fffd}",
        "E0505 13:59:56.872880 ",
    ] {
        let found = ends_in_time(piece, &line_of(piece));
        assert_eq!(found.inputs[0].lines, 1, "{piece}");
    }
}

#[test]
fn a_line_beyond_the_bound_is_one_unread_line() {
    let mut bytes = vec![b'x'; 5 * MAX_LINE_BYTES];
    bytes.extend(b"\nMay 05 13:59:56 n1 systemd[1]: Started x.\n");
    let found = ends_in_time("long", &bytes);
    assert_eq!(
        (found.inputs[0].lines, found.inputs[0].unread_lines),
        (2, 1)
    );
}

#[test]
fn numbers_that_overflow_are_read_as_unknown() {
    let found = text(
        "goroutine 99999999999999999999999 [select, 99999999999999999999999 minutes]:\nmain.f(0xffffffffffffffffffffffffff)\n\n\
         goroutine profile: total 99999999999999999999999\n99999999999999999999 @ 0x1\n",
    );
    let goroutines = found.goroutines.unwrap();
    assert_eq!(
        (goroutines.total, goroutines.groups[0].max_wait_minutes),
        (1, None)
    );
    let huge = text(
        "E0505 13:59:56.872880 1 k.go:1] pleg was last seen active 9223372036854775807h0m0s ago; threshold is 3m0s\n",
    );
    assert!(
        huge.pleg
            .unwrap()
            .intervals
            .iter()
            .all(|interval| interval.peak_seconds < 1e9)
    );
}

#[test]
fn different_stacks_beyond_the_bound_are_counted() {
    let dump: String = (0..6000)
        .map(|at| format!("goroutine {at} [select]:\na.com/b.f{at}()\n\n"))
        .collect();
    let goroutines = ends_in_time("stacks", dump.as_bytes()).goroutines.unwrap();
    let grouped: u64 = goroutines.groups.iter().map(|group| group.count).sum();
    assert_eq!(goroutines.total, 6000);
    assert_eq!(grouped + goroutines.dropped.unwrap(), 6000);
}

#[test]
fn empty_and_binary_inputs_show_no_problem() {
    let found = text("");
    assert_eq!(
        (found.inputs[0].lines, found.inputs[0].unread_lines),
        (0, 0)
    );
    assert!(!found.has_problem() && found.pleg.is_none() && found.goroutines.is_none());
    let binary: Vec<u8> = (0..=255u8).cycle().take(100_000).collect();
    let found = ends_in_time("binary", &binary);
    assert_eq!(found.inputs[0].kind, analyze::kind::Kind::Unknown);
    assert!(!found.has_problem());
}

#[test]
fn an_endless_wrapped_line_ends_in_time() {
    let head = format!(
        "{:x<60}\n",
        "E1008 16:23:14.139967    1636 kubelet.go:1846] "
    );
    let rest = format!("{}\n{}\n", "x".repeat(60), "y".repeat(60));
    let bytes = [head, rest.repeat(100_000)].concat();
    let read = ends_in_time("one line in many", bytes.as_bytes());
    assert_eq!(read.inputs[0].lines, 200_001);
    ends_in_time("no lines at all", &vec![b'\n'; 5_000_000]);
}
