//! Patterns: what each way of failing looks like in a log, and how it is explained.

mod read;

use std::fmt::Write;

use analyze::series::Pattern;
use pleg_text::GoDuration;
use read::{causes, pleg, text, texts};
use std::time::Duration;

/// A kubelet's log of the 5th of May, line by line.
struct Log {
    lines: String,
    second: f64,
    pid: u32,
}

impl Log {
    fn new() -> Self {
        Self {
            lines: String::new(),
            second: 3600.0,
            pid: 2858,
        }
    }

    fn says(&mut self, message: &str) -> &mut Self {
        let clock = |second: f64| {
            let whole = second as u64;
            format!(
                "{:02}:{:02}:{:02}",
                whole / 3600,
                whole / 60 % 60,
                whole % 60
            )
        };
        let micros = (self.second.fract() * 1e6) as u64;
        let (time, pid) = (clock(self.second), self.pid);
        writeln!(self.lines, "May 05 {time} n1 kubelet[{pid}]: E0505 {time}.{micros:06} {pid:7} kubelet.go:2055] {message}").unwrap();
        self
    }

    fn wait(&mut self, seconds: f64) -> &mut Self {
        self.second += seconds;
        self
    }

    fn last_seen(&mut self, age: f64) -> &mut Self {
        let age = GoDuration(Duration::from_secs_f64(age));
        self.says(&format!(
            "\"Skipping pod synchronization\" err=\"PLEG is not healthy: pleg was last seen active {age} ago; threshold is 3m0s\""
        ))
    }

    fn never(&mut self) -> &mut Self {
        self.says("\"Skipping pod synchronization\" err=\"[container runtime status check may not have completed yet, PLEG is not healthy: pleg has yet to be successful]\"")
    }

    /// Adds no line for three minutes, then one every five seconds until the peak.
    fn tooth(&mut self, peak: f64) -> &mut Self {
        self.wait(180.1);
        let mut age = 180.1;
        while age <= peak {
            self.last_seen(age).wait(5.0);
            age += 5.0;
        }
        self.wait(peak - age)
    }

    fn quiet(&mut self) -> &mut Self {
        self.wait(60.0).says("\"SyncLoop ADD\" source=\"api\"")
    }
}

#[track_caller]
fn check(log: &Log, pattern: Pattern, intervals: usize) -> analyze::analysis::Analysis {
    let found = text(&log.lines);
    let read = pleg(&found);
    assert_eq!(
        (read.pattern, read.intervals.len()),
        (pattern, intervals),
        "{read:#?}"
    );
    assert_eq!(found.inputs[0].unread_lines, 0);
    found
}

#[test]
fn a_list_that_never_succeeds_grows_for_hours() {
    let mut log = Log::new();
    log.quiet().tooth(4.0 * 3600.0);
    let found = check(&log, Pattern::ListNeverSucceeds, 1);
    assert!(
        pleg(&found).reading.contains("call that has no deadline"),
        "{found:#?}"
    );
    assert!((pleg(&found).intervals[0].peak_seconds - 14_395.1).abs() < 0.1);
}

#[test]
fn lists_that_time_out_are_reported() {
    let mut log = Log::new();
    log.quiet();
    for _ in 0..5 {
        log.wait(120.0).says("\"GenericPLEG: Unable to retrieve pods\" err=\"rpc error: code = DeadlineExceeded desc = context deadline exceeded\"");
    }
    log.tooth(800.0);
    let found = check(&log, Pattern::ListNeverSucceeds, 1);
    assert!(
        pleg(&found)
            .reading
            .contains("does not answer a list call within its deadline")
    );
}

#[test]
fn equal_teeth_of_four_minutes_are_two_calls_that_time_out() {
    let mut log = Log::new();
    log.quiet();
    for _ in 0..6 {
        log.tooth(241.3);
    }
    log.quiet();
    let found = check(&log, Pattern::StuckContainers, 6);
    assert!(
        pleg(&found).reading.contains("waits for 2 status calls"),
        "{found:#?}"
    );
}

