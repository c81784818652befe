//! What survives a restart: all rows, as two lists.
//!
//! They need not be new: after a restart every id is confirmed anew, and what was made since is
//! met on the host, or no list is answered before a complete one came.

use bytes::{Buf, Bytes};
use tokio::time::Instant;

use super::Guard;
use super::rows::Rows;
use crate::wire::Kind;
use crate::wire::row::rows_of;

/// The first bytes of it, with the version of the form.
const MAGIC: &[u8] = b"pleg guard rows 1\n";

/// The rows as bytes.
pub(super) fn written(sandboxes: &Rows, containers: &Rows) -> Vec<u8> {
    let mut saved = MAGIC.to_vec();
    for rows in [sandboxes, containers] {
        let list = rows.write(rows.iter().map(|(_, known)| known));
        saved.extend((list.len() as u64).to_be_bytes());
        saved.extend(list);
    }
    saved
}

/// The two lists in what was saved; `None` if it is anything else.
fn lists(saved: &Bytes) -> Option<[Bytes; 2]> {
    let mut rest = saved.slice_ref(saved.strip_prefix(MAGIC)?);
    let mut next = || {
        let length = usize::try_from(rest.try_get_u64().ok()?).ok()?;
        (length <= rest.len()).then(|| rest.split_to(length))
    };
    let lists = [next()?, next()?];
    rest.is_empty().then_some(lists)
}

impl Guard {
    /// What is to be saved, if it differs from what was saved last.
    pub fn to_save(&mut self) -> Option<Vec<u8>> {
        let revision = (self.sandboxes.revision(), self.containers.revision());
        let is_complete = |rows: &Rows| rows.complete_since().is_some();
        let differs = self.saved != Some(revision);
        let is_worth = is_complete(&self.sandboxes) && is_complete(&self.containers);
        (differs && is_worth).then(|| {
            self.saved = Some(revision);
            written(&self.sandboxes, &self.containers)
        })
    }

    /// Takes in what an earlier run saved; says whether it was understood.
    pub fn restore(&mut self, saved: Vec<u8>, now: Instant) -> bool {
        let Some(lists) = lists(&saved.into()) else {
            return false;
        };
        let [sandboxes, containers] = lists;
        let sandboxes = rows_of(Kind::Sandbox, &sandboxes);
        let (Ok(sandboxes), Ok(containers)) = (sandboxes, rows_of(Kind::Container, &containers))
        else {
            return false;
        };
        for (kind, rows) in [(Kind::Sandbox, sandboxes), (Kind::Container, containers)] {
            self.rows_mut(kind).restore(rows, now);
            self.prober.may_have_missed(kind, now);
        }
        true
    }
}
