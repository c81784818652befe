//! The state of a node at a time of its recording.

use pleg::model::listed::ContainerState;
use pleg::out::health::HealthState;
use pleg::out::pods::PodReport;
use pleg::out::record::Record;
use recorder::replay::{Recording, Update};
use recorder::{Entry, Recorded};
use serde_json::json;

use crate::support::{death, report, time};

/// The number of events that are requested.
const EVENTS: usize = 1000;

fn pods(seconds: u64) -> Entry {
    let pods = json!([{"uid": "u", "namespace": "default", "name": "web-0", "asOf": null,
        "error": null,
        "sandboxes": [{"id": "s", "state": "ready", "attempt": 0, "createdAt": null, "ips": []}],
        "containers": [{"id": "61ac7eca54e9", "name": "app", "state": "running", "attempt": 0,
            "exitCode": null, "reason": null, "createdAt": null, "startedAt": null,
            "finishedAt": null, "image": "nginx"}]}]);
    Entry {
        time: time(seconds),
        what: Recorded::Pods(serde_json::from_value(pods).unwrap()),
    }
}

fn event(seconds: u64, kind: &str, subject: &str, id: &str) -> Entry {
    let event = json!({"kind": "event", "time": time(seconds).to_string(), "type": kind,
        "pod": {"uid": "u", "namespace": "default", "name": "web-0"}, "id": id,
        "subject": subject, "container": "app", "exitCode": null, "reason": null,
        "initial": false, "source": "stream"});
    Entry::published(
        serde_json::from_value(event).unwrap(),
        Some(time(seconds - 1)),
    )
    .unwrap()
}

fn shown(recording: &Recording, seconds: u64) -> Vec<PodReport> {
    let updates = recording.at(time(seconds), EVENTS).into_iter();
    let pods = updates.filter_map(|update| match update {
        Update::Pods { pods, .. } => Some(pods),
        _ => None,
    });
    pods.last().unwrap_or_default()
}

#[test]
fn the_pods_include_the_changes_of_all_events() {
    let recording = Recording::new(vec![
        pods(10),
        death(20),
        event(30, "ContainerRemoved", "container", "61ac7eca54e9"),
        event(31, "ContainerStarted", "container", "b"),
        event(40, "ContainerDied", "sandbox", "s"),
        event(50, "ContainerRemoved", "container", "b"),
        event(51, "ContainerRemoved", "sandbox", "s"),
        pods(60),
    ])
    .unwrap();
    assert_eq!(shown(&recording, 9), []);
    let container = |seconds| shown(&recording, seconds)[0].status.containers[0].clone();
    assert_eq!(container(10).state, ContainerState::Running);
    assert_eq!(container(20).state, ContainerState::Exited);
    assert_eq!(container(29).exit_code, Some(20));
    assert_eq!(container(29).image.as_ref(), "nginx");
    assert_eq!(shown(&recording, 29)[0].as_of, Some(time(20)));
    assert_eq!(shown(&recording, 30)[0].status.containers, []);
    let new = container(35);
    assert_eq!(
        (new.state, new.started_at),
        (ContainerState::Running, Some(time(30)))
    );
    assert_eq!(shown(&recording, 55), [], "nothing of the pod is left");
    assert_eq!(container(60).state, ContainerState::Running);
}

#[test]
fn a_reader_steps_from_entry_to_entry_in_both_directions() {
    let recording = Recording::new(vec![death(10), death(20), death(20), death(35)]).unwrap();
    assert_eq!(recording.span(), (time(10), time(35)));
    let next = |seconds| recording.next_after(time(seconds));
    let previous = |seconds| recording.previous_before(time(seconds));
    assert_eq!(next(0), Some(time(10)));
    assert_eq!(next(10), Some(time(20)));
    assert_eq!(next(20), Some(time(35)));
    assert_eq!(next(35), None);
    assert_eq!(previous(40), Some(time(35)));
    assert_eq!(previous(35), Some(time(20)));
    assert_eq!(previous(10), None);
    assert!(Recording::new(Vec::new()).is_none());
}

fn status(seconds: u64, state: &str, stuck: usize) -> Entry {
    Entry::status(time(seconds), report(state, "ListStuck", stuck))
}

#[test]
fn the_last_status_and_the_last_events_are_shown_at_any_age() {
    let mut entries: Vec<_> = (1000..3000).map(death).collect();
    entries.extend([status(1500, "Degraded", 1), status(1600, "Degraded", 2)]);
    let recording = Recording::new(entries).unwrap();
    let at = |seconds| recording.at(time(seconds), EVENTS);
    assert!(matches!(&at(1599)[0], Update::Status { report, .. } if report.stuck.len() == 1));
    assert!(matches!(&at(1600)[0], Update::Status { report, .. } if report.stuck.len() == 2));
    assert!(matches!(&at(1400)[0], Update::Published(_)));
    assert_eq!(at(1002).len(), 3);
    assert_eq!(at(1599).len() - 1, 600);
    let recording = Recording::new((0..1200).map(death).collect()).unwrap();
    let updates = recording.at(time(90_000), EVENTS);
    assert_eq!(updates.len(), EVENTS);
    let first = death(200).what;
    assert!(
        matches!(&updates[0], Update::Published(published) if Recorded::Published(published.clone()) == first)
    );
}

