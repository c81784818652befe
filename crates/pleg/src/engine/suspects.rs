//! The status calls that were outstanding when the runtime went away: one of them may be why.
//!
//! ```text
//!   outstanding when it went away --> suspect: asked again once the runtime is back, one after
//!                                     the other --> answered: innocent
//!                                          |
//!                                          \-- it goes away at once --> blamed: asked with nobody
//!                                              else waiting for an answer --> answered: innocent
//!                                                  |
//!                                                  \-- it goes away at once: withheld for a while
//! ```
//!
//! A kubelet asks for one pod after the other. Side by side, one call by which the runtime crashes
//! would cost all others their answers each time. A call that hangs is outstanding at each restart, and
//! not why: whoever is to blame was made just before.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::call::{Call, Question};

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

/// The calls during which the runtime went away, and the one of them that waits to be made: while one
/// waits, there is no room for another.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    suspects: BTreeMap<Question, Suspect>,
    waiting: Option<Call>,
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
    pub(crate) fn went_away_during(&mut self, made: &[(Question, Instant)], now: Instant) {
        // Each call that is lost says so; and what is made before it is back tells nothing new.
        let is_known = self.away.is_some();
        self.away.get_or_insert(now);
        self.suspects
            .retain(|_, suspect| now < suspect.last + FORGOTTEN);
        if !is_known {
            self.blame(made, now);
        }
        for (question, _) in made {
            let suspect = Suspect {
                blamed: 0,
                last: now,
            };
            self.suspects.entry(question.clone()).or_insert(suspect);
        }
    }

    /// Blames the suspect that was made last, if it was made just before.
    fn blame(&mut self, made: &[(Question, Instant)], now: Instant) {
        let youngest = made.iter().max_by_key(|(_, made)| *made);
        let youngest = youngest.filter(|(_, made)| now < *made + AT_ONCE);
        if let Some(suspect) = youngest.and_then(|(question, _)| self.suspects.get_mut(question)) {
            suspect.blamed += 1;
            suspect.last = now;
        }
    }

    /// The runtime has answered a call that was `made` then.
    pub(crate) fn answered(&mut self, question: &Question, made: Instant) {
        self.suspects.remove(question);
        self.away.take_if(|away| made > *away);
    }

    /// Whether the call may be made.
    pub(crate) fn of(&self, question: &Question, now: Instant) -> Suspicion {
        match self.suspects.get(question) {
            None => Suspicion::Innocent,
            Some(suspect) if now < suspect.last + withheld_for(suspect.blamed) => {
                Suspicion::Withheld
            }
            Some(_) => Suspicion::Suspect,
        }
    }

    /// A call waits for its turn.
    pub(crate) fn wait(&mut self, call: Call) {
        self.waiting = Some(call);
    }

    /// When the one that waits may be made, as far as there is anything to wait for: the runtime is to
    /// be back, no other call to be young, and nothing just answered.
    pub(crate) fn next_at(
        &self,
        youngest: Option<Instant>,
        last_answer: Instant,
    ) -> Option<Instant> {
        let is_blamed = self.blamed(self.waiting.as_ref()?) > 0;
        let young = if is_blamed {
            YOUNG_BESIDE_BLAMED
        } else {
            YOUNG
        };
        let waits = [
            self.away.map(|away| away + AWAY),
            youngest.map(|made| made + young),
            is_blamed.then(|| last_answer + QUIET),
        ];
        waits.into_iter().flatten().max()
    }

    /// Whether one waits.
    pub(crate) fn is_one_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Takes it, with the time for which no other is made beside it, unless it is answered.
    pub(crate) fn take(&mut self) -> Option<(Call, Duration)> {
        let call = self.waiting.take()?;
        let alone = match self.blamed(&call) {
            0 => YOUNG,
            _ => AT_ONCE,
        };
        Some((call, alone))
    }

    fn blamed(&self, call: &Call) -> u32 {
        let suspect = self.suspects.get(&call.question);
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

    fn status(id: &str) -> Question {
        Question::Container(id.into())
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
            let made = made.iter().map(|(id, made)| (status(id), self.at(*made)));
            let made: Vec<_> = made.collect();
            let at = self.at(at);
            self.suspects.went_away_during(&made, at);
        }

        /// It is back: somebody else is answered, who was asked then.
        fn back(&mut self, at: u64) {
            let at = self.at(at);
            self.suspects.answered(&status("somebody"), at);
        }

        fn of(&self, id: &str, at: u64) -> Suspicion {
            self.suspects.of(&status(id), self.at(at))
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
        case.suspects.answered(&status("c"), case.at(5));
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
