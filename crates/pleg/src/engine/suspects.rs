//! The status calls that were outstanding when the runtime went away: one of them may be why.
//!
//! ```text
//!   outstanding when it went away --> suspect: asked again once the runtime is back, one after
//!                                     the other --> answered: innocent
//!                                          |
//!                                          \-- it goes away at once --> blamed: asked last, and
//!                                              with nobody beside it --> answered: innocent
//!                                                  |
//!                                                  \-- it goes away at once: withheld for a while
//! ```
//!
//! A kubelet asks for one pod after the other. Side by side, one call by which the runtime crashes
//! would cost all others their answers each time. A call that hangs is outstanding at each restart, and
//! not why: whoever is to blame was made just before.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::call::{Call, Key};

/// A suspect is made once no other call is younger than this.
const YOUNG: Duration = Duration::from_millis(50);

/// Whoever is blamed already waits for others for longer, so that these are answered, and for some
/// time after the last answer: a runtime may crash a moment after it.
const YOUNG_BESIDE_BLAMED: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_millis(100);

/// A panic ends a runtime within this time; a call that was made earlier is not why it went away.
const AT_ONCE: Duration = Duration::from_secs(1);

/// For so long suspects wait for a sign that the runtime is back.
const AWAY: Duration = Duration::from_secs(3);

/// How often a call must have been blamed to be withheld, how long it is then, and each further time
/// four times as long.
const CERTAIN: u32 = 2;
const WITHHELD: Duration = Duration::from_secs(4);
const LONGEST: Duration = Duration::from_secs(300);

/// Who was not asked for longer is nobody's suspect any more: it is probably gone.
const FORGOTTEN: Duration = Duration::from_secs(900);

/// The calls during which the runtime went away, and those of them that wait to be made.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    suspects: BTreeMap<Key, Suspect>,
    waiting: VecDeque<Call>,
    /// When the runtime went away, until a call is answered that was made since.
    away: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    /// How often the runtime went away right after it was made.
    blamed: u32,
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
    /// The connection was lost while these were outstanding, each of which was `made` then.
    pub(crate) fn went_away_during(&mut self, made: &[(Key, Instant)], now: Instant) {
        // Each call that is lost says so; and what is made before it is back tells nothing new.
        let is_known = self.away.is_some();
        self.away.get_or_insert(now);
        self.suspects
            .retain(|_, suspect| now < suspect.last + FORGOTTEN);
        if !is_known {
            self.blame(made, now);
        }
        for (key, _) in made {
            let suspect = Suspect {
                blamed: 0,
                last: now,
            };
            self.suspects.entry(key.clone()).or_insert(suspect);
        }
    }

    /// Blames the suspect that was made last, if it was made just before.
    fn blame(&mut self, made: &[(Key, Instant)], now: Instant) {
        let youngest = made.iter().max_by_key(|(_, made)| *made);
        let youngest = youngest.filter(|(_, made)| now < *made + AT_ONCE);
        match youngest.and_then(|(key, _)| self.suspects.get_mut(key)) {
            Some(suspect) => {
                suspect.blamed += 1;
                suspect.last = now;
            }
            // It went away for another reason, as it may have before.
            None if youngest.is_none() => {
                for suspect in self.suspects.values_mut() {
                    suspect.blamed = 0;
                }
            }
            None => {}
        }
    }

    /// The runtime has answered a call that was `made` then.
    pub(crate) fn answered(&mut self, key: &Key, made: Instant) {
        self.suspects.remove(key);
        self.away.take_if(|away| made > *away);
    }

    /// Whether the call may be made.
    pub(crate) fn of(&self, key: &Key, now: Instant) -> Suspicion {
        match self.suspects.get(key) {
            None => Suspicion::Innocent,
            Some(suspect) if now < suspect.last + withheld_for(suspect.blamed) => {
                Suspicion::Withheld
            }
            Some(_) => Suspicion::Suspect,
        }
    }

    /// A call waits for its turn.
    pub(crate) fn wait(&mut self, call: Call) {
        self.waiting.push_back(call);
    }

    /// When the next one may be made, if none is `youngest` later, and nothing is answered after the
    /// `last_answer`; `None` if none waits.
    pub(crate) fn next_at(
        &self,
        youngest: Option<Instant>,
        last_answer: Instant,
    ) -> Option<Instant> {
        let next = self.waiting.get(self.next()?)?;
        let away = self.away.map(|away| away + AWAY);
        let alone = match self.blamed(next) {
            0 => youngest.map(|made| made + YOUNG),
            _ => {
                let beside = youngest.map(|made| made + YOUNG_BESIDE_BLAMED);
                beside.max(Some(last_answer + QUIET))
            }
        };
        // If nothing keeps it back, since long ago.
        Some(away.max(alone).unwrap_or(last_answer))
    }

    /// Takes the next one, with the time for which no other is made beside it, unless it is answered:
    /// first those that were blamed less often.
    pub(crate) fn take_next(&mut self) -> Option<(Call, Duration)> {
        let call = self.waiting.remove(self.next()?)?;
        let alone = match self.blamed(&call) {
            0 => YOUNG,
            _ => AT_ONCE,
        };
        Some((call, alone))
    }

    fn next(&self) -> Option<usize> {
        let waiting = self.waiting.iter().enumerate();
        let (next, _) = waiting.min_by_key(|(_, call)| self.blamed(call))?;
        Some(next)
    }

    fn blamed(&self, call: &Call) -> u32 {
        let suspect = self.suspects.get(&call.question.key());
        suspect.map_or(0, |suspect| suspect.blamed)
    }
}

