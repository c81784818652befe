//! The state that survives a restart: all rows, as two lists; while a call is overdue the last statistics,
//! as two more; and when the current fault began.
//!
//! Rows may be old: after a restart every id is confirmed again. Ids that were created since are found on
//! the host, or no list is answered before the first complete one. A stuck container has only the
//! statistics from before the fault.

use std::time::Duration;

use bytes::{Buf, Bytes};
use flate2::Crc;
use tokio::time::Instant;

use super::Guard;
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

const KINDS: [Kind; 2] = [Kind::Sandbox, Kind::Container];

/// What was saved last: the revisions of both kinds of rows, whether statistics were included, and when
/// the faults began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    revisions: [u64; 2],
    with_stats: bool,
    faults: [Option<Instant>; 2],
}

/// The content of the saved state.
struct Content {
    /// When the fault of each kind began, in nanoseconds since 1970; 0 if there is none.
    faults: [i64; 2],
    lists: [Bytes; 4],
}

/// Decodes the saved state. Returns `None` if it is not valid.
fn read(saved: &Bytes) -> Option<Content> {
    let (lists, sum) = saved.split_at_checked(saved.len().checked_sub(CHECKSUM)?)?;
    if checksum(lists) != sum {
        return None;
    }
    let mut rest = saved.slice_ref(lists.strip_prefix(MAGIC)?);
    let faults = [rest.try_get_i64().ok()?, rest.try_get_i64().ok()?];
    let mut next = || {
        let length = usize::try_from(rest.try_get_u64().ok()?).ok()?;
        (length <= rest.len()).then(|| rest.split_to(length))
    };
    let lists = [next()?, next()?, next()?, next()?];
    rest.is_empty().then_some(Content { faults, lists })
}

impl Guard {
    /// The state to save at `now`, if it differs from the state that was saved last.
    pub fn to_save(&mut self, now: Instant) -> Option<Vec<u8>> {
        let saved = Saved {
            revisions: KINDS.map(|kind| self.rows(kind).revision()),
            with_stats: self.guarding_since().is_some() || self.stats.are_overdue(),
            faults: KINDS.map(|kind| self.lists[kind as usize].fault_since()),
        };
        let mut kinds = KINDS.into_iter();
        let is_worth = kinds.all(|kind| self.rows(kind).complete_since().is_some());
        if self.saved == Some(saved) || !is_worth {
            return None;
        }
        self.saved = Some(saved);
        let rows = KINDS.map(|kind| {
            let rows = self.rows(kind);
            rows.write(rows.iter().map(|(_, known)| known))
        });
        let stats = KINDS.map(|kind| match saved.with_stats {
            true => self.stats.written(kind),
            false => Vec::new(),
        });
        let mut written = MAGIC.to_vec();
        for fault in saved.faults {
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

    /// The last state could not be saved: [`Self::to_save`] returns it again.
    pub fn not_saved(&mut self) {
        self.saved = None;
    }

    /// Restores the state that an earlier process saved. Returns whether it could be decoded.
    pub fn restore(&mut self, saved: Vec<u8>, now: Instant) -> bool {
        let Some(Content { faults, lists }) = read(&saved.into()) else {
            return false;
        };
        let [sandboxes, containers, stats @ ..] = lists;
        let sandboxes = rows_of(Kind::Sandbox, &sandboxes);
        let (Ok(sandboxes), Ok(containers)) = (sandboxes, rows_of(Kind::Container, &containers))
        else {
            return false;
        };
        for (kind, rows) in KINDS.into_iter().zip([sandboxes, containers]) {
            self.rows_mut(kind).restore(rows, now);
            self.ids.may_have_missed(kind, now);
        }
        for (kind, fault) in KINDS.into_iter().zip(faults) {
            if fault != 0 {
                let lasts = u64::try_from(self.unix_nanos(now) - fault).unwrap_or_default();
                let since = now.checked_sub(Duration::from_nanos(lasts)).unwrap_or(now);
                self.lists[kind as usize].resume_fault(since, now);
            }
        }
        for (kind, stats) in KINDS.into_iter().zip(stats) {
            self.stats.restore(kind, &stats);
        }
        true
    }
}
