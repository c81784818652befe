//! Log lines of the kubelet and the runtime, in the journal or in files.

use std::time::{Duration, Instant};

use causes::Cause;
use causes::finding::{Confidence, Finding};
use doctor::diagnosis::{Diagnosis, NodeVerdict, diagnose};
use doctor::facts::NodeFacts;
use doctor::facts::logs::LogFacts;
use pleg::model::wall_time::WallTime;

use crate::built::{Machine, kubelet, shows};

const LAST_WORDS: &str = r#"run.go:72] "command failed" err="failed to validate kubelet configuration, error: kubelet is configured to not run on a host using cgroup v1""#;

/// A line that a kubelet wrote this many minutes ago, as the journal shows it.
fn minutes_ago(minutes: u64, text: &str) -> String {
    let time = WallTime::now().before(Duration::from_secs(60 * minutes));
    let time = time.timestamp().strftime("%FT%T+0000").to_string();
    format!("{time} node-1 kubelet[2210]: E1112 09:14:02.120034    2210 {text}")
}

/// A machine with this journal. journalctl is called with `--reverse`, so the newest line is first.
fn journal(lines: &[String]) -> Machine {
    let lines: Vec<&str> = lines.iter().rev().map(String::as_str).collect();
    let script = format!("#!/bin/sh\ncat <<'END'\n{}\nEND\n", lines.join("\n"));
    Machine::healthy().program("usr/bin/journalctl", &script)
}

fn logs(machine: &Machine) -> LogFacts {
    let NodeFacts { host, .. } = machine.facts();
    host.logs.value().expect("logs").clone()
}

fn diagnosis(machine: &Machine) -> Diagnosis {
    let facts = NodeFacts {
        taken: WallTime::now(),
        ..machine.facts()
    };
    diagnose(&facts, |_| true)
}

#[test]
fn the_last_error_of_a_kubelet_that_does_not_run_is_evidence_besides_what_systemd_reports() {
    let machine = journal(&[minutes_ago(1, LAST_WORDS)])
        .without("proc/600")
        .bus(|bus| {
            let failed = doctor::facts::host::Service {
                state: "failed".to_owned(),
                main_pid: None,
                ..kubelet(5)
            };
            bus.services = doctor::facts::Fact::known(vec![failed], "bus");
        });
    let diagnosis = diagnosis(&machine);
    let found = diagnosis.findings.iter();
    let found: Vec<_> = found
        .filter(|finding| finding.cause == Cause::KubeletNotRunning)
        .collect();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].confidence, Confidence::Certain);
    shows(found[0], "no process of this machine is a kubelet");
    shows(found[0], "not run on a host using cgroup v1");
}

#[test]
fn a_logged_problem_that_has_ended_is_past() {
    let machine = journal(&[minutes_ago(12, LAST_WORDS)]);
    let diagnosis = diagnosis(&machine);
    assert_ne!(diagnosis.verdict, NodeVerdict::Problem);
    let past = diagnosis.findings.iter().find(|finding| finding.past);
    let past = past.expect("what was logged");
    assert_eq!(past.cause, Cause::KubeletNotRunning);
    // Most lines were not kept, so the number of this one is not known.
    assert!(past.evidence[0].starts_with("journal: "), "{past:#?}");
    assert!(
        past.sentence
            .starts_with("in the log of the last 15 minutes: "),
        "{}",
        past.sentence
    );
}

#[test]
fn lines_that_match_no_rule_or_are_too_old_are_not_kept() {
    let lines = [
        minutes_ago(20, LAST_WORDS),
        minutes_ago(2, "kubelet.go:1234] nothing to see"),
        minutes_ago(1, LAST_WORDS),
    ];
    let logs = logs(&journal(&lines));
    assert_eq!(logs.read, 2);
    assert_eq!(logs.lines.len(), 1);
    assert!(logs.lines[0].text.contains("cgroup v1"));
}

#[test]
fn without_a_journal_files_are_read_with_their_own_times() {
    let time = WallTime::now().before(Duration::from_secs(30));
    let time = time
        .timestamp()
        .strftime("%m%d %H:%M:%S.000000")
        .to_string();
    let line = format!("E{time}    2210 {LAST_WORDS}\n");
    let logs = logs(&Machine::healthy().file("var/log/kubelet.log", &line));
    assert_eq!(logs.lines.len(), 1);
    assert!(logs.lines[0].log.ends_with("var/log/kubelet.log"));
}

#[test]
fn a_runtime_that_logs_to_a_file_is_read_with_its_own_times() {
    let line = |seconds| {
        let time = WallTime::now().before(Duration::from_secs(seconds));
        let time = time.timestamp().strftime("%FT%T.000000000Z").to_string();
        format!(
            r#"time="{time}" level=error msg="RunPodSandbox failed" error="failed to get sandbox image \"registry.k8s.io/pause:3.9\": not found""#
        )
    };
    let text = format!("{}\n{}\n", line(3600), line(30));
    let machine = Machine::healthy().file("var/log/containerd.log", &text);
    assert_eq!(logs(&machine).lines.len(), 1);
    let found = diagnosis(&machine).findings;
    let is_it = |finding: &&Finding| finding.cause == Cause::SandboxImageMissing;
    let found = found.iter().find(is_it).expect("the image");
    assert_eq!(found.confidence, Confidence::High);
    assert!(!found.past);
}

#[test]
fn a_token_in_a_line_is_not_kept() {
    let text = format!("{LAST_WORDS} token=eyJhbGciOiJSUzI1NiIsImtpZCI6IkFCQ0RFRkcifQ.abc.def");
    let logs = logs(&journal(&[minutes_ago(1, &text)]));
    assert!(!logs.lines[0].text.contains("eyJhbGci"), "{logs:?}");
}

#[test]
fn a_journal_that_does_not_answer_delays_nothing_else() {
    let machine = Machine::healthy().program("usr/bin/journalctl", "#!/bin/sh\nsleep 30\n");
    let start = Instant::now();
    let NodeFacts { host, .. } = machine.facts();
    assert!(start.elapsed() < Duration::from_secs(10));
    let why = host.logs.why().expect("no logs").to_string();
    assert_eq!(why, "journalctl did not answer within 4s");
}
