//! What a kubelet with default settings on this node reports now, and when its Ready condition will turn
//! False. This is known minutes in advance.
//!
//! A kubelet sends one call after the other and waits two minutes for each. It is unhealthy three
//! minutes after the start of its last relist with successful lists.
//! Source: Kubernetes 1.36, `pkg/kubelet/pleg/generic.go` and `runtimeRequestTimeout`.
//!
//! ```
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread", start_paused = true)]
//! # async fn main() -> Result<(), pleg::out::cache::Stopped> {
//! let sim = sim::Sim::new();
//! sim.run("web-0", &["app"]);
//! # let environment = pleg::Environment::new("sim", sim.clock());
//! # let pleg = pleg::Pleg::start(std::sync::Arc::new(sim.clone()), Default::default(), environment);
//! tokio::time::sleep(Duration::from_secs(5)).await;
//!
//! sim.stop();
//! tokio::time::sleep(Duration::from_secs(60)).await;
//! let kubelet = pleg.status().await?.kubelet_view;
//! assert!(kubelet.ready);
//! assert!(kubelet.not_ready_in_seconds.is_some_and(|left| left < 125.0));
//! # Ok(())
//! # }
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use crate::model::run_clock::RunClock;
use crate::out::coverage::{Coverage, Lists};
use crate::out::health::{RELIST_THRESHOLD, kubelet_healthy};
use crate::runtime::CallError;
use pleg_text::GoDuration;

/// The kubelet's `runtimeRequestTimeout`.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(120);

/// How long a kubelet's `Status` calls may fail before it is NotReady (`updateRuntimeUp`,
/// `maxWaitForContainerRuntime`).
const RUNTIME_DOWN: Duration = Duration::from_secs(30);

/// The kubelet's relist period.
const PERIOD: Duration = Duration::from_secs(1);

/// A kubelet's Ready condition, to the extent that its PLEG decides it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct KubeletView {
    /// Whether the kubelet is Ready.
    pub ready: bool,
    /// What it reports, or what will happen.
    pub message: String,
    /// What threatens readiness, without the time that is left; the error of the kubelet's PLEG once the
    /// node is not Ready; empty while nothing is wrong.
    #[serde(default)]
    pub why: String,
    /// In how many seconds Ready turns False (a kubelet notices this within 10 s); 0 once it is False;
    /// `None` while nothing threatens readiness.
    pub not_ready_in_seconds: Option<f64>,
}

impl KubeletView {
    fn ready(message: impl Into<String>) -> Self {
        Self {
            ready: true,
            message: message.into(),
            why: String::new(),
            not_ready_in_seconds: None,
        }
    }

    /// The view of a kubelet that stays Ready although something is wrong.
    fn ready_but(why: &str) -> Self {
        Self {
            why: why.to_owned(),
            ..Self::ready(format!("ready, but {why}"))
        }
    }

    /// The error of the kubelet's PLEG, if it has one.
    pub fn pleg_error(&self) -> Option<&str> {
        (!self.ready).then_some(&self.why)
    }
}

/// What a kubelet reports at `now`, derived from the coverage. A kubelet also runs while this process
/// does not, so `now` and the coverage, which are in run-clock time, are converted.
pub fn kubelet_view(now: Instant, coverage: &Coverage, clock: &RunClock) -> KubeletView {
    let now = clock.monotonic(now);
    let its_time = |time| clock.monotonic(time);
    if coverage.kubelet_cannot_list {
        let last = its_time(coverage.kubelet_listed.unwrap_or(coverage.started));
        let mut view = judge(now, last, "list calls are stuck or failing");
        if coverage.kubelet_listed.is_none() && view.ready {
            view.message += "; or sooner, because it is not known when it last listed";
        }
        if let Some(since) = unresponsive_since(coverage, last, clock) {
            may_be_sooner(&mut view, now, since);
        }
        return view;
    }
    let (took, longer) = coverage.kubelet_lists_took;
    if let Some(listed) = coverage.kubelet_listed.map(its_time)
        && took * 2 + PERIOD >= RELIST_THRESHOLD
    {
        // Until the next successful lists, the last relist is as old as both lists took.
        let relist = listed.checked_sub(longer * 2).unwrap_or(listed);
        let why = format!("lists take {}", GoDuration(whole_seconds(took)));
        return judge(now, relist, &why);
    }
    let pods = coverage.kubelet_waits.len();
    match coverage.kubelet_waits.iter().min().copied().map(its_time) {
        None if coverage.kubelet_listed.is_none() => {
            KubeletView::ready_but("nothing is known yet: no list was answered since pleg started")
        }
        None => KubeletView::ready("no problem expected"),
        Some(_) if pods == 1 => {
            let timeout = GoDuration(REQUEST_TIMEOUT);
            let why = format!("one pod delays each relist by {timeout}, which delays all events");
            KubeletView::ready_but(&why)
        }
        // Each stuck pod costs one timeout per relist; then lists succeed again for a moment.
        Some(first) => {
            let cycle = REQUEST_TIMEOUT * pods as u32 + PERIOD;
            let into = now.saturating_duration_since(first).as_secs_f64() % cycle.as_secs_f64();
            let relist = now.checked_sub(Duration::from_secs_f64(into));
            let why = format!("status calls of {pods} pods time out in every relist");
            judge(now, relist.unwrap_or(first), &why)
        }
    }
}