fn withheld_for(blamed: u32) -> Duration {
    let Some(more) = blamed.checked_sub(CERTAIN) else {
        return Duration::ZERO;
    };
    WITHHELD
        .saturating_mul(4u32.saturating_pow(more))
        .min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtime::Rpc;

    fn key(id: &str) -> Key {
        (Rpc::ContainerStatus, Some(id.into()))
    }

    struct Case {
        suspects: Suspects,
        begun: Instant,
    }

    impl Case {
        fn new() -> Self {
            Self {
                suspects: Suspects::default(),
                begun: Instant::now(),
            }
        }

        fn at(&self, millis: u64) -> Instant {
            self.begun + Duration::from_millis(millis)
        }

        /// The runtime goes away at that time while these are outstanding.
        fn lost(&mut self, at: u64, made: &[(&str, u64)]) {
            let made = made.iter().map(|(id, made)| (key(id), self.at(*made)));
            let made: Vec<_> = made.collect();
            let at = self.at(at);
            self.suspects.went_away_during(&made, at);
        }

        /// It is back: somebody else is answered, who was asked then.
        fn back(&mut self, at: u64) {
            let at = self.at(at);
            self.suspects.answered(&key("somebody"), at);
        }

        fn of(&self, id: &str, at: u64) -> Suspicion {
            self.suspects.of(&key(id), self.at(at))
        }
    }

    #[test]
    fn one_right_after_which_it_goes_away_each_time_is_withheld_for_longer_and_longer() {
        let mut case = Case::new();
        case.lost(10, &[("killer", 0), ("other", 0)]);
        assert_eq!(case.of("killer", 20), Suspicion::Suspect);
        for at in [1000, 2000] {
            case.back(at);
            case.lost(at + 110, &[("killer", at + 100)]);
        }
        assert_eq!(case.of("killer", 6000), Suspicion::Withheld);
        assert_eq!(case.of("killer", 6200), Suspicion::Suspect);
        case.back(7000);
        case.lost(7110, &[("killer", 7100)]);
        assert_eq!(case.of("killer", 23_000), Suspicion::Withheld);
        assert_eq!(case.of("killer", 23_200), Suspicion::Suspect);
        assert_eq!(case.of("other", 23_200), Suspicion::Suspect);
    }

    #[test]
    fn one_that_hangs_at_each_restart_is_not_blamed() {
        let mut case = Case::new();
        for at in [0, 15_000, 30_000, 45_000] {
            case.back(at);
            case.lost(at + 10_000, &[("hangs", at + 100)]);
            assert_ne!(case.of("hangs", at + 10_001), Suspicion::Withheld);
        }
    }

    #[test]
    fn nobody_is_blamed_for_what_is_lost_before_it_is_back() {
        let mut case = Case::new();
        case.lost(10, &[("a", 0), ("b", 0)]);
        for at in [20, 30, 40, 50] {
            case.lost(at + 5, &[("a", at), ("b", at + 1)]);
        }
        // An answer that was on its way.
        case.suspects.answered(&key("c"), case.at(5));
        case.lost(70, &[("a", 60)]);
        case.lost(80, &[("a", 75)]);
        assert_eq!(case.of("a", 90), Suspicion::Suspect);
        assert_eq!(case.of("b", 90), Suspicion::Suspect);
    }

    #[test]
    fn one_beside_a_younger_call_is_not_blamed() {
        let mut case = Case::new();
        case.lost(10, &[("a", 0)]);
        for at in [1000, 2000, 3000] {
            case.back(at);
            case.lost(at + 120, &[("a", at + 100), ("new", at + 110)]);
        }
        assert_eq!(case.of("a", 3200), Suspicion::Suspect);
        assert_eq!(case.of("new", 3200), Suspicion::Withheld);
    }
}
