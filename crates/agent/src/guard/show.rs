//! What a guard does, in a report of the agent.

use std::time::Duration;

use pleg::model::wall_time::Moment;
use pleg::out::health::{HealthReport, HealthState, Reason, StuckCall};
use pleg::out::kubelet_view::{
    GUARDED_LISTS, GuardedLists, KubeletView, REQUEST_TIMEOUT, guarded_kubelet_view,
};
use pleg::out::status_report::{GuardStatus, StatusReport};
use tokio::time::Instant;

use super::view::{Phase, View};

impl View {
    /// Adds what the guard does to a report: while a list is overdue, the node is not Healthy, and while
    /// the guard answers in place of the runtime, a kubelet's Ready depends on the guard.
    pub(super) fn show(&self, report: &mut StatusReport, now: Moment) {
        for call in &mut report.stuck {
            name(call, self);
        }
        let lists = match self.phase {
            Phase::Guarding { since } => Some((GuardedLists::Answered, since)),
            Phase::Refusing { since } => Some((GuardedLists::Refused, since)),
            Phase::Silent { since } => Some((GuardedLists::Silent { since }, since)),
            Phase::Waiting { since } => Some((GuardedLists::Waiting, since)),
            // The guard may have answered lists until it reached its limit, or its mode was changed.
            Phase::Passing | Phase::LimitReached => {
                let began = lists_hang_since(report, now.instant);
                began.map(|since| (GuardedLists::Passed, since))
            }
        };
        if let Some((lists, since)) = lists
            && let Some(view) = view_behind(self, lists, since, now.instant)
        {
            report.kubelet_view = view;
        }
        let health = &mut report.health;
        let (state, reason) = (&mut health.state, &mut health.reason);
        if let Some(since) = self.overrule(state, reason, &mut health.message) {
            health.since = now.back_at(since).wall;
        }
        report.guard = self.status(&report.stuck, now.instant);
        // Without a client, the guard sees no overdue list and cannot detect this itself.
        report.guard.runtime_silent |= report.health.reason == Reason::RuntimeSilent;
    }

    /// Adds what the guard does to a change of our health.
    pub(super) fn show_change(&self, health: &mut HealthReport) {
        for call in &mut health.stuck {
            name(call, self);
        }
        self.overrule(&mut health.state, &mut health.reason, &mut health.message);
    }

    /// Makes the node Degraded if what the guard does takes the place of what our relisting has found.
    /// Returns when the guard began to do it.
    fn overrule(
        &self,
        state: &mut HealthState,
        found: &mut Reason,
        text: &mut String,
    ) -> Option<Instant> {
        let (reason, since) = reason_of(self.phase)?;
        overrules(reason, *state, *found).then(|| {
            *text = message(reason, *state, text);
            (*state, *found) = (HealthState::Degraded, reason);
            since
        })
    }

    /// Adds to a report that the guard has not responded since `since`: a kubelet behind it is not
    /// answered.
    pub(super) fn show_unresponsive(&self, report: &mut StatusReport, since: Instant, now: Moment) {
        let listed = listed_to_a_kubelet(self, since, now.instant);
        if let Some(listed) = listed {
            let lists = GuardedLists::Unresponsive;
            report.kubelet_view = guarded_kubelet_view(now.instant, listed, lists);
        }
        report.guard = GuardStatus {
            guarding: false,
            since_seconds: None,
            culprits: Vec::new(),
            ..self.status(&[], now.instant)
        };
    }

