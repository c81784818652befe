//! `pleg analyze` with files, pipes and folders.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{Mode, mkfifoat};
use serde_json::Value;

use crate::support::{Ended, Pleg, TEST_LIMIT};

const UNHEALTHY: &str = "E0413 10:53:52.844381    3263 kubelet.go:2055] \"Skipping pod synchronization\" err=\"PLEG is not healthy: pleg was last seen active 2h33m12.704970756s ago; threshold is 3m0s\"\n";
const HEALTHY: &str =
    "I0413 10:53:52.844381    3263 kubelet.go:2055] \"SyncLoop ADD\" source=\"api\"\n";

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../analyze/tests/samples")
}

fn analyze(paths: &[&Path]) -> Ended {
    let mut args = vec!["analyze", "-o", "json"];
    args.extend(paths.iter().map(|path| path.to_str().unwrap()));
    Pleg::new(&args).run()
}

#[track_caller]
fn input(value: &Value, at: usize, kind: &str, lines: u64, unread: u64) {
    let input = &value["inputs"][at];
    let read = (&input["kind"], &input["lines"], &input["unreadLines"]);
    assert_eq!(
        read,
        (&kind.into(), &lines.into(), &unread.into()),
        "{value:#}"
    );
}

#[test]
fn an_unhealthy_log_is_exit_code_1_and_a_healthy_one_0() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.log");
    fs::write(&path, UNHEALTHY).unwrap();
    let value = analyze(&[&path]).assert_code(1).value();
    input(&value, 0, "kubelet-log", 1, 0);
    assert_eq!(value["pleg"]["pattern"], "list-never-succeeds");
    assert_eq!(value["pleg"]["intervals"][0]["peakSeconds"], 9192.704970756);
    assert_eq!(value["pleg"]["intervals"][0]["lines"], 1);
    assert_eq!(value["goroutines"], Value::Null);
    fs::write(&path, HEALTHY).unwrap();
    let value = analyze(&[&path]).assert_code(0).value();
    assert_eq!(
        (&value["pleg"]["pattern"], &value["findings"]),
        (&"none".into(), &Value::Array(vec![]))
    );
}

#[test]
fn findings_have_the_doctors_shape() {
    let value = analyze(&[&samples().join("log-systemd-cookie-overflow-systemdrhel266.log")])
        .assert_code(1)
        .value();
    let finding = value["findings"][0].as_object().unwrap();
    let keys: Vec<&str> = finding.keys().map(String::as_str).collect();
    assert_eq!(
        keys,
        [
            "advice",
            "cause",
            "confidence",
            "culprit",
            "evidence",
            "fixedIn",
            "past",
            "references",
            "title",
            "verdict"
        ]
    );
    assert_eq!(finding["cause"], "systemd-cookie-overflow");
    assert_eq!(
        (&finding["verdict"], &finding["confidence"]),
        (&"problem".into(), &"certain".into())
    );
    let culprit: Vec<&str> = finding["culprit"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    assert_eq!(
        culprit,
        ["container", "id", "pid", "pod", "process", "unit"]
    );
}

#[test]
fn text_quotes_lines_with_file_and_number_in_front() {
    let path = samples().join("log-systemd-cookie-overflow-systemdrhel266.log");
    let ended = Pleg::new(&["analyze", path.to_str().unwrap()])
        .run()
        .assert_code(1);
    assert!(
        ended
            .out
            .contains("266.log:1: Jan 4 11:56:31 host-k8s-node001 systemd: Failed to propagate"),
        "{}",
        ended.out
    );
    assert!(
        ended.out.contains("systemctl daemon-reexec"),
        "{}",
        ended.out
    );
    assert!(
        !ended.out.contains('\u{1b}') && ended.err.is_empty(),
        "{ended:?}"
    );
}

#[test]
fn a_log_without_a_cause_leads_to_advice_on_where_to_look() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.log");
    fs::write(&path, UNHEALTHY).unwrap();
    let page = Pleg::new(&["analyze", path.to_str().unwrap()]).run();
    let page = page.assert_code(1).out;
    assert!(
        page.contains("What to do now\n  1. while the fault lasts, run `pleg doctor`"),
        "{page}"
    );
    // The summary is short; the section has the whole sentence.
    assert!(
        page.contains("one line alone does not show a pattern"),
        "{page}"
    );
}

#[test]
fn the_advice_for_a_suspicion_is_to_confirm_it_first() {
    let dump = samples().join("dump-runc-1.0rc-dbus-inworker-runc1959.txt");
    let value = analyze(&[&dump]).assert_code(1).value();
    let finding = &value["findings"][0];
    assert_eq!(finding["verdict"], "suspect", "{finding:#}");
    let first = finding["advice"][0].as_str().unwrap();
    assert!(
        first.starts_with("confirm first that it is this: `pleg explain "),
        "{first}"
    );
}

