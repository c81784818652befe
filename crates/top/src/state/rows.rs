//! The rows of each table after filtering and sorting, and the selected one.

use pleg::model::id::{Id, PodRef, PodUid};
use pleg::runtime::Rpc;

use super::State;
use super::cursor::Cursor;
use super::events::{Entry, Happened};
use super::node::Examination;
use super::outstanding::Outstanding;
use super::page::Panel;
use super::pods::Pod;
use crate::diagnosis::Finding;

/// The selected row of each table.
#[derive(Clone, Debug, Default)]
pub(super) struct Cursors {
    pods: Cursor<PodUid>,
    outstanding: Cursor<(Rpc, Option<Id>)>,
    events: Cursor<u64>,
    findings: Cursor<usize>,
}

impl State {
    /// The shown pods, in their order.
    pub fn pods(&self) -> Vec<&Pod> {
        let is_shown = |pod: &&Pod| {
            let status = &pod.report.status;
            self.is_in_namespace(&status.namespace)
                && (!self.is_faults_only || self.node.condition(pod).is_fault())
                && self.matches(&status.pod(), || {
                    let names = status.containers.iter().map(|it| &*it.name);
                    let ids = status.containers.iter().map(|it| it.id.as_str());
                    names.chain(ids).collect()
                })
        };
        let mut pods: Vec<&Pod> = self.node.pods.all().filter(is_shown).collect();
        pods.sort_by(|a, b| self.sort.compare(&self.node, a, b));
        pods
    }

    /// The shown outstanding calls, oldest first.
    pub fn outstanding(&self) -> Vec<&Outstanding> {
        let is_shown = |call: &&Outstanding| {
            if self.is_faults_only && !call.is_stuck {
                return false;
            }
            match &call.pod {
                Some(pod) => {
                    self.is_in_namespace(&pod.namespace)
                        && self.matches(pod, || {
                            let id = call.id.iter().map(Id::as_str);
                            let container = call.container.as_deref();
                            id.chain(container).chain([call.call.name()]).collect()
                        })
                }
                // A call for the whole node, or one whose pod is not known, matches every filter.
                None => true,
            }
        };
        self.node.outstanding.iter().filter(is_shown).collect()
    }

    /// The shown events, newest first.
    pub fn events(&self) -> Vec<&Entry> {
        let is_shown = |entry: &&Entry| match &entry.happened {
            Happened::Event { event, .. } => {
                self.is_in_namespace(&event.pod.namespace)
                    && (!self.is_faults_only || event.exit_code.is_some_and(|code| code != 0))
                    && self.matches(&event.pod, || {
                        let id = event.id.iter().map(Id::as_str);
                        let container = event.container.as_deref();
                        let event_type = event.event_type.as_str();
                        id.chain(container).chain([event_type]).collect()
                    })
            }
            Happened::Health(_) | Happened::Gap { .. } => true,
        };
        self.node.events.iter().rev().filter(is_shown).collect()
    }

    /// The doctor's findings.
    pub fn findings(&self) -> &[Finding] {
        match &self.node.examination {
            Examination::Done { diagnosis, .. } => &diagnosis.findings,
            _ => &[],
        }
    }

    fn is_in_namespace(&self, namespace: &str) -> bool {
        let wanted = self.namespace.as_deref();
        wanted.is_none_or(|wanted| wanted == namespace)
    }

    fn matches<'a>(&self, pod: &PodRef, more: impl FnOnce() -> Vec<&'a str>) -> bool {
        if self.filter.is_empty() {
            return true;
        }
        let name = pod.to_string();
        self.filter.shows([name.as_str()].into_iter().chain(more()))
    }

    /// The position of the selected row in a table; `None` if the table is empty.
    pub fn selected(&self, panel: Panel) -> Option<usize> {
        match panel {
            Panel::Pods => self.selected_among(&self.pods()),
            Panel::Outstanding => self.cursors.outstanding.place(&self.call_keys()),
            Panel::Events => self.cursors.events.place(&self.event_keys()),
            Panel::Findings => self.cursors.findings.place(&self.finding_keys()),
        }
    }

    /// The position of the selected pod among the shown ones. The shown pods are an argument because
    /// sorting thousands of them again would be half the work of a frame.
    pub fn selected_among(&self, pods: &[&Pod]) -> Option<usize> {
        self.cursors.pods.place(&uids(pods))
    }

    /// Moves the cursor of the table with the focus.
    pub(super) fn step(&mut self, rows: isize) {
        match self.panel {
            Panel::Pods => {
                let keys = uids(&self.pods());
                self.cursors.pods.step(&keys, rows);
            }
            Panel::Outstanding => {
                let keys = self.call_keys();
                self.cursors.outstanding.step(&keys, rows);
            }
            Panel::Events => {
                let keys = self.event_keys();
                self.cursors.events.step(&keys, rows);
            }
            Panel::Findings => {
                let keys = self.finding_keys();
                self.cursors.findings.step(&keys, rows);
            }
        }
    }

    /// The pod of the selected row.
    pub(super) fn selected_pod(&self) -> Option<PodRef> {
        let place = self.selected(self.panel)?;
        match self.panel {
            Panel::Pods => Some(self.pods()[place].report.status.pod()),
            Panel::Outstanding => self.outstanding()[place].pod.clone(),
            Panel::Events => match &self.events()[place].happened {
                Happened::Event { event, .. } => Some(event.pod.clone()),
                Happened::Health(_) | Happened::Gap { .. } => None,
            },
            Panel::Findings => None,
        }
    }

    fn call_keys(&self) -> Vec<(Rpc, Option<Id>)> {
        let calls = self.outstanding().into_iter();
        calls.map(|call| (call.call, call.id.clone())).collect()
    }

    fn event_keys(&self) -> Vec<u64> {
        self.events().iter().map(|entry| entry.number).collect()
    }

    fn finding_keys(&self) -> Vec<usize> {
        (0..self.findings().len()).collect()
    }
}

fn uids(pods: &[&Pod]) -> Vec<PodUid> {
    let pods = pods.iter();
    pods.map(|pod| pod.report.status.uid.clone()).collect()
}
