//! `pleg timeline`: a picture of an incident, from saved files.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, mkfifoat};
use serde_json::Value;

use crate::support::{Ended, Pleg};

mod history;
mod times;

const LATE: &str = "E0506 12:02:00.000000 9 remote_runtime.go:600] \"ContainerStatus from runtime service \
                    failed\" err=\"rpc error: code = DeadlineExceeded desc = context deadline exceeded\" \
                    containerID=\"61ac7eca54e961ac7eca54e961ac7eca54e961ac7eca54e961ac7eca54e961ac\"\n";
const SKIPPED: &str = "E0506 12:03:00.000000 9 kubelet.go:2055] \"Skipping pod synchronization\" \
                       err=\"PLEG is not healthy: pleg was last seen active 3m1s ago; threshold is 3m0s\"\n";

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../analyze/tests/samples")
}

fn timeline(path: &Path, more: &[&str]) -> Ended {
    let mut args = vec!["timeline", "--from", path.to_str().unwrap()];
    args.extend(more);
    Pleg::new(&args).run()
}

/// A log in a temporary folder.
fn log() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.log");
    fs::write(&path, [LATE, SKIPPED].concat()).unwrap();
    (folder, path)
}

fn titles(value: &Value) -> Vec<&str> {
    let episodes = value["episodes"].as_array().unwrap().iter();
    episodes
        .filter_map(|episode| episode["what"].as_str())
        .collect()
}

