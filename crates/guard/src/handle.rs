//! A running guard, for whoever shows it or switches it.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cri::{Connect, Endpoint};
use pleg::model::wall_time::Moment;
use pleg::out::health::{HealthReport, HealthState, Reason, StuckCall};
use pleg::out::kubelet_view::{
    GUARDED_LISTS, GuardedLists, KubeletView, REQUEST_TIMEOUT, guarded_kubelet_view,
};
use pleg::out::status_report::{Difference, GuardMode, GuardStatus, StatusReport};
use prometheus::Histogram;
use tokio::net::UnixStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::Instant;

use crate::core::{Mode, Phase};
use crate::proxy::{Report, Visit};

/// A running guard. It ends when the last clone is dropped.
#[derive(Clone, Debug)]
pub struct Handle {
    started: Instant,
    socket: Option<PathBuf>,
    report: watch::Receiver<Report>,
    mode: watch::Sender<Mode>,
    added: Histogram,
    beats: Arc<AtomicU64>,
    visitors: mpsc::UnboundedSender<Visit>,
    _stop: Arc<oneshot::Sender<()>>,
}

impl Handle {
    pub(crate) fn new(
        report: watch::Receiver<Report>,
        mode: watch::Sender<Mode>,
        added: Histogram,
        beats: Arc<AtomicU64>,
        visitors: mpsc::UnboundedSender<Visit>,
        stop: oneshot::Sender<()>,
    ) -> Self {
        Self {
            started: Instant::now(),
            socket: None,
            report,
            mode,
            added,
            beats,
            visitors,
            _stop: Arc::new(stop),
        }
    }

    /// The same for a guard that is reached by this socket, which its status names.
    pub fn reached_by(self, socket: &Path) -> Self {
        Self {
            socket: Some(socket.to_owned()),
            ..self
        }
    }

