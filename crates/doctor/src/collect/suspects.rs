//! The status calls that were outstanding when the runtime went away: one of them may be why.
//!
//! ```text
//!   outstanding when it went away --> made last, one after the other
//!                                        \-- it goes away again --> not made a third time, while
//!                                             it is seen whether the runtime stays without it
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use cri::Rpc;

use super::bounded::bounded;
use super::targets::Target;
use crate::facts::probes::Probe;

/// A runtime that crashes by a call does so within this time, in seconds.
const AT_ONCE: f64 = 1.0;

/// The status calls that may be why the runtime went away.
#[derive(Clone, Default)]
pub(super) struct Suspects {
    /// It went away once during each of these.
    once: BTreeSet<(Rpc, String)>,
    /// An agent on the node is finding out about these.
    left_to_agent: BTreeSet<(Rpc, String)>,
    /// It went away during each of these again, and no other was made then.
    pub twice: Vec<Probe>,
    /// Those that were outstanding when it went away last.
    pub last: Vec<Probe>,
    /// The longest time after which it went away, since it was asked first.
    pub longest: Duration,
}

impl Suspects {
    /// An agent does not make some any more, for that reason, and suspects these.
    pub fn known_to_agent(withheld: Vec<Probe>, suspects: BTreeSet<(Rpc, String)>) -> Self {
        Self {
            twice: withheld,
            left_to_agent: suspects,
            ..Self::default()
        }
    }

    /// Whether an agent is finding out about it.
    pub fn is_left_to_agent(&self, target: &Target) -> bool {
        self.left_to_agent.contains(&asked(target)) && !self.is_ruled_out(target)
    }

    /// It went away while these were outstanding, so long `after` it was asked first.
    pub fn went_away_during(&mut self, lost: Vec<Probe>, after: Duration) {
        self.longest = self.longest.max(after);
        let again = lost.iter().filter(|probe| self.once.contains(&of(probe)));
        // They are made one after the other: the others hang, which is not why it goes away.
        let youngest = again.min_by(|a, b| a.seconds.total_cmp(&b.seconds));
        self.twice
            .extend(youngest.filter(|probe| probe.seconds < AT_ONCE).cloned());
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
