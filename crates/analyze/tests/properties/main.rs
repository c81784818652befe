//! Properties of any text, and of texts made of the pieces that the parsers look for.

mod bodies;

use proptest::collection::vec;
use proptest::prelude::*;

/// Texts that the parsers look for, and parts of them.
const PIECES: [&str; 60] = [
    "\n",
    "\n",
    "\n",
    "\r\n",
    "\t",
    " ",
    ": ",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\",
    "\\n",
    "&quot;",
    "\0",
    "\u{1b}[2J",
    "µ",
    "goroutine 12 [select, 5 minutes]:\n",
    "goroutine 99999999999999999999 [",
    "created by ",
    " in goroutine 7",
    "sync.(*Mutex).Lock(0xc0045c7bd0)\n",
    "k8s.io/k/pleg.(*GenericPLEG).relist(0x",
    "/x/y.go:12 +0x1\n",
    "...additional frames elided...\n",
    "goroutine profile: total 5\n",
    "18446744073709551615 @ 0x1 0x2\n",
    "#\t0x1\tmain.main+0x1\n",
    "May 05 13:59:56 n1 kubelet[12]: ",
    "E0505 13:59:56.872880    2858 kubelet.go:2055] ",
    "2024-05-05T13:59:56.123456789+08:00 ",
    "17:08:22.1 kubelet ",
    "PLEG is not healthy: pleg was last seen active ",
    "3m53.9s ago; threshold is 3m0s",
    "2562047h47m16.854775807s ago",
    "pleg has yet to be successful",
    "99999999999999999999h",
    "{\"ts\":1753121294157.29,\"caller\":\"a\",\"msg\":\"",
    "{\"log\":\"",
    "{\"MESSAGE\":\"",
    "\"__REALTIME_TIMESTAMP\":\"9223372036854775807\"",
    "time=\"2021-01-01T00:00:00Z\" level=info msg=\"=== BEGIN goroutine stack dump ===\\n",
    "from runtime service failed: context deadline exceeded",
    "[450528.013688] ",
    "INFO: task dockerd:1810 blocked for more than 328 seconds.\n",
    "ovl_sync_fs+0x2f/0x50\n",
    "PID: 1 COMMAND: \"x\"\n",
    "#0 [ff] a at ffffffff\n",
    "# TYPE kubelet_pleg_relist_duration_seconds histogram\n",
    "kubelet_pleg_relist_duration_seconds_bucket{le=\"+Inf\"} NaN\n",
    "kubelet_runtime_operations{operation_type=\"x\"} 1e308\n",
    "  PID  PPID WCHAN STAT COMMAND\n",
    "root 1 0.0 0.0 1 1 ? Ds Nov26 0:07 runc init\n",
    " \\_ ",
    "[a](http://b.c/d)",
    "no space left on device",
    "Killed process 1 (",
];

fn text() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        4 => proptest::sample::select(&PIECES[..]).prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..12),
        1 => "[ -~]{0,40}".prop_map(String::into_bytes),
    ];
    vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_analyzed_and_its_lines_are_counted(bytes in text()) {
        bodies::analysis(&bytes);
    }

    #[test]
    fn any_bytes_are_analyzed_and_their_lines_are_counted(bytes in vec(any::<u8>(), 0..2000)) {
        bodies::analysis(&bytes);
    }

    #[test]
    fn prefixes_are_removed_only_from_the_front(bytes in text()) {
        bytes.split(|byte| *byte == b'\n').for_each(bodies::carriers);
    }

    #[test]
    fn no_goroutine_is_lost(bytes in text()) {
        bodies::dumps(&bytes);
    }

    #[test]
    fn compressed_rubbish_ends(mut bytes in vec(any::<u8>(), 0..500)) {
        bytes.splice(0..0, [0x28, 0xb5, 0x2f, 0xfd]);
        bodies::frames(&bytes);
    }
}
