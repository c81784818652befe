//! Old data is not shown as current, and no text of a runtime controls the terminal.

use ratatui::style::{Color, Modifier};
use serde_json::json;
use top::Update;
use top::update::Source;

use crate::support::*;

fn disconnected(seconds: f64) -> Update {
    Update::Source(Source::Disconnected {
        since: at(seconds),
        why: "the agent ended its events".to_owned(),
    })
}

#[test]
fn without_an_agent_the_screen_shows_when_it_was_lost_and_the_rest_is_grey() {
    let mut screen = Screen::new().coloured();
    let three = [pod("a", json!({})), pod("b", json!({}))];
    screen.feed(
        3.0,
        [
            connected(),
            pods(0.0, &three),
            status(1.0, json!({})),
            disconnected(3.0),
        ],
    );
    screen.feed(15.0, []);
    let banner = screen.line("NOT CURRENT");
    assert!(
        banner.contains("(14s ago): the agent ended its events"),
        "{banner}"
    );
    let buffer = screen.buffer();
    for (place, cell) in buffer.content().iter().enumerate() {
        let (row, column) = (place / 80, place % 80);
        if row == 1 || row == 23 {
            continue;
        }
        assert_eq!(cell.fg, Color::Reset, "{row} {column}");
        assert!(cell.modifier.contains(Modifier::DIM), "{row} {column}");
    }
    // The node had been healthy for 1 s when the agent last answered. The later state is not known.
    screen.line("(AllSeen for 1s)");
    // The agent is connected again.
    screen.feed(16.0, [connected(), status(16.0, json!({}))]);
    assert!(!screen.text().contains("NOT CURRENT"));
}

#[test]
fn the_number_of_pods_is_unknown_before_the_first_observation() {
    let mut screen = Screen::new();
    let relist = json!({"mode": "generic", "count": 0, "periodSeconds": 1.0, "sweeping": false});
    let report = status(1.0, json!({"relist": relist, "pods": 0, "containers": {}}));
    screen.feed(1.0, [connected(), pods(0.0, &[]), report]);
    screen.line("Pods: not known yet");
    screen.line("no pod was observed yet");
    screen.feed(2.0, [status(2.0, json!({"pods": 0}))]);
    screen.line("Pods 0");
}

#[test]
fn an_old_status_is_not_current() {
    let mut screen = Screen::new();
    screen.feed(1.0, [connected(), status(1.0, json!({}))]);
    screen.feed(4.0, []);
    assert!(!screen.text().contains("NOT CURRENT"));
    screen.feed(7.0, []);
    let banner = screen.line("NOT CURRENT");
    assert!(
        banner.contains("the last status is of 03:04:06 (6s ago)"),
        "{banner}"
    );
}

#[test]
fn the_countdown_continues_between_two_statuses_and_stops_without_new_ones() {
    let mut screen = Screen::new();
    screen.feed(42.0, [connected(), locked(42.0, 41.0)]);
    assert!(screen.line("Kubelet").contains("NotReady in 2m17s:"));
    screen.feed(44.5, []);
    assert!(screen.line("Kubelet").contains("NotReady in 2m14s:"));
    screen.feed(45.0, [disconnected(45.0)]);
    screen.feed(90.0, []);
    assert!(screen.line("Kubelet").contains("NotReady in 2m17s:"));
}

