//! What is known of the node, and how old it is.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pleg::model::id::PodUid;
use pleg::model::wall_time::WallTime;
use pleg::out::health::HealthReport;
use pleg::out::status_report::StatusReport;
use pleg::out::told::Record;

use super::events::{Events, Happened, latency};
use super::outstanding::{Outstanding, outstanding};
use super::pods::{Condition, Pod, Pods};
use crate::diagnosis::Diagnosis;
use crate::update::{Source, Update};

/// How many relists the sparkline can show.
const MAX_RELISTS: usize = 120;

/// What is known of the node.
#[derive(Debug, Default)]
pub struct Node {
    /// Who reports on it.
    pub source: Source,
    /// How it was when it was last asked.
    pub status: Option<Taken<StatusReport>>,
    /// The pods.
    pub pods: Pods,
    /// When they were last listed.
    pub pods_taken: Option<WallTime>,
    /// What happened.
    pub events: Events,
    /// The calls that were not answered when the status was taken.
    pub outstanding: Vec<Outstanding>,
    /// What the doctor said.
    pub examination: Examination,
    /// How long each relist took, oldest first; several within a second count as one.
    pub relists: VecDeque<Duration>,
    /// The health that was told last by those who report.
    health: Option<HealthReport>,
    /// The pods whose calls hang or fail.
    trouble: BTreeMap<PodUid, Condition>,
}

/// Something, and when it was so.
#[derive(Clone, Debug)]
pub struct Taken<T> {
    /// When.
    pub at: WallTime,
    /// What.
    pub value: T,
}

/// What the doctor said.
#[derive(Clone, Debug, Default)]
pub enum Examination {
    /// It was not asked.
    #[default]
    NotAsked,
    /// It is looking at the node.
    Running {
        /// Since when.
        since: WallTime,
    },
    /// It has looked.
    Done {
        /// When it had finished.
        at: WallTime,
        /// What it found.
        diagnosis: Diagnosis,
    },
    /// It could not look.
    Failed {
        /// When it gave up.
        at: WallTime,
        /// Why.
        why: String,
    },
}

impl Examination {
    /// Whether it has found what there is to find.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }
}

impl Node {
    /// Takes in what was learned.
    pub fn apply(&mut self, update: Update) {
        match update {
            Update::Source(source) => self.source = source,
            Update::Status { taken, report } => self.take_status(taken, *report),
            Update::Pods { taken, pods } => {
                self.pods.replace(pods);
                self.pods_taken = Some(taken);
                for entry in self.events.iter() {
                    if let Happened::Event { event, .. } = &entry.happened
                        && event.time > taken
                    {
                        self.pods.apply(event);
                    }
                }
                self.find_latencies();
                self.judge();
            }
            Update::Record(Record::Health(health)) => self.take_health(health),
            Update::Record(record) => self.take_record(record, None),
            Update::Recorded { record, happened } => self.take_record(record, happened),
            Update::Findings { taken: at, result } => {
                self.examination = match result {
                    Ok(diagnosis) => Examination::Done { at, diagnosis },
                    Err(why) => Examination::Failed { at, why },
                }
            }
        }
    }

    fn take_status(&mut self, at: WallTime, report: StatusReport) {
        let relisted = self
            .status
            .as_ref()
            .is_none_or(|last| last.value.relist.count != report.relist.count);
        if let (true, Some(took)) = (relisted, report.relist.last_duration_seconds) {
            self.relists
                .push_back(Duration::try_from_secs_f64(took).unwrap_or_default());
            if self.relists.len() > MAX_RELISTS {
                self.relists.pop_front();
            }
        }
        self.status = Some(Taken { at, value: report });
        self.judge();
    }

    /// Whoever begins to report tells the health first, however long it has been so.
    fn take_health(&mut self, health: HealthReport) {
        let gist = |health: &HealthReport| (health.state, health.reason, health.message.clone());
        let last = self.health.replace(health.clone());
        if last.is_some_and(|last| gist(&last) != gist(&health)) {
            self.events.push(Happened::Health(health));
        }
    }

    fn take_record(&mut self, record: Record, happened: Option<WallTime>) {
        match record {
            Record::Event(event) => {
                self.pods.apply(&event);
                // What was there before we looked did not just happen.
                if !event.initial {
                    let latency = happened.map(|happened| event.time.since(happened));
                    if let Some(latency) = latency {
                        self.pods.set_latency(&event.pod.uid, latency);
                    }
                    self.events.push(Happened::Event { event, latency });
                }
            }
            Record::Synced { .. } => {}
            Record::Health(health) => self.events.push(Happened::Health(health)),
            Record::Gap {
                time, conflated, ..
            } => self.events.push(Happened::Gap { time, conflated }),
        }
    }

    /// An event says when it was reported; when it happened is known once its pod is listed.
    fn find_latencies(&mut self) {
        for (event, unknown) in self.events.without_latency() {
            let uid = &event.pod.uid;
            let pod = self.pods.get(uid);
            let container = event
                .id
                .as_ref()
                .and_then(|id| pod?.report.status.container(id));
            if let Some(found) = container.and_then(|container| latency(event, container)) {
                *unknown = Some(found);
                self.pods.set_latency(uid, found);
            }
        }
    }

    /// Derives what needs both the status and the pods.
    fn judge(&mut self) {
        let Some(Taken { value: report, .. }) = &self.status else {
            return;
        };
        self.outstanding = outstanding(report, &self.pods);
        let failing = report.failing.iter().filter_map(|call| call.pod.as_ref());
        let failing = failing.map(|pod| (pod.uid.clone(), Condition::Failing));
        let stuck = report.stuck.iter().filter_map(|call| call.pod.as_ref());
        let stuck = stuck.map(|pod| (pod.uid.clone(), Condition::Stuck));
        self.trouble = failing.chain(stuck).collect();
    }

    /// Takes over what the doctor had found when the status was recorded.
    pub fn show_recorded_finding(&mut self) {
        let status = self.status.as_ref();
        if let Some(found) = status.and_then(|status| status.value.finding.as_ref()) {
            self.examination = Examination::Done {
                at: found.time,
                diagnosis: found.into(),
            };
        }
    }

    /// How a pod is, with what is known of the calls about it.
    pub fn condition<'a>(&'a self, pod: &'a Pod) -> &'a Condition {
        let trouble = self.trouble.get(&pod.report.status.uid);
        trouble.unwrap_or(&pod.condition)
    }
}
