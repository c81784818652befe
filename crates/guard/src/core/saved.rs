//! What survives a restart: all rows, as two lists, and while something is overdue the last
//! statistics, as two more; and since when a fault lasts.
//!
//! Rows need not be new: after a restart every id is confirmed anew, and what was made since is
//! met on the host, or no list is answered before a complete one came. Statistics are those of
//! the time before the fault: whoever is stuck has no others.

use std::time::Duration;

use bytes::{Buf, Bytes};
use flate2::Crc;
use tokio::time::Instant;

use super::Guard;
use crate::wire::Kind;
use crate::wire::row::rows_of;

/// The first bytes of it, with the version of the form.
const MAGIC: &[u8] = b"pleg guard rows 4\n";

/// The last bytes of it: the sum of those before. One flipped bit can turn a running container into
/// one that has exited.
const CHECKSUM: usize = size_of::<u32>();

fn checksum(of: &[u8]) -> [u8; CHECKSUM] {
    let mut crc = Crc::new();
    crc.update(of);
    crc.sum().to_be_bytes()
}

const KINDS: [Kind; 2] = [Kind::Sandbox, Kind::Container];

/// What was saved last: the revisions of both kinds of rows, whether with statistics, and the faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Saved {
    revisions: [u64; 2],
    with_stats: bool,
    faults: [Option<Instant>; 2],
}

/// What is in a file.
struct Content {
    /// Since when lists of each kind do not pass, in nanoseconds since 1970; 0 if they do.
    faults: [i64; 2],
    lists: [Bytes; 4],
}

/// Reads what was saved; `None` if it is anything else.
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
    /// What is to be saved at `now`, if it differs from what was saved last.
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

    /// What was to be saved last could not be.
    pub fn not_saved(&mut self) {
        self.saved = None;
    }

    /// Takes in what an earlier run saved; says whether it was understood.
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
