//! A recording, in which the reader steps.

use pleg::model::wall_time::WallTime;
use serde_json::json;
use top::recording::Replay;
use top::state::Request;
use top::{Recording, State, Update};

use crate::support::*;

/// Updates with their times, in memory.
pub struct InMemory(pub Vec<(WallTime, Update)>);

/// A recording that opens at its end.
struct FromTheEnd(InMemory);

impl Recording for FromTheEnd {
    fn span(&self) -> (WallTime, WallTime) {
        self.0.span()
    }

    fn opening(&self) -> WallTime {
        self.0.span().1
    }

    fn next_after(&self, time: WallTime) -> Option<WallTime> {
        self.0.next_after(time)
    }

    fn previous_before(&self, time: WallTime) -> Option<WallTime> {
        self.0.previous_before(time)
    }

    fn at(&self, time: WallTime) -> Vec<Update> {
        self.0.at(time)
    }
}

impl Recording for InMemory {
    fn span(&self) -> (WallTime, WallTime) {
        (self.0[0].0, self.0[self.0.len() - 1].0)
    }

    fn opening(&self) -> WallTime {
        self.span().0
    }

    fn next_after(&self, time: WallTime) -> Option<WallTime> {
        self.0.iter().map(|(at, _)| *at).find(|at| *at > time)
    }

    fn previous_before(&self, time: WallTime) -> Option<WallTime> {
        self.0.iter().rev().map(|(at, _)| *at).find(|at| *at < time)
    }

    fn at(&self, time: WallTime) -> Vec<Update> {
        let until = self.0.iter().filter(|(at, _)| *at <= time);
        until.map(|(_, update)| update.clone()).collect()
    }
}

pub fn recording() -> InMemory {
    InMemory(vec![
        (
            at(0.0),
            pods(0.0, &[pod("db", json!({})), pod("web", json!({}))]),
        ),
        (at(0.0), status(0.0, json!({}))),
        (
            at(10.0),
            event(10.0, "web", "ContainerDied", json!({"exitCode": 137})),
        ),
        (at(40.0), locked(40.0, 30.0)),
        (at(100.0), status(100.0, json!({}))),
    ])
}

struct Replayed {
    screen: Screen,
    replay: Replay,
}

impl Replayed {
    fn new() -> Self {
        Self::of(recording())
    }

    fn of(recording: impl Recording + 'static) -> Self {
        let replay = Replay::new(Box::new(recording));
        let mut screen = Screen::new();
        // The machine's clock does not affect a recording.
        screen.now = at(999_999.0);
        screen.state = State::live(screen.now, None);
        screen.state.replay(replay.position(), replay.updates());
        Self { screen, replay }
    }

    fn press(&mut self, keys: &str) {
        match self.screen.press(keys) {
            Some(Request::Forward) => self.replay.forward(),
            Some(Request::Backward) => self.replay.backward(),
            Some(Request::GoTo(time)) => self.replay.go_to(time),
            other => panic!("{other:?}"),
        }
        let (position, updates) = (self.replay.position(), self.replay.updates());
        self.screen.state.replay(position, updates);
    }
}

#[test]
fn j_and_k_step_through_the_recording() {
    let mut replayed = Replayed::new();
    let title = replayed.screen.line("pleg top");
    assert!(
        title.ends_with("03:04:05 of 03:04:05 to 03:05:45 UTC"),
        "{title}"
    );
    assert!(replayed.screen.line("default/web ").contains("Running"));
    replayed.press("j");
    assert!(
        replayed
            .screen
            .line("default/web ")
            .contains("Exited (137)")
    );
    assert!(replayed.screen.line("Health").contains("Healthy"));
    replayed.press("j");
    replayed.screen.line("(ContainerStuck for 30s)");
    assert!(replayed.screen.line("default/db  ").contains("Stuck"));
    replayed.press("k");
    assert!(replayed.screen.line("Health").contains("Healthy"));
    for _ in 0..9 {
        replayed.press("j");
    }
    assert!(replayed.screen.line("pleg top").contains(" 03:05:45 of "));
}

#[test]
fn the_screen_shows_the_age_of_its_parts() {
    let mut replayed = Replayed::new();
    replayed.press("j");
    replayed.press("j");
    let source = replayed.screen.line("a recording");
    assert!(
        source.contains("status of 03:04:45, pods of 03:04:05"),
        "{source}"
    );
}

/// The last status may be a minute older than the last event.
#[test]
fn the_header_counts_what_the_table_shows() {
    let mut replayed = Replayed::new();
    let source = replayed.screen.line("a recording");
    assert!(source.contains("2 pods, 2 running"), "{source}");
    replayed.press("j");
    let source = replayed.screen.line("a recording");
    assert!(source.contains("2 pods, 1 running"), "{source}");
}

#[test]
fn in_an_unrecorded_time_the_screen_says_so_and_no_age_grows() {
    let mut entries = recording().0;
    entries.truncate(4);
    let why = "nothing was recorded for 10m0s: the agent was stopped".to_owned();
    let since = at(50.0);
    let disconnected = Update::Source(top::update::Source::Disconnected { since, why });
    entries.push((at(51.0), disconnected));
    entries.push((at(650.0), status(650.0, json!({}))));
    let mut replayed = Replayed::of(InMemory(entries));
    for _ in 0..3 {
        replayed.press("j");
    }
    let banner = replayed.screen.line("NOT CURRENT");
    let said = "since 03:04:55 (1s ago): nothing was recorded for 10m0s: ";
    assert!(banner.contains(said), "{banner}");
    replayed.screen.line("(ContainerStuck for 40s)");
}

