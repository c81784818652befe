//! What may be told of the rows: nothing that is not known to be so.

use std::borrow::Cow;
use std::time::Duration;

use pleg::model::id::Id;
use tokio::time::Instant;

use super::Guard;
use super::rows::Known;
use crate::wire::Kind;
use crate::wire::filter::Filter;

/// So long after it was named, one that is stuck has not just been held up with all others.
const A_MOMENT: Duration = Duration::from_millis(250);

impl Guard {
    /// A runtime takes the beginning of a sandbox's id, too.
    pub(super) fn with_whole_ids<'a>(&self, filter: &'a Filter) -> Cow<'a, Filter> {
        let begins = |id| Some((id, self.sandboxes.only_one_that_begins(id)?));
        match filter.sandbox().and_then(begins) {
            Some((id, whole)) if id != whole => Cow::Owned(filter.in_sandbox(whole)),
            _ => Cow::Borrowed(filter),
        }
    }

    /// Whether the status of this id is stuck, and others' are not.
    fn is_stuck(&self, kind: Kind, id: &Id, now: Instant) -> bool {
        let key = (kind.status(), Some(id.clone()));
        let since = self.prober.governor.stuck_since(&key);
        since.is_some_and(|since| now >= since + A_MOMENT)
    }

    /// What a list asks for, in whatever state, if all of it is known to be so since `since`.
    /// Up to `known_to` it was when it was last looked.
    pub(super) fn known_rows(
        &self,
        kind: Kind,
        filter: &Filter,
        known_to: &mut Option<Id>,
        since: Instant,
        now: Instant,
    ) -> Option<impl Iterator<Item = &Known>> {
        let rows = self.rows(kind);
        rows.complete_since()?;
        if !self.ids.are_all_known(kind, now) || !self.prober.governor.has_answered_since(since) {
            // Of a runtime that is stopped as a whole nothing is known.
            return None;
        }
        let mut all = rows.iter();
        let others_are_confirmed = all.any(|(_, known)| known.is_confirmed(since));
        let is_wanted = move |known: &&Known| filter.matches_but_for_state(kind, &known.row);
        let is_open = |known: &&Known| {
            // What fails says nothing of others, unless they fail, too.
            let fails = others_are_confirmed && known.is_failing();
            let keeps_its_state = fails || self.is_stuck(kind, &known.row.id, now);
            !known.is_confirmed(since) && (!keeps_its_state || known.may_run_since(kind))
        };
        // Of thousands most are confirmed already: the search goes on where it ended last.
        let unseen = rows.from(known_to.take()).map(|(_, known)| known);
        if let Some(open) = unseen.filter(&is_wanted).find(is_open) {
            *known_to = Some(open.row.id.clone());
            return None;
        }
        let all = rows.iter().map(|(_, known)| known).filter(is_wanted);
        // What was known then may have changed since.
        (!all.clone().any(|known| is_open(&known))).then_some(all)
    }
}
