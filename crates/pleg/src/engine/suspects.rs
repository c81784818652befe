//! The status calls that were outstanding when the runtime went away: one of them may be why.
//!
//! ```text
//!   outstanding when it went away --> asked again alone: no other is young --> answered: innocent
//!                                          |
//!                                          \-- it goes away again --> withheld for a while
//! ```
//!
//! A kubelet asks for one pod after the other. Side by side, one call by which the runtime crashes
//! would cost all others their answers each time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::call::{Call, Key};

/// Who is asked alone has no other beside it that is younger than this. A panic takes less.
pub(super) const YOUNG: Duration = Duration::from_millis(50);

/// How long a call is withheld during which the runtime went away twice; each further time four
/// times as long.
const WITHHELD: Duration = Duration::from_secs(4);
const LONGEST: Duration = Duration::from_secs(300);

/// Who was not asked for longer is nobody's suspect any more: it is probably gone.
const FORGOTTEN: Duration = Duration::from_secs(900);

/// The calls during which the runtime went away, and those of them that wait to be made.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    losses: BTreeMap<Key, Loss>,
    waiting: VecDeque<Call>,
}

#[derive(Clone, Copy, Debug)]
struct Loss {
    times: u32,
    last: Instant,
}

/// What is to be done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// It is made.
    Innocent,
    /// It is made alone.
    Suspect,
    /// It is not made for now: the runtime went away each time.
    Withheld,
}

impl Suspects {
    /// The runtime went away while these were outstanding, each of which was made then.
    pub(crate) fn went_away_during(
        &mut self,
        calls: impl Iterator<Item = (Key, Instant)>,
        now: Instant,
    ) {
        self.losses.retain(|_, loss| now < loss.last + FORGOTTEN);
        for (key, made) in calls {
            let known = self.losses.get(&key).copied();
            // Each call that is lost says so, and all of them are lost at once.
            if known.is_none_or(|loss| made > loss.last) {
                let times = known.map_or(0, |loss| loss.times) + 1;
                self.losses.insert(key, Loss { times, last: now });
            }
        }
    }

    /// The runtime is still there after the call.
    pub(crate) fn answered(&mut self, key: &Key) {
        self.losses.remove(key);
    }

    /// Whether the call may be made.
    pub(crate) fn of(&self, key: &Key, now: Instant) -> Suspicion {
        match self.losses.get(key) {
            None => Suspicion::Innocent,
            Some(loss) if loss.times > 1 && now < loss.last + withheld_for(loss.times) => {
                Suspicion::Withheld
            }
            Some(_) => Suspicion::Suspect,
        }
    }

    /// A call waits for its turn.
    pub(crate) fn wait(&mut self, call: Call) {
        self.waiting.push_back(call);
    }

    /// Whether any waits.
    pub(crate) fn are_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next one: first those during which it went away less often.
    pub(crate) fn next(&mut self) -> Option<Call> {
        let times = |call: &Call| {
            let loss = self.losses.get(&call.question.key());
            loss.map_or(0, |loss| loss.times)
        };
        let waiting = self.waiting.iter().enumerate();
        let (next, _) = waiting.min_by_key(|(_, call)| times(call))?;
        self.waiting.remove(next)
    }
}

fn withheld_for(times: u32) -> Duration {
    let factor = 4u32.saturating_pow(times.saturating_sub(2));
    WITHHELD.saturating_mul(factor).min(LONGEST)
}
