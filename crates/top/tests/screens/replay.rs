//! A recording, in which the reader steps.

use pleg::model::wall_time::WallTime;
use serde_json::json;
use top::recording::Replay;
use top::state::Request;
use top::{Recording, State, Update};

use crate::support::*;

/// Updates with their times, in memory.
pub struct InMemory(pub Vec<(WallTime, Update)>);

impl Recording for InMemory {
    fn span(&self) -> (WallTime, WallTime) {
        (self.0[0].0, self.0[self.0.len() - 1].0)
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
        let replay = Replay::new(Box::new(recording()));
        let mut screen = Screen::new();
        // The machine's clock has nothing to do with a recording.
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
fn j_and_k_step_through_what_was_recorded() {
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
    assert!(replayed.screen.line("Health").contains("Degraded for 30s"));
    assert!(replayed.screen.line("default/db ").contains("Stuck"));
    replayed.press("k");
    assert!(replayed.screen.line("Health").contains("Healthy"));
    for _ in 0..9 {
        replayed.press("j");
    }
    assert!(replayed.screen.line("pleg top").contains(" 03:05:45 of "));
}

#[test]
fn it_says_how_old_the_parts_are_that_make_what_is_shown() {
    let mut replayed = Replayed::new();
    replayed.press("j");
    replayed.press("j");
    let source = replayed.screen.line("a recording");
    assert!(
        source.contains("status of 03:04:45, pods of 03:04:05"),
        "{source}"
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
fn what_is_no_time_is_refused_with_the_reason_and_can_be_changed() {
    let mut replayed = Replayed::new();
    assert_eq!(replayed.screen.press("tsoon<enter>"), None);
    replayed
        .screen
        .line("time: soon█  expected a time such as 14:33:52");
    replayed.screen.press("<esc>");
    replayed.screen.line("j k step");
}

#[test]
fn the_doctor_is_not_asked_about_a_recording() {
    let mut replayed = Replayed::new();
    assert_eq!(replayed.screen.press("d"), None);
}
