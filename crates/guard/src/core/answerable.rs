//! Which rows may be in an answer: only rows whose state is confirmed.

use std::borrow::Cow;
use std::time::Duration;

use base::id::Id;
use tokio::time::Instant;

use super::Guard;
use super::known::Known;
use crate::wire::Kind;
use crate::wire::filter::Filter;

/// How long a status call must have been stuck before its row keeps its last state: a shorter delay may
/// be that of the whole runtime.
const MIN_STUCK_TIME: Duration = Duration::from_millis(250);

impl Guard {
    /// Replaces a prefix of a sandbox's id in the filter with the whole id: runtimes accept a prefix too.
    pub(super) fn with_whole_ids<'a>(&self, filter: &'a Filter) -> Cow<'a, Filter> {
        let begins = |id| Some((id, self.rows.sandboxes.only_one_that_begins(id)?));
        match filter.sandbox.as_ref().and_then(begins) {
            Some((id, whole)) if id != whole => Cow::Owned(filter.in_sandbox(whole)),
            _ => Cow::Borrowed(filter),
        }
    }

    /// Whether the status of this id is stuck.
    pub(super) fn is_stuck(&self, kind: Kind, id: &Id, now: Instant) -> bool {
        let key = (kind.status(), Some(id.clone()));
        let since = self.prober.ledger.stuck_alone_since(&key, now);
        since.is_some_and(|since| now >= since + MIN_STUCK_TIME)
    }

    /// The rows that the filter selects, whatever their state, if all of them are known as of `since`.
    /// `known_to` is the id at which the previous attempt stopped; the rows before it were known then.
    ///
    /// An id whose status is stuck or failing keeps its last state, but only while another id of its
    /// kind is confirmed: otherwise nothing shows that the runtime still observes this kind.
    pub(super) fn known_rows(
        &self,
        kind: Kind,
        filter: &Filter,
        known_to: &mut Option<Id>,
        since: Instant,
        now: Instant,
    ) -> Option<impl Iterator<Item = &Known>> {
        let rows = &self.rows[kind];
        rows.complete_since()?;
        let mut all = rows.iter();
        let is_any_confirmed = all.any(|(_, known)| known.is_confirmed(since));
        if !is_any_confirmed || !self.ids.are_all_known(kind, now) {
            return None;
        }
        let is_wanted = move |known: &&Known| filter.matches_but_for_state(kind, &known.row);
        let is_open = |known: &&Known| {
            let keeps_its_state = known.is_failing() || self.is_stuck(kind, &known.row.id, now);
            !known.is_confirmed(since) && (!keeps_its_state || known.may_have_started(kind))
        };
        // There may be thousands of rows, most of them confirmed: continue where the last attempt
        // stopped.
        let rest = rows.from(known_to.take()).map(|(_, known)| known);
        if let Some(open) = rest.filter(&is_wanted).find(is_open) {
            *known_to = Some(open.row.id.clone());
            return None;
        }
        let all = rows.iter().map(|(_, known)| known).filter(is_wanted);
        // A row that was known at an earlier attempt may have changed since.
        (!all.clone().any(|known| is_open(&known))).then_some(all)
    }
}
