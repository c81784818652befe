//! Decides which records are new when a watch changes its source: from an agent to an engine of our own,
//! or back. Each source begins with everything that exists, most of which was reported before.

use std::collections::HashMap;
use std::mem;

use pleg::model::event::{Event, EventType};
use pleg::model::id::Id;
use pleg::out::health::HealthReport;
use pleg::out::record::Record;

/// What was reported until now.
///
/// An id that is removed while the source changes is never reported as removed: the next source has
/// not observed it.
#[derive(Default)]
pub struct Reported {
    /// The last event about each container and sandbox.
    last: HashMap<Id, EventType>,
    /// The last events of earlier sources about ids that the current source has not reported yet.
    earlier: HashMap<Id, EventType>,
    health: Option<HealthReport>,
    synced: bool,
    /// Whether the current source is not the first one, and has not reported
    /// everything that exists yet.
    begins_again: bool,
}

impl Reported {
    /// To be called when the source has changed: later records are those of another source.
    pub fn source_changed(&mut self) {
        self.earlier.extend(self.last.drain());
        self.begins_again = self.synced;
    }

    /// Returns the record to report, or `None` if it was reported before. From now on, the record
    /// counts as reported.
    pub fn take(&mut self, mut record: Record) -> Option<Record> {
        if !self.is_new(&record) {
            return None;
        }
        // What existed when the watch began was reported then. So an event that a later source calls
        // initial happened in between; one that it repeats after a gap stays initial.
        if let Record::Event(event) = &mut record
            && self.begins_again
        {
            event.initial = false;
        }
        Some(record)
    }

    fn is_new(&mut self, record: &Record) -> bool {
        match record {
            Record::Event(event) => self.is_new_event(event),
            Record::Synced { .. } => {
                self.begins_again = false;
                !mem::replace(&mut self.synced, true)
            }
            Record::Health(health) => {
                let last = self.health.replace(health.clone());
                last.is_none_or(|last| !is_equal(&last, health))
            }
            Record::Gap { .. } => true,
        }
    }

    /// The first event of a source about an id shows the id's current state. The event is new if it
    /// differs from the last event of the previous source.
    fn is_new_event(&mut self, event: &Event) -> bool {
        let Some(id) = &event.id else {
            return true;
        };
        if event.event_type == EventType::ContainerRemoved {
            self.last.remove(id);
        } else {
            self.last.insert(id.clone(), event.event_type);
        }
        self.earlier.remove(id) != Some(event.event_type)
    }
}

fn is_equal(one: &HealthReport, other: &HealthReport) -> bool {
    (one.state, &one.message, &one.stuck) == (other.state, &other.message, &other.stuck)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use EventType::{ContainerDied, ContainerRemoved, ContainerStarted};

    const TIME: &str = "2026-01-02T03:04:05.000000000Z";

    fn event(id: &str, event_type: EventType) -> Record {
        let event = json!({
            "kind": "event", "time": TIME, "type": event_type, "id": id,
            "pod": {"uid": "u", "namespace": "default", "name": "a"},
            "subject": "container", "container": "x", "exitCode": null, "reason": null,
            "initial": true, "source": "relist",
        });
        serde_json::from_value(event).unwrap()
    }

    fn health(time: &str, message: &str) -> Record {
        let health = json!({
            "kind": "health", "time": time, "state": "Healthy", "reason": "AllSeen", "message": message,
            "stuck": [], "failing": [], "blind": [],
        });
        serde_json::from_value(health).unwrap()
    }

    fn are_new(reported: &mut Reported, records: &[Record]) -> Vec<bool> {
        records
            .iter()
            .map(|record| reported.is_new(record))
            .collect()
    }

    #[test]
    fn records_of_one_source_are_all_new() {
        let mut reported = Reported::default();
        let twice = [event("a", ContainerStarted), event("a", ContainerStarted)];
        assert_eq!(are_new(&mut reported, &twice), [true, true]);
    }

    #[test]
    fn the_next_source_reports_only_what_differs() {
        let mut reported = Reported::default();
        for id in ["a", "b", "c"] {
            assert!(reported.is_new(&event(id, ContainerStarted)));
        }
        assert!(reported.is_new(&event("c", ContainerRemoved)));
        for _ in 0..2 {
            reported.source_changed();
            assert!(!reported.is_new(&event("a", ContainerStarted)));
        }
        assert_eq!(
            are_new(
                &mut reported,
                &[
                    event("b", ContainerDied),
                    event("c", ContainerStarted),
                    event("d", ContainerDied),
                    event("a", ContainerDied),
                    event("a", ContainerRemoved),
                ]
            ),
            [true; 5]
        );
    }

    #[test]
    fn only_what_is_reported_before_synced_is_initial() {
        fn is_initial(reported: &mut Reported, event: Record) -> Option<bool> {
            match reported.take(event)? {
                Record::Event(event) => Some(event.initial),
                _ => None,
            }
        }
        let mut reported = Reported::default();
        let started = || event("a", ContainerStarted);
        assert_eq!(is_initial(&mut reported, started()), Some(true));
        let synced = || {
            let synced = json!({"kind": "synced", "time": TIME, "pods": 1, "containers": 1});
            serde_json::from_value::<Record>(synced).unwrap()
        };
        assert!(reported.take(synced()).is_some());
        reported.source_changed();
        assert_eq!(is_initial(&mut reported, started()), None);
        for changed in [event("a", ContainerDied), event("b", ContainerStarted)] {
            assert_eq!(is_initial(&mut reported, changed), Some(false));
        }
        // After `synced`, what a source repeats after a gap is initial.
        assert!(reported.take(synced()).is_none(), "it was reported before");
        let gap = json!({"kind": "gap", "time": TIME, "pods": [], "all": true, "conflated": 1});
        assert!(
            reported
                .take(serde_json::from_value(gap).unwrap())
                .is_some()
        );
        assert_eq!(
            is_initial(&mut reported, event("a", ContainerDied)),
            Some(true)
        );
    }

    #[test]
    fn reported_events_are_remembered_across_a_source_that_reports_nothing() {
        let mut reported = Reported::default();
        assert!(reported.is_new(&event("a", ContainerStarted)));
        reported.source_changed();
        reported.source_changed();
        assert!(!reported.is_new(&event("a", ContainerStarted)));
    }

    #[test]
    fn health_is_reported_if_its_message_differs() {
        let mut reported = Reported::default();
        assert!(reported.is_new(&health(TIME, "all pods are observed")));
        reported.source_changed();
        let later = "2026-01-02T03:04:06.000000000Z";
        assert!(!reported.is_new(&health(later, "all pods are observed")));
        assert!(reported.is_new(&health(later, "one pod is not observed")));
    }
}