#[test]
fn a_container_whose_status_hangs_is_named() {
    let id = "3f".repeat(32);
    let mut log = Log::new();
    log.quiet();
    for _ in 0..3 {
        log.tooth(240.9).says(&format!("\"ContainerStatus from runtime service failed\" err=\"rpc error: code = DeadlineExceeded desc = context deadline exceeded\" containerID=\"{id}\""));
    }
    let found = check(&log, Pattern::StuckContainers, 3);
    assert_eq!(causes(&found), ["container-lock"]);
    assert_eq!(found.findings[0].culprit.id.as_deref(), Some(&*id));
}

#[test]
fn irregular_peaks_just_above_the_threshold_are_overload() {
    let mut log = Log::new();
    log.quiet();
    for peak in [184.0, 207.0, 191.0, 221.0, 186.0] {
        log.tooth(peak).wait(20.0);
    }
    log.quiet();
    let found = check(&log, Pattern::Overload, 5);
    assert_eq!(causes(&found), ["too-many-containers"]);
}

#[test]
fn a_kubelet_that_is_restarted_again_and_again_is_a_restart_loop() {
    let mut log = Log::new();
    for pid in [100, 200, 300, 400] {
        log.pid = pid;
        log.says("\"Starting kubelet main sync loop\"")
            .never()
            .wait(0.2);
        log.says("\"SyncLoop ADD\" source=\"api\"")
            .tooth(310.0)
            .wait(2.0);
    }
    let found = check(&log, Pattern::RestartLoop, 4);
    assert_eq!(causes(&found), ["repair-loop"]);
}

#[test]
fn a_machine_that_was_paused_is_a_stall() {
    let mut log = Log::new();
    log.quiet()
        .quiet()
        .wait(2800.0)
        .last_seen(2803.4)
        .wait(0.5)
        .quiet()
        .quiet();
    let found = check(&log, Pattern::Stall, 1);
    assert_eq!(causes(&found), ["cpu-starved"]);
}

#[test]
fn a_startup_is_not_a_fault_even_if_it_is_slow() {
    let mut log = Log::new();
    log.never()
        .wait(0.1)
        .never()
        .wait(0.4)
        .never()
        .wait(3.2)
        .never();
    log.quiet().quiet();
    let found = check(&log, Pattern::Startup, 0);
    assert!(!found.has_problem());
    let mut slow = Log::new();
    for _ in 0..6 {
        slow.never().wait(5.0);
    }
    slow.quiet().quiet();
    assert!(!check(&slow, Pattern::Startup, 0).has_problem());
}

#[test]
fn a_kubelet_that_never_relists_is_not_a_startup() {
    let mut log = Log::new();
    for _ in 0..60 {
        log.never().wait(5.0);
    }
    check(&log, Pattern::NeverRelisted, 1);
}

#[test]
fn a_healthy_log_has_no_pattern() {
    let mut log = Log::new();
    for _ in 0..10 {
        log.quiet();
    }
    let found = check(&log, Pattern::None, 0);
    assert!(!found.has_problem());
}

#[test]
fn an_interval_that_log_rotation_split_is_one_interval() {
    let mut log = Log::new();
    log.quiet().tooth(600.0);
    let middle = log.lines.len() / 2;
    let cut = log.lines[middle..].find('\n').unwrap() + middle + 1;
    let (older, newer) = log.lines.split_at(cut);
    // The newer one is named first, as a shell sorts kubelet.log before kubelet.log.1.
    let found = texts(&[newer.as_bytes(), older.as_bytes()]);
    let whole = text(&log.lines);
    assert_eq!(pleg(&found).intervals, pleg(&whole).intervals);
    assert_eq!(pleg(&found).pattern, Pattern::ListNeverSucceeds);
}

#[test]
fn the_lines_of_two_nodes_are_kept_apart() {
    let mut one = Log::new();
    one.quiet().tooth(400.0);
    let mut lines: Vec<String> = Vec::new();
    for line in one.lines.lines() {
        lines.push(line.to_owned());
        lines.push(line.replace(" n1 ", " n2 ").replace("SyncLoop", "Other"));
    }
    let found = text(lines.join("\n"));
    let hosts: Vec<&str> = pleg(&found).intervals.iter().map(|at| &*at.host).collect();
    assert_eq!(hosts, ["n1", "n2"]);
}
