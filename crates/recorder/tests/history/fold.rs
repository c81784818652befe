//! The episodes of a recording.

use episodes::{Episode, What};
use pleg::model::wall_time::WallTime;
use pleg::out::status_report::StatusReport;
use recorder::fold::Fold;
use recorder::{Began, Entry, Loss, Lost, Recorded};
use serde_json::{Value, json};

use crate::support::{report, time};

mod exits;
mod findings;

fn at(seconds: u64, what: Recorded) -> Entry {
    Entry {
        time: time(seconds),
        what,
    }
}

fn began(seconds: u64) -> Entry {
    let began = Began {
        version: "1".to_owned(),
        endpoint: "unix:///x".to_owned(),
        guard: false,
    };
    at(seconds, Recorded::Began(began))
}

fn healthy(seconds: u64) -> Entry {
    Entry::status(time(seconds), report("Healthy", "AllSeen", 0))
}

/// A status with these changes.
fn status(seconds: u64, changes: &[(&str, Value)]) -> Entry {
    let mut json = serde_json::to_value(report("Healthy", "AllSeen", 0)).unwrap();
    json["warnings"] = json!([]);
    json["finding"] = json!(null);
    for (pointer, value) in changes {
        *json.pointer_mut(pointer).unwrap() = value.clone();
    }
    let report: StatusReport = serde_json::from_value(json).unwrap();
    Entry::status(time(seconds), report)
}

fn stuck(id: &str, seconds: f64) -> Value {
    json!([{"call": "ContainerStatus", "id": id, "container": "app", "sinceSeconds": seconds,
        "pod": {"uid": "u", "namespace": "default", "name": "web-0"}}])
}

/// A change of health, with the calls that are stuck then.
fn health(seconds: u64, state: &str, reason: &str, stuck: Value) -> Entry {
    let health = json!({"kind": "health", "time": time(seconds).to_string(), "state": state,
        "reason": reason, "message": "m", "stuck": stuck, "failing": [], "blind": []});
    Entry::published(serde_json::from_value(health).unwrap(), None).unwrap()
}

/// The episodes of these entries, and the number of those that did not fit.
fn episodes(entries: impl IntoIterator<Item = Entry>) -> (Vec<Episode>, u64) {
    let mut fold = Fold::default();
    entries.into_iter().for_each(|entry| fold.take(entry));
    fold.finish()
}

/// Title, object, beginning, end.
type Row = (String, String, u64, Option<u64>);

fn rows(entries: Vec<Entry>) -> Vec<Row> {
    let seconds = |at: WallTime| at.since(time(0)).as_secs();
    let row = |it: Episode| {
        (
            it.what.title(),
            it.subject_name(),
            seconds(it.from),
            it.to.map(seconds),
        )
    };
    episodes(entries).0.into_iter().map(row).collect()
}

fn row(title: &str, subject: &str, from: u64, to: impl Into<Option<u64>>) -> Row {
    (title.to_owned(), subject.to_owned(), from, to.into())
}

#[test]
fn a_stuck_call_is_one_episode_from_its_request_until_it_is_answered() {
    let degraded = [
        ("/health/state", json!("Degraded")),
        ("/health/reason", json!("ContainerStuck")),
        ("/health/since", json!(time(12).to_string())),
    ];
    let with = |seconds, id, age| {
        let mut changes = vec![("/stuck", stuck(id, age))];
        changes.extend(degraded.clone());
        status(seconds, &changes)
    };
    let entries = vec![
        began(0),
        healthy(1),
        with(12, "a", 2.0),
        with(72, "a", 62.0),
        with(80, "b", 3.0),
        healthy(90),
        at(100, Recorded::Ended),
    ];
    let expected = [
        row("ContainerStatus hangs", "default/web-0/app", 10, 80),
        row("Degraded", "", 12, 90),
        row("ContainerStatus hangs", "default/web-0/app", 77, 90),
    ];
    assert_eq!(rows(entries), expected);
}

#[test]
fn a_state_that_lasts_when_the_history_ends_has_no_end() {
    let flights = json!([{"call": "ListContainers", "id": null, "ageSeconds": 5.0}]);
    let entries = vec![began(0), status(30, &[("/inFlight", flights)])];
    let expected = [row("ListContainers hangs", "", 25, None)];
    assert_eq!(rows(entries), expected);
}

#[test]
fn a_call_that_is_stuck_for_less_than_a_second_is_known_from_the_change_of_health() {
    let entries = vec![
        began(0),
        healthy(1),
        health(12, "Degraded", "ContainerStuck", stuck("a", 2.0)),
        health(13, "Healthy", "AllSeen", json!([])),
    ];
    let call = row("ContainerStatus hangs", "default/web-0/app", 10, 13);
    assert!(rows(entries).contains(&call));
}

#[test]
fn a_state_without_an_end_was_observed_until_the_last_entry() {
    let entries = [
        began(0),
        health(12, "Degraded", "ContainerStuck", stuck("a", 2.0)),
    ];
    let later = healthy(13);
    let later = Entry {
        what: Recorded::Lists(Vec::new()),
        ..later
    };
    let (episodes, _) = episodes(entries.into_iter().chain([later]));
    let until: Vec<_> = episodes.iter().map(|it| (it.to, it.until())).collect();
    assert_eq!(until, [(None, time(13)), (None, time(13))]);
}

