//! How much history was recorded. If none is recorded, these metrics are absent.

use prometheus::{IntCounter, IntGauge, Registry};
use recorder::Written;

use super::register::Register;

/// What `/metrics` shows of the history.
#[derive(Clone, Debug)]
pub struct HistoryFigures {
    bytes: IntGauge,
    written: IntCounter,
    lost: IntCounter,
}

impl HistoryFigures {
    pub(super) fn register(registry: &Registry) -> prometheus::Result<Self> {
        let register = Register(registry);
        Ok(Self {
            bytes: register.int_gauge(
                "pleg_history_bytes",
                "Size of the recorded history on disk.",
            )?,
            written: register.counter(
                "pleg_history_written_total",
                "Entries that were written to the history.",
            )?,
            lost: register.counter(
                "pleg_history_lost_total",
                "Entries that were not written to the history, because the disk was full, too \
                     slow or failed.",
            )?,
        })
    }

    pub(crate) fn show(&self, now: Written) {
        self.bytes.set(i64::try_from(now.bytes).unwrap_or(i64::MAX));
        for (counter, now) in [(&self.written, now.written), (&self.lost, now.lost)] {
            counter.inc_by(now.saturating_sub(counter.get()));
        }
    }
}