    /// What the guard does now, and the containers and pods that it guards because their calls are
    /// `stuck`.
    fn status(&self, stuck: &[StuckCall], now: Instant) -> GuardStatus {
        let since = match self.phase {
            Phase::Guarding { since } => Some(now.saturating_duration_since(since).as_secs_f64()),
            Phase::Passing
            | Phase::Waiting { .. }
            | Phase::Silent { .. }
            | Phase::Refusing { .. }
            | Phase::LimitReached => None,
        };
        let idle = now.saturating_duration_since(self.idle);
        GuardStatus {
            mode: self.mode,
            unresponsive: false,
            socket: Some(self.socket.clone()),
            guarding: since.is_some(),
            runtime_silent: matches!(self.phase, Phase::Silent { .. }),
            waiting: matches!(self.phase, Phase::Waiting { .. }),
            refusing: matches!(self.phase, Phase::Refusing { .. }),
            limit_reached: self.phase == Phase::LimitReached,
            since_seconds: since,
            idle_seconds: Some(idle.as_secs_f64()),
            culprits: match self.phase {
                Phase::Passing | Phase::Silent { .. } => Vec::new(),
                Phase::Guarding { .. }
                | Phase::Waiting { .. }
                | Phase::Refusing { .. }
                | Phase::LimitReached => culprits(self, stuck, now),
            },
            answers: self.answers.clone(),
            given_up: self.given_up.clone(),
            completed: self.completed.clone(),
            refused: self.refused.clone(),
            differences: self.differences,
            compared: self.compared,
            last_differences: self.last_differences.clone(),
        }
    }
}

/// Why the node is not Healthy, by what the guard does with lists, and since when. The guard may notice an
/// overdue list first, because we may list only every 30 s. Once its limit is reached all calls pass, and
/// our own lists show how they are answered.
fn reason_of(phase: Phase) -> Option<(Reason, Instant)> {
    match phase {
        Phase::Guarding { since } => Some((Reason::Guarding, since)),
        Phase::Waiting { since } | Phase::Silent { since } | Phase::Refusing { since } => {
            Some((Reason::ListStuck, since))
        }
        Phase::Passing | Phase::LimitReached => None,
    }
}

/// Why the node is not Healthy, by what the guard does with lists.
pub(super) fn reason_alone(view: &View) -> Option<Reason> {
    reason_of(view.phase).map(|(reason, _)| reason)
}

/// When the oldest of our stuck lists was requested.
fn lists_hang_since(report: &StatusReport, now: Instant) -> Option<Instant> {
    let lists = report.stuck.iter().filter(|call| call.call.is_list());
    let oldest = lists.map(|call| call.since_seconds).reduce(f64::max)?;
    now.checked_sub(Duration::try_from_secs_f64(oldest).ok()?)
}

/// What a kubelet behind the guard reports; `None` if there is no such kubelet, so that only the runtime's
/// state decides. While the guard answers lists, a kubelet that begins to request them is answered, too.
fn view_behind(
    report: &View,
    lists: GuardedLists,
    since: Instant,
    now: Instant,
) -> Option<KubeletView> {
    let listed = listed_to_a_kubelet(report, since, now);
    let listed = listed.or((lists == GuardedLists::Answered).then_some(now))?;
    Some(guarded_kubelet_view(now, listed, lists))
}

/// When a kubelet behind the guard last received both lists. `None` if there is no such kubelet;
/// then the runtime's own state decides. A kubelet relists every second until the fault, and does
/// not wait for any call for longer than two minutes. A client that listed only once is not a kubelet.
fn listed_to_a_kubelet(report: &View, since: Instant, now: Instant) -> Option<Instant> {
    let listed = report.listed.filter(|it| *it + GUARDED_LISTS >= since)?;
    let asked = report.asked?;
    (now < asked + REQUEST_TIMEOUT + GUARDED_LISTS).then_some(listed)
}

/// Whether the guard's reason takes the place of what our relisting has found.
fn overrules(reason: Reason, state: HealthState, found: Reason) -> bool {
    match reason {
        // A kubelet's Ready depends on the guard. If the runtime answers no call, the guard knows
        // nothing that it could answer.
        Reason::Guarding => state != HealthState::Unhealthy && !found.answers_no_call(),
        // The reason that our own relisting has found is more precise.
        _ => state == HealthState::Healthy,
    }
}

/// The sentence for the guard's reason, with what our relisting has found, if that is a problem.
fn message(reason: Reason, state: HealthState, found: &str) -> String {
    let overdue = "a list that was requested through the guard is overdue";
    let found = match state {
        HealthState::Healthy => overdue,
        _ => found,
    };
    match reason {
        Reason::Guarding => format!("the guard answers in place of the runtime: {found}"),
        _ => found.to_owned(),
    }
}

