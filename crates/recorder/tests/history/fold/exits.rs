//! Exits, and pods whose exit was reported late.

use episodes::What;
use recorder::{Entry, Recorded};
use serde_json::json;

use super::{began, episodes};
use crate::support::{death_at, time};

#[test]
fn an_exit_has_its_source_and_its_delay() {
    let mut entry = death_at(137, time(10));
    let Recorded::Published(published) = &mut entry.what else {
        panic!("not an event");
    };
    published.happened = Some(time(9));
    let (episodes, _) = episodes([began(0), entry]);
    let expected = What::Event {
        event: "ContainerDied".to_owned(),
        source: "kernel".to_owned(),
        delay_seconds: Some(1.0),
    };
    assert_eq!(episodes[0].what, expected);
    assert_eq!(episodes[0].from, time(9));
    let reason = "container app of pod default/web-0 died with exit code 137 (Error)";
    assert_eq!(episodes[0].reason, reason);
}

/// An exit at 10 s that was reported at this time.
fn died(reported: u64) -> Entry {
    let event = json!({"kind": "event", "time": time(reported), "type": "ContainerDied",
        "pod": {"uid": "u", "namespace": "default", "name": "web-0"}, "id": "61ac7eca54e9",
        "subject": "container", "container": "app", "exitCode": 1, "reason": "Error",
        "initial": false, "source": "relist"});
    let record = serde_json::from_value(event).unwrap();
    Entry::published(record, Some(time(10))).unwrap()
}

#[test]
fn a_pod_whose_exit_was_reported_late_waited_from_the_exit_to_the_report() {
    let waited = |entry| {
        let (all, _) = episodes([began(0), entry]);
        all.into_iter().find(|it| it.what == What::PodWaited)
    };
    let late = waited(died(123)).unwrap();
    assert_eq!((late.from, late.to), (time(10), Some(time(123))));
    assert_eq!(late.subject_name(), "default/web-0");
    assert_eq!(
        late.reason,
        "container app died; reported after 1m53s by relist"
    );
    assert_eq!(waited(died(12)), None);
}

#[test]
fn an_exit_that_a_restarted_agent_reports_again_is_not_a_pod_that_waited() {
    let (all, _) = episodes([began(0), died(11), began(300), died(310)]);
    assert!(!all.iter().any(|it| it.what == What::PodWaited), "{all:?}");
}
