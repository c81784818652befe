//! What is known of the node, and its age.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pleg::model::id::PodUid;
use pleg::model::wall_time::WallTime;
use pleg::out::health::HealthReport;
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;

use super::events::{Events, Happened, latency};
use super::outstanding::{Outstanding, outstanding};
use super::pods::{Condition, Pod, Pods};
use crate::diagnosis::Diagnosis;
use crate::update::{Source, Update};

/// The maximum number of relists in the sparkline.
const MAX_RELISTS: usize = 120;

/// What is known of the node.
#[derive(Debug, Default)]
pub struct Node {
    /// The source of the reports.
    pub source: Source,
    /// The last status.
    pub status: Option<Taken<StatusReport>>,
    /// The pods.
    pub pods: Pods,
    /// The time of the last list of pods.
    pub pods_taken: Option<WallTime>,
    /// The events.
    pub events: Events,
    /// The calls that were outstanding when the status was taken.
    pub outstanding: Vec<Outstanding>,
    /// The state of the doctor.
    pub examination: Examination,
    /// The duration of each relist, oldest first; several within a second count as one.
    pub relists: VecDeque<Duration>,
    /// The last health that was reported.
    health: Option<HealthReport>,
    /// The conditions of pods with stuck or failing calls.
    by_calls: BTreeMap<PodUid, Condition>,
}

/// A value, and the time as of which it is known.
#[derive(Clone, Debug)]
pub struct Taken<T> {
    /// The time.
    pub at: WallTime,
    /// The value.
    pub value: T,
}

/// The state of the doctor.
#[derive(Clone, Debug, Default)]
pub enum Examination {
    /// The doctor has not been run.
    #[default]
    NotRun,
    /// The doctor is running.
    Running {
        /// When the doctor was started.
        since: WallTime,
    },
    /// The doctor has finished.
    Done {
        /// When the doctor finished.
        at: WallTime,
        /// The doctor's report.
        diagnosis: Diagnosis,
    },
    /// The doctor failed.
    Failed {
        /// When the doctor failed.
        at: WallTime,
        /// The reason.
        why: String,
    },
}

impl Node {
    /// Applies an update.
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
                self.derive();
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
        let last = self.status.as_ref();
        let has_relisted = last.is_none_or(|last| last.value.relist.count != report.relist.count);
        if let (true, Some(took)) = (has_relisted, report.relist.last_duration_seconds) {
            let took = Duration::try_from_secs_f64(took).unwrap_or_default();
            self.relists.push_back(took);
            if self.relists.len() > MAX_RELISTS {
                self.relists.pop_front();
            }
        }
        self.status = Some(Taken { at, value: report });
        self.derive();
    }

    /// Takes a health report, and adds an event if it is a change. A new source first reports the
    /// current health, which is not a change.
    fn take_health(&mut self, health: HealthReport) {
        let is_same = |last: &HealthReport| {
            (last.state, last.reason, &last.message)
                == (health.state, health.reason, &health.message)
        };
        let is_change = self.health.as_ref().is_some_and(|last| !is_same(last));
        self.health = Some(health.clone());
        if is_change {
            self.events.push(Happened::Health(health));
        }
    }

    fn take_record(&mut self, record: Record, happened: Option<WallTime>) {
        match record {
            Record::Event(event) => {
                self.pods.apply(&event);
                // An initial event shows what existed before the screen was
                // opened, so it is not listed.
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

    /// Computes the latencies that are not known yet. An event has the time of its report; the time at
    /// which it happened is known once its pod is listed.
    fn find_latencies(&mut self) {
        for (event, unknown) in self.events.without_latency() {
            let uid = &event.pod.uid;
            let pod = self.pods.get(uid);
            let id = event.id.as_ref();
            let container = id.and_then(|id| pod?.report.status.container(id));
            if let Some(found) = container.and_then(|container| latency(event, container)) {
                *unknown = Some(found);
                self.pods.set_latency(uid, found);
            }
        }
    }

    /// Derives what depends on both the status and the pods.
    fn derive(&mut self) {
        let Some(Taken { value: report, .. }) = &self.status else {
            return;
        };
        self.outstanding = outstanding(report, &self.pods);
        let failing = report.failing.iter().filter_map(|call| call.pod.as_ref());
        let failing = failing.map(|pod| (pod.uid.clone(), Condition::Failing));
        let stuck = report.stuck.iter().filter_map(|call| call.pod.as_ref());
        let stuck = stuck.map(|pod| (pod.uid.clone(), Condition::Stuck));
        self.by_calls = failing.chain(stuck).collect();
    }

    /// Shows the finding that was recorded with the status, unless there is a
    /// diagnosis, which contains more.
    pub fn show_recorded_finding(&mut self) {
        let status = self.status.as_ref();
        if let Some(found) = status.and_then(|status| status.value.finding.as_ref())
            && !matches!(self.examination, Examination::Done { .. })
        {
            self.examination = Examination::Done {
                at: found.time,
                diagnosis: found.into(),
            };
        }
    }

    /// The condition of a pod: stuck or failing if a call about it is, otherwise
    /// what the pod itself shows.
    pub fn condition<'a>(&'a self, pod: &'a Pod) -> &'a Condition {
        let by_calls = self.by_calls.get(&pod.report.status.uid);
        by_calls.unwrap_or(&pod.condition)
    }
}