#[test]
fn a_folder_of_rotated_and_compressed_logs_is_read() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("kubelet.log"), UNHEALTHY).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(HEALTHY.repeat(3).as_bytes()).unwrap();
    fs::write(
        folder.path().join("kubelet.log.1.gz"),
        gzip.finish().unwrap(),
    )
    .unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(
        HEALTHY.as_bytes(),
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    fs::write(folder.path().join("kubelet.log.2.zst"), zstd).unwrap();
    let value = analyze(&[folder.path()]).assert_code(1).value();
    input(&value, 0, "kubelet-log", 1, 0);
    input(&value, 1, "kubelet-log", 3, 0);
    input(&value, 2, "kubelet-log", 1, 0);
}

#[test]
fn an_unreadable_file_is_one_sentence() {
    let said = Pleg::new(&["analyze", "/nowhere/at/all"]).run().sentence();
    assert_eq!(
        said,
        "cannot read /nowhere/at/all: no such file or directory"
    );
    Pleg::new(&["analyze"]).run().assert_code(2);
    let folder = tempfile::tempdir().unwrap();
    let broken = folder.path().join("broken.gz");
    fs::write(&broken, [0x1f, 0x8b, 8, 0, 0, 0]).unwrap();
    Pleg::new(&["analyze", broken.to_str().unwrap()])
        .run()
        .sentence();
}

#[test]
fn readable_files_are_analyzed_beside_unreadable_ones() {
    let path = samples().join("log-kubelet-1.9-gke-k8s61117.log");
    let ended = analyze(&[&path, Path::new("/nowhere/at/all")]).assert_code(2);
    let value = ended.value();
    assert_eq!(value["pleg"]["intervals"][0]["lines"], 5);
    assert_eq!(
        value["inputs"][1]["error"],
        "No such file or directory (os error 2)"
    );
    assert!(
        ended.err.contains("no such file or directory"),
        "{}",
        ended.err
    );
}

#[test]
fn the_readable_part_of_a_truncated_archive_is_analyzed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.log.gz");
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    for at in 0..20_000u64 {
        let noise = at.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        writeln!(gzip, "{}{noise}", HEALTHY.trim_end()).unwrap();
    }
    let whole = gzip.finish().unwrap();
    fs::write(&path, &whole[..whole.len() / 2]).unwrap();
    let value = analyze(&[&path]).assert_code(2).value();
    assert!(value["inputs"][0]["lines"].as_u64() > Some(1000), "{value}");
    assert!(value["inputs"][0]["error"].is_string(), "{value}");
}

#[test]
fn an_empty_file_is_unknown_and_a_binary_one_is_skipped_with_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    let binary = folder.path().join("binary");
    fs::write(&binary, [0xff, 0, 1, 2, b'\n'].repeat(1000)).unwrap();
    let value = analyze(&[&empty, &binary]).assert_code(0).value();
    input(&value, 0, "unknown", 0, 0);
    input(&value, 1, "unknown", 0, 0);
    assert_eq!(value["inputs"][1]["error"], "skipped: it is a binary file");
    assert_eq!(value["pleg"], Value::Null);
    let page = Pleg::new(&["analyze", binary.to_str().unwrap()]).run();
    let page = page.assert_code(0).out;
    let lines = page.lines().filter(|line| line.contains("binary"));
    let expected = format!(
        "{}: unknown, 0 lines; skipped: it is a binary file",
        binary.display()
    );
    assert_eq!(lines.collect::<Vec<_>>(), [expected], "{page}");
}

#[test]
fn a_pipe_is_read_to_its_end_and_not_waited_for_without_a_writer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let writing = std::thread::spawn({
        let path = path.clone();
        move || {
            std::thread::sleep(Duration::from_millis(300));
            let mut pipe = fs::OpenOptions::new().write(true).open(path).unwrap();
            pipe.write_all(UNHEALTHY.as_bytes()).unwrap();
            std::thread::sleep(Duration::from_millis(300));
            pipe.write_all(HEALTHY.as_bytes()).unwrap();
        }
    });
    let value = analyze(&[&path]).assert_code(1).value();
    writing.join().unwrap();
    input(&value, 0, "kubelet-log", 2, 0);
    let begun = Instant::now();
    let said = Pleg::new(&["analyze", path.to_str().unwrap()])
        .start()
        .end(TEST_LIMIT);
    assert_eq!(said.code, Some(2));
    assert!(
        said.err.contains("waiting for data") && said.err.contains("nothing was written"),
        "{}",
        said.err
    );
    assert!(begun.elapsed() > Duration::from_secs(5));
}

#[test]
fn standard_input_is_named_by_a_dash() {
    let value = Pleg::new(&["analyze", "-o", "json", "-"])
        .run()
        .assert_code(0)
        .value();
    assert_eq!(value["inputs"][0]["path"], "-");
}