    /// From now on it does this.
    pub fn switch(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Puts what it does into a report: while a list is overdue the node is not Healthy, and while the
    /// guard answers in place of the runtime, a kubelet's Ready depends on it.
    pub fn show(&self, report: &mut StatusReport, now: Moment) {
        let shown = self.report.borrow().clone();
        for call in &mut report.stuck {
            name(call, &shown);
        }
        let lists = match shown.phase {
            Phase::Guarding { since } => Some((GuardedLists::Answered, since)),
            Phase::Refusing { since } => Some((GuardedLists::Refused, since)),
            Phase::Silent { since } => Some((GuardedLists::Silent { since }, since)),
            Phase::Waiting { since } => Some((GuardedLists::Waiting, since)),
            // Until the guard gave up, or was switched, it may have answered them.
            Phase::Passing | Phase::GivenUp => {
                let began = lists_hang_since(report, now.instant);
                began.map(|since| (GuardedLists::Passed, since))
            }
        };
        if let Some((lists, since)) = lists
            && let Some(view) = view_behind(&shown, lists, since, now.instant)
        {
            report.kubelet_view = view;
        }
        let health = &mut report.health;
        if let Some((reason, since)) = reason_of(shown.phase)
            && overrules(reason, health.state, health.reason)
        {
            health.message = message(reason, health.state, &health.message);
            health.state = HealthState::Degraded;
            health.reason = reason;
            health.since = now.back_at(since).wall;
        }
        report.guard = self.status(shown, &report.stuck, now.instant);
        // Without a client no list is overdue by which the guard itself could tell.
        report.guard.runtime_silent |= report.health.reason == Reason::RuntimeSilent;
    }

    /// The same for a change of our health.
    pub fn show_change(&self, health: &mut HealthReport) {
        let shown = self.report.borrow().clone();
        for call in &mut health.stuck {
            name(call, &shown);
        }
        if let Some((reason, _)) = reason_of(shown.phase)
            && overrules(reason, health.state, health.reason)
        {
            health.message = message(reason, health.state, &health.message);
            health.state = HealthState::Degraded;
            health.reason = reason;
        }
    }

    /// Reports when what it does makes the node Degraded, and for another reason, and no more.
    pub fn turns(&self) -> Turns {
        let mut report = self.report.clone();
        let reason = reason_alone(&report.borrow_and_update());
        Turns { report, reason }
    }

    /// What it does now, and for whom: those whose calls are stuck.
    fn status(&self, report: Report, stuck: &[StuckCall], now: Instant) -> GuardStatus {
        let since = match report.phase {
            Phase::Guarding { since } => Some(now.saturating_duration_since(since).as_secs_f64()),
            Phase::Passing
            | Phase::Waiting { .. }
            | Phase::Silent { .. }
            | Phase::Refusing { .. }
            | Phase::GivenUp => None,
        };
        let idle = now.saturating_duration_since(report.asked.unwrap_or(self.started));
        GuardStatus {
            mode: match *self.mode.borrow() {
                Mode::Guard => GuardMode::Guard,
                Mode::Shadow => GuardMode::Shadow,
                Mode::Pass => GuardMode::Pass,
            },
            socket: self
                .socket
                .clone()
                .map(|path| Endpoint::new(path).to_string()),
            guarding: since.is_some(),
            runtime_silent: matches!(report.phase, Phase::Silent { .. }),
            waiting: matches!(report.phase, Phase::Waiting { .. }),
            refusing: matches!(report.phase, Phase::Refusing { .. }),
            limit_reached: report.phase == Phase::GivenUp,
            since_seconds: since,
            idle_seconds: Some(idle.as_secs_f64()),
            culprits: match report.phase {
                Phase::Passing | Phase::Silent { .. } => Vec::new(),
                Phase::Guarding { .. }
                | Phase::Waiting { .. }
                | Phase::Refusing { .. }
                | Phase::GivenUp => culprits(&report, stuck, now),
            },
            answers: report.figures.answered,
            given_up: report.figures.given_up,
            completed: report.figures.completed,
            refused: report.figures.refused,
            differences: report.figures.differences.count,
            compared: report.figures.differences.compared,
            last_differences: report.figures.differences.kept.iter().map(shown).collect(),
        }
    }

    /// Connections to the runtime for our own relisting: it shares calls with a kubelet, and
    /// nothing is answered in the runtime's place.
    pub fn connect(&self) -> Connect {
        let visitors = self.visitors.clone();
        Arc::new(move || {
            let (visit, answer) = oneshot::channel();
            let is_sent = visitors.send(visit);
            Box::pin(async move {
                let gone = |_| io::Error::from(io::ErrorKind::NotConnected);
                is_sent.map_err(|_| io::Error::from(io::ErrorKind::NotConnected))?;
                UnixStream::from_std(answer.await.map_err(gone)??)
            })
        })
    }

    /// What it adds to the calls that pass: the metric `pleg_guard_added_seconds`.
    pub fn added(&self) -> Histogram {
        self.added.clone()
    }

    /// How often the guard's thread has said that it turns: once a second.
    pub fn beats(&self) -> u64 {
        self.beats.load(Ordering::Relaxed)
    }

    /// When the guard's thread has ended, which it does not do by itself.
    pub async fn ended(&self) {
        let mut report = self.report.clone();
        while report.changed().await.is_ok() {}
    }
}

/// The changes of the reason for which a guard makes the node Degraded.
#[derive(Debug)]
pub struct Turns {
    report: watch::Receiver<Report>,
    reason: Option<Reason>,
}

impl Turns {
    /// Ends when the reason differs from the last one; never once the guard has ended.
    pub async fn next(&mut self) {
        let last = self.reason;
        let turned = self.report.wait_for(|it| reason_alone(it) != last);
        match turned.await.map(|report| reason_alone(&report)) {
            Ok(reason) => self.reason = reason,
            Err(_) => pending().await,
        }
    }
}

/// For which reason the node is not Healthy while this is done for lists, and since when. Our own
/// relisting may call for no list for half a minute: the guard knows of an overdue one before. Past the
/// limit all calls pass, and our own show how lists are.
fn reason_of(phase: Phase) -> Option<(Reason, Instant)> {
    match phase {
        Phase::Guarding { since } => Some((Reason::Guarding, since)),
        Phase::Waiting { since } | Phase::Silent { since } | Phase::Refusing { since } => {
            Some((Reason::ListStuck, since))
        }
        Phase::Passing | Phase::GivenUp => None,
    }
}

fn reason_alone(report: &Report) -> Option<Reason> {
    reason_of(report.phase).map(|(reason, _)| reason)
}

/// Since when the runtime does not answer a list of ours.
fn lists_hang_since(report: &StatusReport, now: Instant) -> Option<Instant> {
    let lists = report.stuck.iter().filter(|call| call.call.is_list());
    let oldest = lists.map(|call| call.since_seconds).reduce(f64::max)?;
    now.checked_sub(Duration::try_from_secs_f64(oldest).ok()?)
}

/// What a kubelet behind the guard reports; none if there is no such kubelet, and what the runtime
/// does decides. While the guard answers lists, a kubelet that begins to request them is answered,
/// too.
fn view_behind(
    report: &Report,
    lists: GuardedLists,
    since: Instant,
    now: Instant,
) -> Option<KubeletView> {
    let listed = listed_to_a_kubelet(report, since, now);
    let listed = listed.or((lists == GuardedLists::Answered).then_some(now))?;
    Some(guarded_kubelet_view(now, listed, lists))
}

/// When a kubelet behind the guard was last told both lists; none if there is no such kubelet, and
/// what the runtime does decides. One relists every second until the fault, and does not wait for
/// any call for longer than two minutes; whoever asked once is none.
fn listed_to_a_kubelet(report: &Report, since: Instant, now: Instant) -> Option<Instant> {
    let listed = report.listed.filter(|it| *it + GUARDED_LISTS >= since)?;
    let asked = report.asked?;
    (now < asked + REQUEST_TIMEOUT + GUARDED_LISTS).then_some(listed)
}

/// Whether the guard's reason takes the place of what our relisting has found.
fn overrules(reason: Reason, state: HealthState, found: Reason) -> bool {
    match reason {
        // A kubelet's Ready depends on the guard. Of a runtime that answers nothing nothing is known
        // that could be answered.
        Reason::Guarding => {
            let is_silent = matches!(found, Reason::RuntimeSilent | Reason::RuntimeUnreachable);
            state != HealthState::Unhealthy && !is_silent
        }
        // What our relisting has found itself says more.
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

/// Whose calls are stuck, as our relisting knows and as the guard does, which may know it sooner.
fn culprits(report: &Report, stuck: &[StuckCall], now: Instant) -> Vec<StuckCall> {
    let of_ids = stuck.iter().filter(|call| call.id.is_some());
    let mut culprits: Vec<StuckCall> = of_ids.cloned().collect();
    for call in &report.stuck {
        if culprits.iter().all(|known| known.id != call.about.id) {
            culprits.push(StuckCall::new(call, now));
        }
    }
    culprits
}

/// Names whom a call is about, where the rows know more: they survive a restart.
fn name(call: &mut StuckCall, shown: &Report) {
    let mut known = shown.stuck.iter().map(|known| &known.about);
    if call.pod.is_none()
        && call.id.is_some()
        && let Some(known) = known.find(|known| known.id == call.id)
    {
        call.container = known.container.clone();
        call.pod = known.pod.clone();
    }
}

fn shown(of: &crate::core::Difference) -> Difference {
    let name = |state: Option<i32>| state.map(|state| of.kind.state_name(state).to_owned());
    Difference {
        list: of.kind.list(),
        id: of.id.clone(),
        shown: name(of.ours),
        listed: of.theirs.map(name),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A handle, and what reports to it.
    fn handle() -> (Handle, watch::Sender<Report>) {
        let (reports, report) = watch::channel(Report::default());
        let (mode, _) = watch::channel(Mode::Guard);
        let (visitors, _) = mpsc::unbounded_channel();
        let (stop, _) = oneshot::channel();
        let added = Histogram::with_opts(prometheus::HistogramOpts::new("added", "help")).unwrap();
        let handle = Handle::new(report, mode, added, Arc::default(), visitors, stop);
        (handle, reports)
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
        let (handle, reports) = handle();
        for (phase, expected) in [
            (Phase::Passing, Reason::AllSeen),
            (Phase::Waiting { since }, Reason::ListStuck),
            (Phase::Refusing { since }, Reason::ListStuck),
            (Phase::Silent { since }, Reason::ListStuck),
            (Phase::Guarding { since }, Reason::Guarding),
        ] {
            reports.send_modify(|report| report.phase = phase);
            let mut health = healthy();
            handle.show_change(&mut health);
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
        let (handle, reports) = handle();
        reports.send_modify(|report| report.phase = Phase::Waiting { since });
        let found = HealthReport {
            state: HealthState::Degraded,
            reason: Reason::ContainerStuck,
            message: "web is stuck".to_owned(),
            ..healthy()
        };
        let mut shown = found.clone();
        handle.show_change(&mut shown);
        assert_eq!(shown, found);
    }

    #[tokio::test(start_paused = true)]
    async fn that_a_list_becomes_overdue_at_the_guard_is_a_change_and_so_is_its_end() {
        let since = Instant::now();
        let (handle, reports) = handle();
        let mut turns = handle.turns();
        for (phase, is_change) in [
            (Phase::Waiting { since }, true),
            (Phase::Refusing { since }, false),
            (Phase::Guarding { since }, true),
            (Phase::Passing, true),
        ] {
            reports.send_modify(|report| report.phase = phase);
            let turned = tokio::time::timeout(Duration::from_secs(1), turns.next()).await;
            assert_eq!(turned.is_ok(), is_change, "{phase:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_guard_answers_lists_nothing_threatens_a_kubelet_behind_it() {
        let now = Instant::now() + Duration::from_secs(1000);
        let since = now - Duration::from_secs(9);
        let view = |lists| view_behind(&Report::default(), lists, since, now);
        let answered = view(GuardedLists::Answered).unwrap();
        assert!(answered.ready && answered.not_ready_in_seconds.is_none());
        assert_eq!(view(GuardedLists::Waiting), None);
    }

    #[tokio::test(start_paused = true)]
    async fn only_who_relisted_until_the_fault_and_still_asks_is_a_kubelet_behind_the_guard() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let report = |listed: Option<u64>, asked: Option<u64>| Report {
            listed: listed.map(at),
            asked: asked.map(at),
            ..Report::default()
        };
        let (since, now) = (at(1000), at(1200));
        let kubelet = |listed, asked| listed_to_a_kubelet(&report(listed, asked), since, now);
        assert_eq!(kubelet(Some(1190), Some(1199)), Some(at(1190)));
        // The guard cannot answer it.
        assert_eq!(kubelet(Some(998), Some(1199)), Some(at(998)));
        assert_eq!(kubelet(None, Some(1199)), None);
        // Somebody listed once, long before the fault or just before it.
        assert_eq!(kubelet(Some(800), Some(800)), None);
        assert_eq!(kubelet(Some(998), Some(998)), None);
    }
}
