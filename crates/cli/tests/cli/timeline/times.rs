//! Files without times, dates or years, and files that cannot be read.

use super::*;

#[test]
fn input_without_times_is_not_drawn_and_the_error_says_so() {
    let ended = timeline(&samples().join("dump-crio-1.29-mutex-crio9406.txt"), &[]);
    let stderr = ended.sentence();
    assert!(stderr.contains("no line has a time"), "{stderr}");
    assert!(stderr.contains("pleg analyze"), "{stderr}");
}

#[test]
fn a_file_that_cannot_be_read_is_an_error_alone_and_a_note_beside_others() {
    let (folder, log) = log();
    let missing = folder.path().join("missing.log");
    let stderr = timeline(&missing, &[]).sentence();
    assert!(
        stderr.contains("missing.log") && stderr.contains("no such file"),
        "{stderr}"
    );
    let more = ["-o", "json", "--from", missing.to_str().unwrap()];
    let value = timeline(&log, &more).assert_code(0).value();
    let notes = value["notes"].to_string();
    assert!(notes.contains("missing.log"), "{notes}");
}

#[test]
fn a_log_that_ends_before_its_incident_does_is_drawn_to_its_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.log");
    let not_ready = "I0506 12:03:00.000000 9 kubelet_node_status.go:379] Recording NodeNotReady \
                     event message for node n\n";
    let skipped = |minute| SKIPPED.replace("12:03:00", &format!("12:{minute:02}:00"));
    let lines: String = (3..33).map(skipped).collect();
    fs::write(&path, [LATE, not_ready, &lines].concat()).unwrap();
    let value = timeline(&path, &["-o", "json"]).assert_code(0).value();
    let summary = value["summary"].as_str().unwrap();
    for part in [
        "the node was NotReady for at least 29m",
        "skipped all pods for at least 29m",
    ] {
        assert!(summary.contains(part), "{part}: {summary}");
    }
    assert!(
        value["to"].as_str().unwrap().contains("12:32:00"),
        "{value}"
    );
    let open = value["episodes"].as_array().unwrap().iter();
    let open: Vec<_> = open.filter(|it| it["to"].is_null()).collect();
    assert!(open.len() >= 2, "{value:#}");
    for episode in open {
        let until = episode["seenUntil"].as_str().unwrap();
        assert!(until.contains("12:32:00"), "{episode}");
    }
}

#[test]
fn a_year_in_a_later_line_applies_to_the_lines_before_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.log");
    let not_ready = "I0506 12:03:00.000000 9 kubelet_node_status.go:379] Recording NodeNotReady \
                     event message for node n\n";
    let became = "I0506 12:03:00.000001 9 kubelet_node_status.go:682] Node became not ready: \
                  {Type:Ready Status:False LastHeartbeatTime:2017-05-06 12:03:00.0 +0000 UTC}\n";
    fs::write(&path, [not_ready, became].concat()).unwrap();
    let value = timeline(&path, &["-o", "json"]).assert_code(0).value();
    for end in ["from", "to"] {
        assert!(
            value[end].as_str().unwrap().starts_with("2017-05-06"),
            "{value}"
        );
    }
}

#[test]
fn a_file_without_a_problem_is_not_reported_as_without_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kubelet.log");
    fs::write(
        &path,
        "I0506 12:03:00.000000 9 kubelet.go:1] \"All is well\"\n",
    )
    .unwrap();
    let stderr = timeline(&path, &[]).sentence();
    assert!(stderr.contains("no stuck call"), "{stderr}");
}
