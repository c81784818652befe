//! The state that survives a restart: all rows, as two lists; the last statistics, as two more lists, if a
//! list or statistics are overdue; and when the current fault began.
//!
//! Rows may be old: after a restart every id is confirmed again. Ids that were created since are found on
//! the host, or no list is answered before the first complete one. A stuck container has only the
//! statistics from before the fault.

use std::time::Duration;

use bytes::{Buf, Bytes};
use flate2::Crc;
use tokio::time::Instant;

use super::Guard;
use super::fault::State;
use super::per_kind::PerKind;
use crate::wire::Kind;
use crate::wire::row::rows_of;

/// The first bytes of the saved state, with the version of its format.
const MAGIC: &[u8] = b"pleg guard rows 4\n";

/// The length of the checksum at the end of the saved state. Without it, one flipped bit could turn a
/// running container into an exited one.
const CHECKSUM: usize = size_of::<u32>();

fn checksum(of: &[u8]) -> [u8; CHECKSUM] {
    let mut crc = Crc::new();
    crc.update(of);
    crc.sum().to_be_bytes()
}

/// What was saved last: the revisions of both kinds of rows, whether statistics were included, and when
/// the faults began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    revisions: PerKind<u64>,
    with_stats: bool,
    faults: PerKind<Option<Instant>>,
}

/// The content of the saved state.
struct Content {
    /// When the fault of each kind began, in nanoseconds since 1970; 0 if there is none.
    faults: PerKind<i64>,
    rows: PerKind<Bytes>,
    stats: PerKind<Bytes>,
}

/// Decodes the saved state. Returns `None` if it is not valid.
fn read(saved: &Bytes) -> Option<Content> {
    let (lists, sum) = saved.split_at_checked(saved.len().checked_sub(CHECKSUM)?)?;
    if checksum(lists) != sum {
        return None;
    }
    let mut rest = saved.slice_ref(lists.strip_prefix(MAGIC)?);
    let faults = PerKind {
        sandboxes: rest.try_get_i64().ok()?,
        containers: rest.try_get_i64().ok()?,
    };
    let mut both = || {
        Some(PerKind {
            sandboxes: list_in(&mut rest)?,
            containers: list_in(&mut rest)?,
        })
    };
    let (rows, stats) = (both()?, both()?);
    let content = Content {
        faults,
        rows,
        stats,
    };
    rest.is_empty().then_some(content)
}

/// Takes the next list, which is preceded by its length.
fn list_in(rest: &mut Bytes) -> Option<Bytes> {
    let length = usize::try_from(rest.try_get_u64().ok()?).ok()?;
    (length <= rest.len()).then(|| rest.split_to(length))
}

impl Guard {
    /// The state to save at `now`, if it differs from the state that was saved last.
    pub fn to_save(&mut self, now: Instant) -> Option<Vec<u8>> {
        let saved = Saved {
            revisions: PerKind::new(|kind| self.rows[kind].revision()),
            with_stats: self.guarding_since().is_some() || self.stats.are_overdue(),
            faults: PerKind::new(|kind| self.lists[kind].state.fault_since()),
        };
        let is_complete = self.rows.iter().all(|rows| rows.complete_since().is_some());
        if self.saved == Some(saved) || !is_complete {
            return None;
        }
        self.saved = Some(saved);
        let rows = Kind::BOTH.map(|kind| {
            let rows = &self.rows[kind];
            rows.write(rows.iter().map(|(_, known)| known))
        });
        let stats = Kind::BOTH.map(|kind| match saved.with_stats {
            true => self.stats.written(kind),
            false => Vec::new(),
        });
        let mut written = MAGIC.to_vec();
        for fault in saved.faults.iter() {
            let lasts = |since| now.saturating_duration_since(since).as_nanos() as i64;
            let since = fault.map_or(0, |since| self.unix_nanos(now) - lasts(since));
            written.extend(since.to_be_bytes());
        }
        for list in rows.into_iter().chain(stats) {
            written.extend((list.len() as u64).to_be_bytes());
            written.extend(list);
        }
        written.extend(checksum(&written));
        Some(written)
    }

    /// Lets [`Self::to_save`] return the last state again, because it could not be saved.
    pub fn not_saved(&mut self) {
        self.saved = None;
    }

    /// Restores the state that an earlier process saved. Returns whether it could be decoded.
    pub fn restore(&mut self, saved: Vec<u8>, now: Instant) -> bool {
        let Some(content) = read(&saved.into()) else {
            return false;
        };
        let Content { faults, stats, .. } = &content;
        let rows = Kind::BOTH.map(|kind| rows_of(kind, [&content.rows[kind]]));
        let [Ok(sandboxes), Ok(containers)] = rows else {
            return false;
        };
        for (kind, rows) in Kind::BOTH.into_iter().zip([sandboxes, containers]) {
            self.rows[kind].restore(rows, now);
            self.ids.note_unshown(kind, now);
            if faults[kind] != 0 {
                let lasts = u64::try_from(self.unix_nanos(now) - faults[kind]).unwrap_or_default();
                let since = now.checked_sub(Duration::from_nanos(lasts)).unwrap_or(now);
                // An earlier process ended during the fault. The limit of the fault does not start again, and
                // lists are answered before they are overdue again.
                self.lists[kind].state = State::guarding(since, now);
            }
            self.stats.restore(kind, &stats[kind]);
        }
        true
    }
}