#[test]
fn each_state_in_a_status_is_a_separate_episode() {
    let finding = json!({"cause": "disk-full", "sentence": "it is full", "confidence": "high",
        "time": time(5).to_string()});
    let failing = json!([{"call": "ContainerStatus", "id": "c", "container": "app",
        "pod": {"uid": "u", "namespace": "n", "name": "p"}, "error": "no", "sinceSeconds": 4.0}]);
    for (changes, expected) in [
        (
            vec![("/kubeletView/ready", json!(false))],
            row("would be NotReady", "", 10, 20),
        ),
        (
            vec![
                ("/guard/guarding", json!(true)),
                ("/guard/sinceSeconds", json!(3.0)),
            ],
            row("guarding", "", 7, 20),
        ),
        (
            vec![
                ("/stream/state", json!("retrying")),
                ("/relist/count", json!(2)),
            ],
            row("event stream or kernel hints missing", "", 10, 20),
        ),
        (
            vec![("/kernel/state", json!("unavailable"))],
            row("event stream or kernel hints missing", "", 10, 20),
        ),
        (
            vec![("/failing", failing)],
            row("pod not observed", "n/p/app", 6, 20),
        ),
        (vec![("/finding", finding)], row("disk-full", "", 5, 5)),
    ] {
        let entries = vec![
            began(0),
            status(10, &changes),
            status(15, &changes),
            healthy(20),
        ];
        assert_eq!(rows(entries), [expected]);
    }
}

#[test]
fn a_runtime_that_is_down_is_unreachable_from_the_change_of_health_on() {
    let health = |seconds, state, reason| health(seconds, state, reason, json!([]));
    let entries = vec![
        began(0),
        health(10, "Degraded", "RuntimeUnreachable"),
        health(190, "Unhealthy", "RuntimeUnreachable"),
        health(300, "Healthy", "AllSeen"),
        healthy(301),
    ];
    // Pauses of more than two and a half minutes are reported too, and states that ended in them
    // have no known end.
    let rows = rows(entries);
    let without: Vec<_> = rows.iter().filter(|row| row.0 != "not recorded").collect();
    let expected = [
        row("Degraded", "", 10, None),
        row("runtime unreachable", "", 10, None),
        row("Unhealthy", "", 190, 300),
        row("runtime unreachable", "", 190, 300),
    ];
    assert_eq!(without, expected.iter().collect::<Vec<_>>());
}

#[test]
fn a_time_without_a_recording_is_shown_with_the_reason() {
    let lost = Lost {
        entries: 7,
        since: time(1000),
        why: Loss::FullDisk,
    };
    let entries = [
        began(0),
        status(10, &[("/guard/guarding", json!(true))]),
        // The agent was killed.
        began(100),
        healthy(110),
        at(120, Recorded::Ended),
        began(600),
        // The agent was suspended.
        healthy(900),
        at(1060, Recorded::Lost(lost)),
    ];
    let (episodes, _) = episodes(entries);
    let gaps: Vec<_> = episodes
        .iter()
        .filter(|it| it.what == What::NotRecorded)
        .map(|it| (it.from, it.to.unwrap(), it.reason.as_str()))
        .collect();
    let stopped = "nothing was recorded for 8m0s: the agent was stopped";
    let not_running = "nothing was recorded for 5m0s: the agent did not run, its clock was set, \
                  or the entries are lost";
    let killed = "nothing was recorded for 1m30s: the agent was killed, or the node was down";
    assert_eq!(gaps[0], (time(10), time(100), killed));
    assert_eq!(gaps[1], (time(120), time(600), stopped));
    assert_eq!(gaps[2].2, not_running);
    let guarding = episodes
        .iter()
        .find(|it| it.what == What::Guarding)
        .unwrap();
    assert_eq!(guarding.to, None, "its end was not observed");
    assert_eq!(guarding.until(), time(10), "no longer than it was seen");
    assert!(
        episodes
            .iter()
            .any(|it| it.reason.starts_with("7 entries were lost"))
    );
}

#[test]
fn a_call_that_hung_before_the_runtime_became_unresponsive_has_no_end_until_it_responds() {
    let report = [
        ("/health/state", json!("Degraded")),
        ("/health/reason", json!("RuntimeSilent")),
    ];
    let entries = vec![
        began(0),
        status(12, &[("/stuck", stuck("a", 2.0))]),
        status(20, &report),
        healthy(60),
    ];
    let call = row("ContainerStatus hangs", "default/web-0/app", 10, 60);
    let rows = rows(entries);
    assert!(rows.contains(&call), "{rows:?}");
}

#[test]
fn an_episode_of_guarding_begins_no_earlier_than_the_last_status_without_it() {
    let guarding = [
        ("/guard/guarding", json!(true)),
        ("/guard/sinceSeconds", json!(10.0)),
    ];
    let entries = vec![
        began(0),
        healthy(5),
        status(18, &[("/health/state", json!("Degraded"))]),
        status(20, &guarding),
        healthy(21),
    ];
    let rows = rows(entries);
    assert!(rows.contains(&row("guarding", "", 18, 21)), "{rows:?}");
}

#[test]
fn a_state_lasts_until_now_while_the_agent_runs_and_until_its_stop_otherwise() {
    let lasts_until = |entries: Vec<Entry>, now: u64| {
        let mut fold = Fold::default();
        entries.into_iter().for_each(|entry| fold.take(entry));
        fold.runs_at(time(now));
        let until = fold.read_until();
        let hung = fold.finish().0.remove(0);
        assert_eq!((hung.to, hung.seen_until), (None, until));
        until.unwrap().since(time(0)).as_secs()
    };
    let stuck = status(30, &[("/stuck", stuck("c1", 5.0))]);
    let running = vec![began(0), stuck];
    assert_eq!(lasts_until(running.clone(), 85), 85);
    // The pause is longer than any pause of a running agent.
    assert_eq!(lasts_until(running.clone(), 300), 30);
    let stopped = [running, vec![at(70, Recorded::Ended)]].concat();
    assert_eq!(lasts_until(stopped, 85), 70);
}