#[test]
fn hostile_names_are_only_displayed() {
    let evil = "x\u{1b}[2J\u{202e}\n\u{9b}31m\u{200b}";
    let mut hostile = pod(
        evil,
        json!({"name": evil, "reason": evil, "image": evil,
                                       "state": "exited", "exitCode": 1}),
    );
    hostile["error"] = json!(evil);
    let who = json!({"uid": format!("uid-{evil}"), "namespace": evil, "name": evil});
    let mut screen = Screen::sized(200, 50);
    screen.state.namespace = None;
    let health = json!({
        "kind": "health", "time": at(1.0), "state": "Degraded", "reason": "ContainerStuck",
        "message": evil, "stuck": [], "failing": [], "blind": [],
    });
    let diagnosis = json!({
        "verdict": evil, "summary": evil,
        "findings": [{"cause": evil, "title": evil, "verdict": evil, "confidence": evil,
                      "evidence": [evil], "advice": [evil]}],
    });
    screen.feed(
        2.0,
        [
            Update::Source(Source::Connected { to: evil.to_owned() }),
            pods(0.0, &[hostile]),
            event(1.0, evil, "ContainerDied", json!({"container": evil, "reason": evil,
                  "exitCode": 1, "pod": who, "id": evil})),
            Update::Recorded {
                record: serde_json::from_value(health).unwrap(),
                happened: None,
            },
            Update::Findings {
                taken: at(2.0),
                result: Ok(serde_json::from_value(diagnosis).unwrap()),
            },
            status(2.0, json!({
                "health": {"state": "Degraded", "reason": "ContainerStuck", "since": at(0.0),
                           "thresholdSeconds": 180.0, "message": evil},
                "kubeletView": {"ready": true, "message": evil},
                "stuck": [{"call": "ContainerStatus", "id": evil, "container": evil, "pod": who,
                           "sinceSeconds": 9.0}],
                "stream": {"state": evil, "events": 0, "missed": 0, "reconnects": 0},
                "kernel": {"state": evil, "watched": 0},
                "runtime": {"name": evil, "version": evil, "apiVersion": "v1", "endpoint": evil},
            })),
        ],
    );
    let screens = [
        "",
        "<enter>",
        "<esc><tab>",
        "<enter>",
        "<esc><tab>",
        "<enter>",
        "<esc><tab>",
        "<enter>",
        "<esc>/\u{1b}x",
    ];
    for keys in screens {
        screen.press(keys);
        for cell in screen.buffer().content() {
            assert!(
                cell.symbol().chars().all(pleg_text::escape::is_printable),
                "{:?}",
                cell.symbol()
            );
        }
        assert!(screen.text().contains("\\u{1b}"), "{}", screen.text());
    }
    screen.press("<esc>");
    screen.feed(
        3.0,
        [Update::Source(Source::Disconnected {
            since: at(3.0),
            why: evil.into(),
        })],
    );
    assert!(
        screen
            .text()
            .chars()
            .all(|c| c == '\n' || pleg_text::escape::is_printable(c))
    );
}

#[test]
fn without_colours_no_colours_are_drawn() {
    let mut screen = Screen::new();
    screen.feed(
        42.0,
        [
            connected(),
            pods(0.0, &[pod("db", json!({}))]),
            locked(42.0, 41.0),
        ],
    );
    for keys in ["", "<tab>", "<enter>", "?"] {
        screen.press(keys);
        for cell in screen.buffer().content() {
            assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset));
        }
    }
}

#[test]
fn the_first_health_is_not_an_event_but_its_change_is() {
    let health = |seconds, state: &str, reason: &str| {
        let health = json!({
            "kind": "health", "time": at(seconds), "state": state, "reason": reason,
            "message": "m", "stuck": [], "failing": [], "blind": [],
        });
        Update::Record(serde_json::from_value(health).unwrap())
    };
    let mut screen = Screen::new();
    let listed = pods(1.0, &[pod("web", json!({}))]);
    let healthy = || health(1.0, "Healthy", "AllSeen");
    screen.feed(
        1.0,
        [connected(), listed, healthy(), status(1.0, json!({}))],
    );
    screen.line("─ Events 0 ");
    // The agent was disconnected for a moment.
    screen.feed(2.0, [connected(), healthy()]);
    screen.line("─ Events 0 ");
    screen.feed(3.0, [health(3.0, "Degraded", "ListStuck")]);
    screen.line("─ Events 1 ");
    screen.line("03:04:08  Degraded ");
    screen.feed(4.0, [health(4.0, "Healthy", "AllSeen")]);
    screen.line("─ Events 2 ");
}

#[test]
fn findings_from_before_a_change_of_health_are_marked() {
    let mut screen = Screen::new();
    let found = json!({"verdict": "problem", "summary": "a status lock", "findings": []});
    let findings = Update::Findings {
        taken: at(45.0),
        result: Ok(serde_json::from_value(found).unwrap()),
    };
    screen.feed(46.0, [connected(), locked(46.0, 45.2), findings]);
    screen.line("Doctor, 1s ago: a status lock");
    let health = json!({"state": "Healthy", "message": "all pods are up to date",
                        "reason": "AllSeen", "since": at(50.0), "lastSeen": at(55.0),
                        "ageSeconds": 0.4, "thresholdSeconds": 180.0});
    screen.feed(55.0, [status(55.0, json!({"health": health}))]);
    screen.line("Doctor, 10s ago, before the health changed: a status lock");
}
