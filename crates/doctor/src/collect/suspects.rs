//! The status calls that were outstanding when the runtime went away: one of them may be why.
//!
//! ```text
//!   outstanding when it went away --> made last, one after the other
//!                                        \-- it goes away again --> not made a third time
//! ```

use std::collections::BTreeSet;

use cri::Rpc;

use super::targets::{Target, bounded};
use crate::facts::probes::Probe;

/// The status calls that may be why the runtime went away.
#[derive(Clone, Default)]
pub(super) struct Suspects {
    /// It went away once during each of these.
    once: BTreeSet<(Rpc, String)>,
    /// It went away during each of these again, and no other was made then.
    pub twice: Vec<Probe>,
    /// Those that were outstanding when it went away last.
    pub last: Vec<Probe>,
}

impl Suspects {
    /// It went away while these were outstanding.
    pub fn went_away_during(&mut self, lost: Vec<Probe>) {
        let again = lost.iter().filter(|probe| self.once.contains(&of(probe)));
        // They are made one after the other: the others have hung for long.
        let youngest = again.min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        self.twice.extend(youngest.cloned());
        self.once.extend(lost.iter().map(of));
        self.last = lost;
    }

    /// Whether a call is to be made after all others, and alone.
    pub fn is_one(&self, target: &Target) -> bool {
        self.once.contains(&asked(target))
    }

    /// Whether it is not to be made again.
    pub fn is_ruled_out(&self, target: &Target) -> bool {
        let mut twice = self.twice.iter();
        twice.any(|probe| of(probe) == asked(target))
    }
}

fn of(probe: &Probe) -> (Rpc, String) {
    (probe.call, probe.id.clone().unwrap_or_default())
}

fn asked(target: &Target) -> (Rpc, String) {
    (target.call, bounded(target.id.as_str()))
}