#[test]
fn a_picture_has_each_of_its_formats() {
    let (_folder, log) = log();
    let json = timeline(&log, &["-o", "json"]).assert_code(0).value();
    assert_eq!(titles(&json), ["noRelist", "hungCall", "podsSkipped"]);
    assert_eq!(json["episodes"][1]["call"], "ContainerStatus");
    assert_eq!(json["episodes"][1]["source"]["line"], 1);
    assert_eq!(json["episodes"][2]["to"], Value::Null);
    let intervals = timeline(&log, &["-o", "intervals"]).assert_code(0).value();
    assert_eq!(
        intervals["items"][1]["message"]["reason"],
        "ContainerStatusHangs"
    );
    let svg = timeline(&log, &["-o", "svg"]).assert_code(0).out;
    assert!(
        svg.starts_with("<svg ") && svg.ends_with("</svg>\n"),
        "{svg}"
    );
    let html = timeline(&log, &["-o", "html"]).assert_code(0).out;
    assert!(html.starts_with("<!doctype html>"), "{html}");
    let text = timeline(&log, &["-o", "text"]).assert_code(0).out;
    for part in [
        "61ac7eca54e96 (ContainerStatus)",
        "pods are not synced",
        "kubelet.log:2",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_pipe_receives_the_page_and_the_extension_of_a_file_decides_the_format() {
    let (folder, log) = log();
    let piped = timeline(&log, &[]).assert_code(0).out;
    assert!(piped.starts_with("<!doctype html>"));
    for (name, begin) in [
        ("a.html", "<!doctype html>"),
        ("a", "<!doctype html>"),
        ("a.svg", "<svg "),
        ("b.SVG", "<svg "),
        ("b.HTML", "<!doctype html>"),
        ("a.json", "{\"summary\""),
        ("a.txt", "6 May "),
    ] {
        let path = folder.path().join(name);
        let ended = timeline(&log, &["--output-file", path.to_str().unwrap()]);
        assert_eq!(ended.assert_code(0).out, "");
        let written = fs::read_to_string(&path).unwrap();
        assert!(written.starts_with(begin), "{name}: {written}");
    }
    let path = folder.path().join("a.png");
    let ended = timeline(&log, &["--output-file", path.to_str().unwrap()]);
    let stderr = ended.sentence();
    assert!(
        stderr.contains(".png") && stderr.contains("svg"),
        "{stderr}"
    );
}

#[test]
fn files_are_drawn_with_and_without_from() {
    let (_folder, log) = log();
    let args = ["timeline", log.to_str().unwrap(), "-o", "json"];
    let value = Pleg::new(&args).run().assert_code(0).value();
    assert_eq!(value, timeline(&log, &["-o", "json"]).value());
}

#[test]
fn a_note_lists_files_of_different_days() {
    let (folder, log) = log();
    let later = folder.path().join("later.log");
    fs::write(&later, LATE.replace("E0506", "E0510")).unwrap();
    let text = timeline(&log, &["-o", "text", "--from", later.to_str().unwrap()])
        .assert_code(0)
        .out;
    for part in [
        "from different times: ",
        "kubelet.log is from 6 May ",
        "later.log is from 10 May ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let alone = timeline(&log, &["-o", "text"]).assert_code(0).out;
    assert!(!alone.contains("different times"), "{alone}");
}

#[test]
fn a_task_that_was_blocked_in_the_kernel_and_the_conditions_of_the_node_are_drawn() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let kernel = write(
        "kern.log",
        "2024-05-06T12:34:00+0000 n1 kernel: INFO: task dockerd:1810 blocked for more than 120 seconds.\n",
    );
    let describe = write(
        "describe.txt",
        "Conditions:\n  Type   Status  LastHeartbeatTime                 LastTransitionTime                Reason           Message\n  Ready  False   Mon, 06 May 2024 12:40:00 +0000   Mon, 06 May 2024 12:33:00 +0000   KubeletNotReady  PLEG is not healthy\n",
    );
    let text = timeline(
        &kernel,
        &["-o", "text", "--from", describe.to_str().unwrap()],
    )
    .assert_code(0)
    .out;
    for part in [
        "The task dockerd (1810) was blocked in the kernel for at least 2m0s; the node was NotReady for at least 7m0s.",
        "  dockerd (1810)  ",
        "NotReady: KubeletNotReady: PLEG is not healthy  [",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("no line with a time"), "{text}");
}

#[test]
fn three_saved_files_make_one_picture_that_says_what_happened() {
    let files = [
        "log-kubelet-1.23-eks-structured-eksworkshop447.log",
        "dump-crio-1.29-mutex-crio9406.txt",
        "log-systemd-cookie-overflow-systemdrhel266.log",
    ];
    let mut args = vec![
        "timeline".to_owned(),
        "-o".into(),
        "json".into(),
        "--from".into(),
    ];
    args.extend(files.map(|name| samples().join(name).to_string_lossy().into_owned()));
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let value = Pleg::new(&args).run().assert_code(0).value();
    let summary = value["summary"].as_str().unwrap();
    assert!(summary.contains("D-Bus serial numbers"), "{summary}");
    let titles = titles(&value);
    assert!(
        titles.contains(&"podsSkipped") && titles.contains(&"sign"),
        "{titles:?}"
    );
    assert_eq!(value["sources"].as_array().unwrap().len(), 3);
}

#[test]
fn the_three_files_of_the_documents_say_what_happened_and_which_of_them_have_no_dates() {
    let folder = samples().join("reports");
    let path = |name: &str| folder.join(name).display().to_string();
    let paths = [
        "terway-kubelet.log",
        "terway-kubelet-stacks.txt",
        "terwayd-goroutines.txt",
    ];
    let paths = paths.map(path);
    let [log, kubelet, agent] = paths.each_ref().map(String::as_str);
    let said = Pleg::new(&["timeline", log, kubelet, agent, "-o", "text"]);
    let said = said.run().assert_code(0).out;
    assert!(
        said.contains("no relist completed for at least 3m26s"),
        "{said}"
    );
    assert!(said.contains("Cause: a CNI plugin, or the agent"), "{said}");
    assert!(said.contains("waits in PodSandboxStatus"), "{said}");
    assert!(said.contains("cni-plugin-hang (high confidence)"), "{said}");
    assert!(said.contains("terway-kubelet.log has no dates"), "{said}");
    assert!(!said.contains("shim-unresponsive"), "{said}");
    let value = Pleg::new(&["timeline", log, kubelet, agent, "-o", "json"]);
    let value = value.run().assert_code(0).value();
    assert_eq!(value["causes"].as_array().map(Vec::len), Some(1), "{value}");
    assert_eq!(value["causes"][0]["cause"], "cni-plugin-hang");
    assert_eq!(value["causes"][0]["culprit"], "cni-agent");
}

#[test]
fn an_input_is_not_replaced_and_a_picture_is_written_whole_or_not_at_all() {
    let (folder, log) = log();
    let before = fs::read_to_string(&log).unwrap();
    let stderr = timeline(&log, &["--output-file", log.to_str().unwrap()]).sentence();
    assert!(stderr.contains("would replace what is read"), "{stderr}");
    assert_eq!(fs::read_to_string(&log).unwrap(), before);

    let nowhere = folder.path().join("none/a.html");
    let ended = timeline(&log, &["--output-file", nowhere.to_str().unwrap()]).assert_code(2);
    assert!(ended.err.contains("pleg: cannot write"), "{}", ended.err);
    let full = timeline(&log, &["-o", "svg", "--output-file", "/dev/full"]).assert_code(2);
    assert!(
        full.err.contains("pleg: cannot write /dev/full"),
        "{}",
        full.err
    );
    assert!(
        full.err.contains("kubelet.log has no year: "),
        "{}",
        full.err
    );
    let page = folder.path().join("a.html");
    timeline(&log, &["--output-file", page.to_str().unwrap()]).assert_code(0);
    let names = fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(names, 2, "the log, the page, and nothing that is left over");
}

#[test]
fn the_text_has_causes_notes_and_sources_as_the_page_has_them() {
    let (folder, log) = log();
    let missing = folder.path().join("missing.log");
    let dump = samples().join("dump-crio-1.29-mutex-crio9406.txt");
    let more = [
        "-o",
        "text",
        "--from",
        missing.to_str().unwrap(),
        dump.to_str().unwrap(),
    ];
    let text = timeline(&log, &more).assert_code(0).out;
    for part in [
        "missing.log",
        "not in the picture",
        "Read: ",
        "Culprit: ",
        "  -> ",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_pipe_is_read_completely() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe");
    mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR).unwrap();
    let writing = std::thread::spawn({
        let path = path.clone();
        move || fs::write(path, [LATE, SKIPPED].concat())
    });
    let value = timeline(&path, &["-o", "json"]).assert_code(0).value();
    writing.join().unwrap().unwrap();
    assert_eq!(titles(&value), ["noRelist", "hungCall", "podsSkipped"]);
}

#[test]
fn since_omits_episodes_that_ended_before() {
    let (_folder, log) = log();
    let value = timeline(&log, &["-o", "json", "--since", "30s"])
        .assert_code(0)
        .value();
    assert_eq!(titles(&value), ["noRelist", "podsSkipped"]);
    let stderr = timeline(&log, &["--since", "soon"]).assert_code(2).err;
    assert!(stderr.contains("is not a duration"), "{stderr}");
}

#[test]
fn a_hostile_line_is_escaped_for_terminal_and_browser() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.log");
    let hostile = "<script>x</script>\u{1b}[2J\u{202e}";
    fs::write(
        &path,
        SKIPPED.replace("9 kubelet.go", &format!("9 kubelet.go:1] {hostile} x.go")),
    )
    .unwrap();
    for format in ["html", "svg", "text", "json", "intervals"] {
        let out = timeline(&path, &["-o", format]).assert_code(0).out;
        assert!(!out.contains(['\u{1b}', '\u{202e}']), "{format}: {out}");
        if format == "html" || format == "svg" {
            assert!(!out.contains("<script>x"), "{format}: {out}");
        }
    }
}