#[test]
fn events_of_a_recording_of_several_days_carry_the_date() {
    let mut entries = recording().0;
    let line = |entries: &[(WallTime, Update)]| {
        let mut replayed = Replayed::of(FromTheEnd(InMemory(entries.to_vec())));
        replayed.screen.line("ContainerDied")
    };
    let of_one_day = line(&entries);
    assert!(of_one_day.contains("03:04:15"), "{of_one_day}");
    assert!(!of_one_day.contains("01-02"), "{of_one_day}");
    let later = 2.0 * 86_400.0;
    entries.push((at(later), status(later, json!({}))));
    let of_days = line(&entries);
    assert!(of_days.contains("01-02 03:04:15"), "{of_days}");
}

/// A snapshot whose diagnosis ended 20 s after the recording.
fn diagnosed_afterwards() -> InMemory {
    let mut recording = recording();
    let diagnosis = json!({"verdict": "problem", "summary": "db holds the lock", "findings": [
        {"cause": "container-status-lock", "sentence": "db holds the lock",
         "verdict": "problem", "confidence": "high"}]});
    let findings = Update::Findings {
        taken: at(120.0),
        result: Ok(serde_json::from_value(diagnosis).unwrap()),
    };
    recording.0.insert(0, (at(0.0), findings));
    recording
}

#[test]
fn the_diagnosis_of_a_snapshot_is_a_finding_with_its_time() {
    let mut replayed = Replayed::of(diagnosed_afterwards());
    let title = replayed.screen.line("Doctor, ");
    assert!(title.contains("Doctor, at 03:06:05 ─"), "{title}");
    assert!(
        replayed
            .screen
            .line("problem  high")
            .contains("db holds the lock")
    );
}

#[test]
fn t_goes_to_a_time() {
    for (typed, shown) in [
        ("03:04:46", "03:04:46"),
        ("03:04", "03:04:05"),
        ("+50s", "03:04:55"),
        ("2026-01-02T03:04:47Z", "03:04:47"),
        ("23:59:59", "03:05:45"),
        ("-1h", "03:04:05"),
    ] {
        let mut replayed = Replayed::new();
        replayed.press(&format!("t{typed}<enter>"));
        let title = replayed.screen.line("pleg top");
        assert!(title.contains(&format!(" {shown} of ")), "{typed}: {title}");
    }
}

#[test]
fn an_invalid_time_is_refused_with_the_reason_and_can_be_edited() {
    let mut replayed = Replayed::new();
    assert_eq!(replayed.screen.press("tsoon<enter>"), None);
    replayed
        .screen
        .line("time: soon█  expected a time such as 14:33:52");
    replayed.screen.press("<esc>");
    replayed.screen.line("j k step");
}

#[test]
fn the_doctor_does_not_run_for_a_recording() {
    let mut replayed = Replayed::new();
    assert_eq!(replayed.screen.press("d"), None);
    replayed.screen.line("─ Doctor: no finding was recorded");
    replayed.screen.press("?");
    assert!(!replayed.screen.text().contains("run the doctor"));
}

#[test]
fn a_recording_opens_at_its_first_problem() {
    let mut replayed = Replayed::of(FromTheEnd(recording()));
    let title = replayed.screen.line("pleg top");
    assert!(title.contains(" 03:05:45 of 03:04:05 "), "{title}");
}

#[test]
fn times_have_dates_if_the_recording_has_more_than_one_day() {
    let day = 86_400.0;
    let mut replayed = Replayed::of(FromTheEnd(InMemory(vec![
        (at(0.0), pods(0.0, &[])),
        (at(day), status(day, json!({}))),
    ])));
    let title = replayed.screen.line("pleg top");
    let times = "01-03 03:04:05 of 01-02 03:04:05 to 01-03 03:04:05 UTC";
    assert!(title.ends_with(times), "{title}");
    let source = replayed.screen.line("a recording");
    let times = "status of 03:04:05, pods of 01-02 03:04:05 ";
    assert!(source.contains(times), "{source}");
}

#[test]
fn a_recorded_event_shows_its_latency_even_before_its_pod_is_listed_again() {
    let Update::Record(record) = event(10.0, "web", "ContainerDied", json!({})) else {
        panic!("no record");
    };
    let happened = Some(at(9.75));
    let died = Update::Recorded { record, happened };
    let listed = pods(0.0, &[pod("web", json!({}))]);
    let mut replayed = Replayed::of(FromTheEnd(InMemory(vec![
        (at(10.0), died),
        (at(10.0), listed),
    ])));
    let row = replayed.screen.line("default/web ");
    assert!(row.trim_end().ends_with("250ms"), "{row}");
    let died = replayed.screen.line("ContainerDied");
    assert!(died.contains("by kernel, 250ms"), "{died}");
}

#[test]
fn findings_of_a_recording_are_shown_with_their_time() {
    let finding = json!({"cause": "status-lock", "sentence": "db holds the lock",
        "confidence": "high", "time": at(5.0)});
    let mut replayed = Replayed::of(FromTheEnd(InMemory(vec![
        (at(0.0), pods(0.0, &[pod("db", json!({}))])),
        (at(10.0), status(10.0, json!({"finding": finding}))),
    ])));
    replayed.screen.line("─ Doctor, 5s ago ─");
    replayed.screen.line("problem  high      db holds the lock");
    replayed.screen.press("<backtab><enter>");
    replayed.screen.line("`pleg explain status-lock`");
    assert!(!replayed.screen.text().contains("Evidence"));
}
