//! What is worth telling when somebody else begins to tell: an agent, a generator of our
//! own, the next agent. Each begins with all that is there, most of which was told before.

use std::collections::HashMap;
use std::mem;

use pleg::model::event::{Event, EventType};
use pleg::model::id::Id;
use pleg::out::health::HealthReport;
use pleg::out::told::Record;

/// What was told until now.
///
/// What was removed while the teller changed is told by nobody: the next one has never
/// seen it.
#[derive(Default)]
pub struct News {
    /// The last event about each container and sandbox.
    last: HashMap<Id, EventType>,
    /// The same of earlier tellers, where the present one has said nothing yet.
    earlier: HashMap<Id, EventType>,
    health: Option<HealthReport>,
    synced: bool,
    /// The present teller is not the first, and has not told yet all that is there.
    begins_again: bool,
}

impl News {
    /// From now on somebody else tells.
    pub fn teller_changed(&mut self) {
        self.earlier.extend(self.last.drain());
        self.begins_again = self.synced;
    }

    /// The record as it is told, if it has not been told yet. It counts as told from now on.
    pub fn news_of(&mut self, mut record: Record) -> Option<Record> {
        if !self.is_new(&record) {
            return None;
        }
        // What is there at the beginning was told by then: to a later teller it is only initial
        // because that one has not seen it happen. What a teller repeats behind a gap is.
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
                last.is_none_or(|last| !says_the_same(&last, health))
            }
            Record::Gap { .. } => true,
        }
    }

    /// The first that a teller says about an id is its present state, which is news if it
    /// is not what the last teller ended with.
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

fn says_the_same(one: &HealthReport, other: &HealthReport) -> bool {
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

    fn told(news: &mut News, records: &[Record]) -> Vec<bool> {
        records.iter().map(|record| news.is_new(record)).collect()
    }

    #[test]
    fn one_teller_is_never_doubted() {
        let mut news = News::default();
        let twice = [event("a", ContainerStarted), event("a", ContainerStarted)];
        assert_eq!(told(&mut news, &twice), [true, true]);
    }

    #[test]
    fn the_next_teller_is_heard_where_it_says_something_else() {
        let mut news = News::default();
        for id in ["a", "b", "c"] {
            assert!(news.is_new(&event(id, ContainerStarted)));
        }
        assert!(news.is_new(&event("c", ContainerRemoved)));
        for _ in 0..2 {
            news.teller_changed();
            assert!(!news.is_new(&event("a", ContainerStarted)));
        }
        assert_eq!(
            told(
                &mut news,
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
    fn only_what_is_told_before_the_first_sweep_is_complete_is_initial() {
        fn is_initial(news: &mut News, event: Record) -> Option<bool> {
            match news.news_of(event)? {
                Record::Event(event) => Some(event.initial),
                _ => None,
            }
        }
        let mut news = News::default();
        let started = || event("a", ContainerStarted);
        assert_eq!(is_initial(&mut news, started()), Some(true));
        let synced = || {
            let synced = json!({"kind": "synced", "time": TIME, "pods": 1, "containers": 1});
            serde_json::from_value::<Record>(synced).unwrap()
        };
        assert!(news.news_of(synced()).is_some());
        news.teller_changed();
        assert_eq!(is_initial(&mut news, started()), None);
        for changed in [event("a", ContainerDied), event("b", ContainerStarted)] {
            assert_eq!(is_initial(&mut news, changed), Some(false));
        }
        // It has told all. What it repeats once its reader was too slow is no change.
        assert!(news.news_of(synced()).is_none(), "that was told");
        let gap = json!({"kind": "gap", "time": TIME, "pods": [], "all": true, "conflated": 1});
        assert!(news.news_of(serde_json::from_value(gap).unwrap()).is_some());
        assert_eq!(is_initial(&mut news, event("a", ContainerDied)), Some(true));
    }

    #[test]
    fn what_a_teller_never_said_is_remembered_for_the_next() {
        let mut news = News::default();
        assert!(news.is_new(&event("a", ContainerStarted)));
        news.teller_changed();
        news.teller_changed();
        assert!(!news.is_new(&event("a", ContainerStarted)));
    }

    #[test]
    fn health_is_told_when_it_is_not_word_for_word_as_before() {
        let mut news = News::default();
        assert!(news.is_new(&health(TIME, "all is well")));
        news.teller_changed();
        let later = "2026-01-02T03:04:06.000000000Z";
        assert!(!news.is_new(&health(later, "all is well")));
        assert!(news.is_new(&health(later, "nearly all is well")));
    }
}