/// When the runtime became unresponsive, if it is. For an unreachable runtime, this is `listed`, the time
/// of the last lists.
fn unresponsive_since(coverage: &Coverage, listed: Instant, clock: &RunClock) -> Option<Instant> {
    let is_unreachable = matches!(coverage.lists, Lists::Failed(CallError::Unavailable(_)));
    let unresponsive = coverage
        .unresponsive_since
        .map(|since| clock.monotonic(since));
    unresponsive.or(is_unreachable.then_some(listed))
}

/// Adds that a kubelet is NotReady sooner if the runtime, which has been unresponsive since `since`, does
/// not answer the kubelet's `Status` calls either. This process sends no `Status` calls, because they may
/// get stuck even if other calls do not.
fn may_be_sooner(view: &mut KubeletView, now: Instant, since: Instant) {
    if !view.ready {
        return;
    }
    let left = (since + RUNTIME_DOWN).saturating_duration_since(now);
    let when = match left.as_secs() {
        0 => "by now".to_owned(),
        seconds => format!("in {}", GoDuration(Duration::from_secs(seconds))),
    };
    view.message += &format!("; {when} if its Status calls fail too");
}

/// How a guard treats a kubelet's list calls while those to the runtime are stuck.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuardedLists {
    /// The guard answers lists in place of the runtime.
    Answered,
    /// The guard has neither answered nor refused a list yet.
    Waiting,
    /// The guard passes lists on, although they are stuck.
    Passed,
    /// The guard refuses lists, because not every known id is confirmed.
    Refused,
    /// The guard does not respond at all.
    Unresponsive,
    /// The runtime is unresponsive, so the guard does not answer either.
    Silent {
        /// When the runtime became unresponsive.
        since: Instant,
    },
}

/// What a kubelet behind a guard reports while the runtime's lists are stuck, if it last received lists at
/// `listed`.
pub fn guarded_kubelet_view(now: Instant, listed: Instant, lists: GuardedLists) -> KubeletView {
    if lists == GuardedLists::Answered && now < listed + GUARDED_LISTS {
        return KubeletView::ready("the guard answers its lists");
    }
    let why = match lists {
        GuardedLists::Waiting => "the guard has not answered its lists yet",
        GuardedLists::Passed => "list calls are stuck or failing",
        GuardedLists::Unresponsive => "the guard does not respond",
        GuardedLists::Answered => "it no longer requests lists from the guard",
        GuardedLists::Refused | GuardedLists::Silent { .. } => "the guard cannot answer its lists",
    };
    let mut view = judge(now, listed, why);
    if let GuardedLists::Silent { since } = lists {
        may_be_sooner(&mut view, now, since);
    }
    view
}

/// If a guard answers lists, a kubelet behind it has received lists within this time.
pub const GUARDED_LISTS: Duration = Duration::from_secs(15);

/// The view if the kubelet's last relist began at `relist`; `why` is the reason why no later one
/// succeeds.
fn judge(now: Instant, relist: Instant, why: &str) -> KubeletView {
    match kubelet_healthy(now, Some(relist), RELIST_THRESHOLD) {
        Err(sentence) => KubeletView {
            ready: false,
            message: format!("PLEG is not healthy: {sentence}"),
            why: sentence,
            not_ready_in_seconds: Some(0.0),
        },
        Ok(()) => {
            let left = (relist + RELIST_THRESHOLD).saturating_duration_since(now);
            KubeletView {
                ready: true,
                message: format!(
                    "NotReady in {} if nothing changes: {why}",
                    GoDuration(whole_seconds(left))
                ),
                why: why.to_owned(),
                not_ready_in_seconds: Some(left.as_secs_f64()),
            }
        }
    }
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}