#[test]
fn the_time_of_the_pods_is_that_of_their_list() {
    let recording = Recording::new(vec![pods(10), death(20), death(30), pods(60)]).unwrap();
    let listed = |seconds| match recording.at(time(seconds), EVENTS).pop() {
        Some(Update::Pods { listed, .. }) => listed,
        other => panic!("{other:?}"),
    };
    assert_eq!((listed(40), listed(70)), (time(10), time(60)));
}

#[test]
fn a_reader_begins_at_the_first_problem_and_without_one_at_the_end() {
    let opening = |entries| Recording::new(entries).unwrap().opening();
    let healthy = [
        status(1, "Starting", 0),
        pods(2),
        status(3, "Healthy", 0),
        death(9),
    ];
    assert_eq!(opening(healthy.to_vec()), time(9));
    let problem = [
        status(4, "Degraded", 1),
        status(5, "Unhealthy", 1),
        status(6, "Healthy", 0),
    ];
    assert_eq!(opening([&healthy[..], &problem].concat()), time(4));
}

#[test]
fn an_overdue_call_grows_older_until_a_status_shows_otherwise() {
    let mut begun = report("Degraded", "ListStuck", 1);
    let calls = [("ListContainers", 5.0), ("Version", 0.01)];
    let call = |(call, age): (&str, f64)| json!({"call": call, "id": null, "ageSeconds": age});
    let calls = calls.map(call).to_vec();
    begun.in_flight = serde_json::from_value(calls.into()).unwrap();
    let ended = report("Healthy", "AllSeen", 0);
    let entries = [(100, begun), (130, ended)];
    let entries = entries.map(|(at, report)| Entry::status(time(at), report));
    let recording = Recording::new(entries.to_vec()).unwrap();
    let calls = |at| match recording.at(time(at), EVENTS).swap_remove(0) {
        Update::Status { report, .. } => {
            let ages = report.in_flight.iter().map(|call| call.age_seconds);
            let stuck = report.stuck.iter().map(|call| call.since_seconds);
            ages.chain(stuck).collect::<Vec<f64>>()
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(calls(100), [5.0, 0.01, 5.0]);
    assert_eq!(calls(120), [25.0, 25.0]);
    assert!(calls(130).is_empty());
}

fn began(seconds: u64) -> Entry {
    let entry = json!({"time": time(seconds).to_string(), "what": {"began":
        {"version": "1", "endpoint": "unix:///run/x.sock", "guard": false}}});
    serde_json::from_value(entry).unwrap()
}

fn ended(seconds: u64) -> Entry {
    Entry {
        time: time(seconds),
        what: Recorded::Ended,
    }
}

/// The unrecorded time that contains this second, as its beginning and reason, and the age of the
/// stuck call.
fn unrecorded(recording: &Recording, seconds: u64) -> (Option<(u64, String)>, Option<f64>) {
    let updates = recording.at(time(seconds), EVENTS);
    let unrecorded = updates.iter().find_map(|update| match update {
        Update::NotRecorded(unrecorded) => {
            let since = (0..seconds).find(|second| time(*second) == unrecorded.since);
            Some((since.unwrap(), unrecorded.to_string()))
        }
        _ => None,
    });
    let age = updates.iter().find_map(|update| match update {
        Update::Status { report, .. } => Some(report.stuck[0].since_seconds),
        _ => None,
    });
    (unrecorded, age)
}

#[test]
fn no_age_grows_while_no_agent_records() {
    let because = |why: &str, since, lasted: &str| {
        let text = format!("nothing was recorded for {lasted}: {why}");
        Some((since, text))
    };
    let stuck = || status(100, "Degraded", 1);
    let stopped = vec![stuck(), ended(110), began(310), status(312, "Degraded", 1)];
    let stopped = Recording::new(stopped).unwrap();
    let reason = because("the agent was stopped", 110, "3m20s");
    assert_eq!(unrecorded(&stopped, 109), (None, Some(14.0)));
    assert_eq!(unrecorded(&stopped, 110), (None, Some(15.0)));
    assert_eq!(unrecorded(&stopped, 111), (reason.clone(), Some(15.0)));
    assert_eq!(unrecorded(&stopped, 309), (reason.clone(), Some(15.0)));
    // Nothing is known of the next agent until its first status.
    assert_eq!(unrecorded(&stopped, 311), (reason, None));
    assert_eq!(unrecorded(&stopped, 312), (None, Some(5.0)));

    let killed = Recording::new(vec![stuck(), death(105), began(125)]).unwrap();
    let reason = because("the agent was killed, or the node was down", 105, "20s");
    assert_eq!(unrecorded(&killed, 124), (reason, Some(10.0)));

    let interrupted = vec![stuck(), status(700, "Degraded", 1), death(710)];
    let interrupted = Recording::new(interrupted).unwrap();
    let why = "the agent did not run, its clock was set, or the entries are lost";
    assert_eq!(
        unrecorded(&interrupted, 400),
        (because(why, 100, "10m0s"), Some(5.0))
    );
    assert_eq!(unrecorded(&interrupted, 705), (None, Some(10.0)));
}

#[test]
fn an_examination_without_an_agent_does_not_continue_the_agents_recording() {
    let examined = |seconds| Entry {
        time: time(seconds),
        what: Recorded::Examined,
    };
    let stuck = || status(100, "Degraded", 1);
    let because = |why: &str, since| {
        let text = format!("nothing was recorded for 20s: {why}");
        Some((since, text))
    };
    let stopped = vec![
        stuck(),
        ended(102),
        examined(122),
        status(122, "Degraded", 1),
    ];
    let stopped = Recording::new(stopped).unwrap();
    let reason = because("the agent was stopped", 102);
    assert_eq!(unrecorded(&stopped, 121), (reason, Some(7.0)));
    assert_eq!(unrecorded(&stopped, 122), (None, Some(5.0)));

    let killed = vec![stuck(), examined(120), status(120, "Degraded", 1)];
    let killed = Recording::new(killed).unwrap();
    let reason = because("no agent responded when the snapshot was taken", 100);
    assert_eq!(unrecorded(&killed, 119), (reason, Some(5.0)));
}

#[test]
fn pods_are_unknown_after_a_loss_until_all_are_recorded_again() {
    let lost = json!({"time": time(160).to_string(), "what": {"lost":
        {"entries": 6018, "since": time(110).to_string(), "why": "fullDisk"}}});
    let lost: Entry = serde_json::from_value(lost).unwrap();
    let stuck = |at| status(at, "Degraded", 1);
    let entries = vec![
        stuck(100),
        pods(101),
        lost,
        stuck(161),
        pods(162),
        stuck(163),
    ];
    let recording = Recording::new(entries).unwrap();
    let reason = || Some((110, "6018 entries were lost: the disk was full".to_owned()));
    assert_eq!(unrecorded(&recording, 109), (None, Some(14.0)));
    assert_eq!(unrecorded(&recording, 130), (reason(), Some(15.0)));
    assert_eq!(unrecorded(&recording, 161).0, reason());
    assert_eq!(unrecorded(&recording, 163), (None, Some(5.0)));
}

#[test]
fn a_change_of_health_counts_before_the_status_that_shows_it_is_recorded() {
    let health = |seconds, state: &str, reason: &str, stuck| {
        let mut health = report(state, reason, stuck).into_health(time(seconds));
        health.message = format!("{state} now");
        Entry::published(Record::Health(health), None).unwrap()
    };
    let recording = Recording::new(vec![
        status(100, "Healthy", 0),
        health(110, "Degraded", "ContainerStuck", 1),
        health(120, "Degraded", "ContainerStuck", 2),
        status(180, "Unhealthy", 2),
    ])
    .unwrap();
    assert_eq!(
        recording.opening(),
        time(110),
        "the next status is of much later"
    );
    let shown = |at| match recording.at(time(at), EVENTS).swap_remove(0) {
        Update::Status { report, .. } => *report,
        other => panic!("{other:?}"),
    };
    assert_eq!(shown(109).health.state, HealthState::Healthy);
    let changed = shown(125);
    assert_eq!(changed.health.state, HealthState::Degraded);
    assert_eq!(changed.health.message, "Degraded now");
    assert_eq!(changed.health.since, time(110));
    let ages: Vec<f64> = changed.stuck.iter().map(|it| it.since_seconds).collect();
    assert_eq!(
        ages,
        [10.0, 10.0],
        "five seconds older than when it was reported"
    );
    assert_eq!(shown(180).health.state, HealthState::Unhealthy);
}

#[test]
fn a_reader_begins_at_the_status_that_belongs_to_the_change_of_health() {
    let health = |seconds, state: &str| {
        let health = report(state, "ListStuck", 1).into_health(time(seconds));
        Entry::published(Record::Health(health), None).unwrap()
    };
    let opening = |entries: &[Entry]| Recording::new(entries.to_vec()).unwrap().opening();
    let healthy = status(100, "Healthy", 0);
    let degraded = [
        healthy.clone(),
        health(110, "Degraded"),
        status(111, "Degraded", 1),
    ];
    assert_eq!(opening(&degraded), time(111));
    let over = [healthy, health(110, "Degraded"), status(111, "Healthy", 0)];
    assert_eq!(opening(&over), time(110));
}
