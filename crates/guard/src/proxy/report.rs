//! The state of the guard, as its service reports it.

use std::mem::discriminant;

use base::OutstandingCall;
use tokio::sync::{Notify, watch};

use crate::core::{Figures, Guard, Mode, Phase};

/// The state of the guard.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Report {
    /// Increases with each change of the other fields except the figures.
    pub(super) revision: u64,
    pub(super) mode: Mode,
    /// How lists are handled.
    pub(super) phase: Phase,
    /// The stuck status calls with their names. Empty while the phase is passing or unresponsive.
    pub(super) stuck: Vec<OutstandingCall>,
    /// The counters.
    pub(super) figures: Figures,
}

/// The current report, and its changes.
pub(super) struct Reports {
    current: watch::Sender<Report>,
    phase_changed: Notify,
}

impl Reports {
    /// Begins with a report that has this revision.
    pub(super) fn new(revision: u64, mode: Mode) -> Self {
        let report = Report {
            revision,
            mode,
            phase: Phase::default(),
            stuck: Vec::new(),
            figures: Figures::default(),
        };
        Self {
            current: watch::Sender::new(report),
            phase_changed: Notify::new(),
        }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<Report> {
        self.current.subscribe()
    }

    pub(super) fn current(&self) -> Report {
        self.current.borrow().clone()
    }

    /// The phase of the current report.
    pub(super) fn phase(&self) -> Phase {
        self.current.borrow().phase
    }

    /// Returns when another phase has begun.
    pub(super) async fn phase_changed(&self) {
        self.phase_changed.notified().await;
    }

    /// Updates the report, if it has changed.
    pub(super) fn update(&self, guard: &Guard, phase: Phase) {
        let stuck = match phase {
            Phase::Passing | Phase::Unresponsive(_) => Vec::new(),
            Phase::Guarding(_) | Phase::Waiting(_) | Phase::Refusing(_) | Phase::LimitReached => {
                guard.stuck(&self.current.borrow().stuck)
            }
        };
        self.current.send_if_modified(|shown| {
            if discriminant(&shown.phase) != discriminant(&phase) {
                log_phase(phase);
                self.phase_changed.notify_one();
            }
            let mode = guard.mode();
            let differs = (shown.mode, shown.phase) != (mode, phase) || shown.stuck != stuck;
            if differs {
                shown.revision += 1;
                shown.mode = mode;
                shown.phase = phase;
                shown.stuck = stuck;
            }
            if shown.figures != *guard.figures() {
                shown.figures = guard.figures().clone();
            }
            differs
        });
    }
}

/// Logs how lists are handled from now on.
fn log_phase(phase: Phase) {
    match phase {
        Phase::Passing => tracing::info!("the guard passes lists to the runtime again"),
        Phase::Guarding(_) => {
            tracing::warn!("a list is overdue: the guard answers it in place of the runtime");
        }
        Phase::Waiting(_) => tracing::info!("a list is overdue"),
        Phase::Refusing(_) => tracing::error!(
            "a list is overdue, and the guard cannot answer it: not everything in it is known and \
             confirmed"
        ),
        Phase::Unresponsive(_) => tracing::error!(
            "the runtime answers no call: the guard cannot answer lists in its place"
        ),
        Phase::LimitReached => tracing::error!(
            "the guard reached --limit for one fault: every call passes until the runtime answers \
             its lists in time"
        ),
    }
}
