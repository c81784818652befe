//! The taint: set while the node is in a configured state, and removed once it has been healthy for
//! some time.
//!
//! The taint is changed by a JSON Patch that tests the list which was read, so that no other taint
//! is lost; an annotation, written with the taint, marks it as ours. **A taint without that
//! annotation is never changed.**

use std::time::Duration;

use pleg::out::health::{HealthState, Reason};
use pleg::out::status_report::StatusReport;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::config::{KubernetesConfig, TaintWhen};
use crate::node::Node;
use crate::node_condition::MIN_REPAIR_INTERVAL;

/// The annotation that marks our taint.
const MARK_ANNOTATION: &str = "pleg.dev/taint";

/// The annotation as JSON Pointer.
const MARK_POINTER: &str = "/metadata/annotations/pleg.dev~1taint";

const EFFECT: &str = "NoSchedule";

/// How long a state other than Unhealthy must last before the Node is tainted.
const TAINT_AFTER: Duration = Duration::from_secs(30);

/// The time within which a watch shows a write.
const MAX_WATCH_DELAY: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(crate) struct Taint {
    key: String,
    when: Vec<TaintWhen>,
    hold_off: Duration,
    /// Whether the newest report wants the taint, and since when.
    wanted: Option<(Wanted, Instant)>,
    /// When the taint was last written.
    written: Option<Instant>,
    /// Whether the last write is not visible yet. No decision may rest on the older Node.
    awaits_watch: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wanted {
    Now,
    Later,
    No,
}

impl Taint {
    pub(crate) fn new(config: &KubernetesConfig) -> Self {
        Self {
            key: config.taint_key.clone(),
            when: config.taint.clone(),
            hold_off: config.taint_hold_off.0,
            wanted: None,
            written: None,
            awaits_watch: false,
        }
    }

    pub(crate) fn on_report(&mut self, report: &StatusReport, now: Instant) {
        if report.health.state == HealthState::Starting {
            return;
        }
        let wanted = self.wanted_by(report);
        match self.wanted {
            Some((was, _)) if was == wanted => {}
            // The state got worse, but a taint was wanted already.
            Some((was, since)) if was != Wanted::No && wanted != Wanted::No => {
                self.wanted = Some((wanted, since));
            }
            _ => self.wanted = Some((wanted, now)),
        }
    }

    fn wanted_by(&self, report: &StatusReport) -> Wanted {
        let when = match report.health.state {
            HealthState::Unhealthy => TaintWhen::Unhealthy,
            HealthState::Degraded if report.health.reason == Reason::Guarding => {
                TaintWhen::Guarding
            }
            HealthState::Degraded => TaintWhen::Degraded,
            HealthState::Starting | HealthState::Healthy => return Wanted::No,
        };
        match when {
            _ if !self.when.contains(&when) => Wanted::No,
            TaintWhen::Unhealthy => Wanted::Now,
            TaintWhen::Degraded | TaintWhen::Guarding => Wanted::Later,
        }
    }

    /// When the wanted change is due.
    pub(crate) fn due(&self) -> Option<Instant> {
        let (wanted, since) = self.wanted?;
        let due = match wanted {
            Wanted::Now => since,
            Wanted::Later => since + TAINT_AFTER,
            Wanted::No => since + self.hold_off,
        };
        let Some(written) = self.written else {
            return Some(due);
        };
        // If the taint was already written since it became wanted, another client has removed it.
        let pause = match wanted {
            Wanted::Now | Wanted::Later if written >= since => MIN_REPAIR_INTERVAL,
            _ if self.awaits_watch => MAX_WATCH_DELAY,
            _ => Duration::ZERO,
        };
        Some(due.max(written + pause))
    }

    /// Records that the taint was written.
    pub(crate) fn written(&mut self, now: Instant) {
        self.written = Some(now);
        self.awaits_watch = true;
    }

    /// Records that the Node was read. Nothing was written to a new Node yet.
    pub(crate) fn on_node(&mut self, is_new: bool) {
        self.awaits_watch = false;
        if is_new {
            self.written = None;
        }
    }

    /// The patch that is due now.
    pub(crate) fn patch(&self, node: &Node, now: Instant) -> Option<Value> {
        let (wanted, _) = self.wanted?;
        if now < self.due()? {
            return None;
        }
        match wanted {
            Wanted::Now | Wanted::Later => self.patch_to_set(node),
            Wanted::No => self.patch_to_remove(node),
        }
    }

    /// Whether the taint was just set, and the last read Node does not show it yet.
    pub(crate) fn is_not_visible_yet(&self, node: &Node, now: Instant) -> bool {
        let is_wanted = self.wanted.is_some_and(|(wanted, _)| wanted != Wanted::No);
        let is_recent = self
            .written
            .is_some_and(|written| now < written + MAX_WATCH_DELAY);
        is_wanted && is_recent && !self.is_ours(node)
    }

    fn is_ours(&self, node: &Node) -> bool {
        let mark = node.annotations().and_then(|all| all.get(MARK_ANNOTATION));
        mark.is_some_and(|mark| *mark == self.key)
    }

    fn is_equal(&self, taint: &Value) -> bool {
        taint["key"] == self.key && taint["effect"] == EFFECT
    }

    fn patch_to_set(&self, node: &Node) -> Option<Value> {
        let had = node.taints();
        // A taint that another client has set is sufficient, and remains theirs.
        if had.unwrap_or_default().iter().any(|it| self.is_equal(it)) {
            return None;
        }
        let mut taints = had.unwrap_or_default().to_vec();
        taints.push(json!({"key": self.key, "value": "true", "effect": EFFECT}));
        let mut patch = vec![
            json!({"op": "test", "path": "/spec/taints", "value": had}),
            json!({"op": "add", "path": "/spec/taints", "value": taints}),
        ];
        if node.annotations().is_none() {
            patch.push(json!({"op": "test", "path": "/metadata/annotations", "value": null}));
            patch.push(json!({"op": "add", "path": "/metadata/annotations", "value": {}}));
        }
        patch.push(json!({"op": "add", "path": MARK_POINTER, "value": self.key}));
        Some(patch.into())
    }

    /// The patch that removes the taint, if it is ours.
    pub(crate) fn patch_to_remove(&self, node: &Node) -> Option<Value> {
        if !self.is_ours(node) {
            return None;
        }
        let had = node.taints().unwrap_or_default();
        let taints: Vec<&Value> = had.iter().filter(|it| !self.is_equal(it)).collect();
        let mut patch = Vec::new();
        if taints.len() < had.len() {
            patch.push(json!({"op": "test", "path": "/spec/taints", "value": had}));
            patch.push(json!({"op": "replace", "path": "/spec/taints", "value": taints}));
        }
        patch.push(json!({"op": "remove", "path": MARK_POINTER}));
        Some(patch.into())
    }
}