/// The stuck calls that our relisting has found, and those that the guard has found, which may be
/// sooner.
fn culprits(report: &View, stuck: &[StuckCall], now: Instant) -> Vec<StuckCall> {
    let of_ids = stuck.iter().filter(|call| call.id.is_some());
    let mut culprits: Vec<StuckCall> = of_ids.cloned().collect();
    for call in &report.stuck {
        if culprits.iter().all(|known| known.id != call.about.id) {
            culprits.push(StuckCall::new(call, now));
        }
    }
    culprits
}

/// Adds the pod and the container of a call if only the guard knows them: its rows survive a restart.
fn name(call: &mut StuckCall, shown: &View) {
    let mut known = shown.stuck.iter().map(|known| &known.about);
    if call.pod.is_none()
        && call.id.is_some()
        && let Some(known) = known.find(|known| known.id == call.id)
    {
        call.container = known.container.clone();
        call.pod = known.pod.clone();
    }
}

#[cfg(test)]
mod tests {
    use guard_api::Status;

    use super::*;

    /// A guard of which only the phase is known.
    fn view(phase: Phase) -> View {
        let status = Status {
            mode: guard_api::Mode::Guard.into(),
            ..Status::default()
        };
        View {
            phase,
            ..View::of(status, Instant::now()).unwrap()
        }
    }

    fn healthy() -> HealthReport {
        HealthReport {
            time: pleg::model::wall_time::WallTime::now(),
            state: HealthState::Healthy,
            reason: Reason::AllSeen,
            message: "all pods are up to date".to_owned(),
            stuck: Vec::new(),
            failing: Vec::new(),
            blind: Vec::new(),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_is_not_healthy_while_a_list_is_overdue_at_the_guard() {
        let since = Instant::now();
        for (phase, expected) in [
            (Phase::Passing, Reason::AllSeen),
            (Phase::Waiting { since }, Reason::ListStuck),
            (Phase::Refusing { since }, Reason::ListStuck),
            (Phase::Silent { since }, Reason::ListStuck),
            (Phase::Guarding { since }, Reason::Guarding),
        ] {
            let mut health = healthy();
            view(phase).show_change(&mut health);
            assert_eq!(health.reason, expected, "{phase:?}");
            let is_healthy = health.state == HealthState::Healthy;
            assert_eq!(is_healthy, phase == Phase::Passing, "{phase:?}");
            let contradicts = health.message.contains("up to date");
            assert_eq!(contradicts, phase == Phase::Passing, "{}", health.message);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_problem_that_relisting_has_found_itself_is_kept_while_the_guard_waits() {
        let since = Instant::now();
        let found = HealthReport {
            state: HealthState::Degraded,
            reason: Reason::ContainerStuck,
            message: "web is stuck".to_owned(),
            ..healthy()
        };
        let mut shown = found.clone();
        view(Phase::Waiting { since }).show_change(&mut shown);
        assert_eq!(shown, found);
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_guard_answers_lists_nothing_threatens_a_kubelet_behind_it() {
        let now = Instant::now() + Duration::from_secs(1000);
        let since = now - Duration::from_secs(9);
        let unknown = view(Phase::Passing);
        let view = |lists| view_behind(&unknown, lists, since, now);
        let answered = view(GuardedLists::Answered).unwrap();
        assert!(answered.ready && answered.not_ready_in_seconds.is_none());
        assert_eq!(view(GuardedLists::Waiting), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_a_client_that_relisted_until_the_fault_and_still_lists_is_a_kubelet() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let report = |listed: Option<u64>, asked: Option<u64>| View {
            listed: listed.map(at),
            asked: asked.map(at),
            ..view(Phase::Passing)
        };
        let (since, now) = (at(1000), at(1200));
        let kubelet = |listed, asked| listed_to_a_kubelet(&report(listed, asked), since, now);
        assert_eq!(kubelet(Some(1190), Some(1199)), Some(at(1190)));
        // The guard cannot answer the kubelet.
        assert_eq!(kubelet(Some(998), Some(1199)), Some(at(998)));
        assert_eq!(kubelet(None, Some(1199)), None);
        // A client listed once, long before the fault or just before it.
        assert_eq!(kubelet(Some(800), Some(800)), None);
        assert_eq!(kubelet(Some(998), Some(998)), None);
    }
}
