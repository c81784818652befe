//! The status calls that were outstanding when the runtime went away: one of them may be why.
//!
//! ```text
//!   outstanding when it went away --> Suspect: made once the runtime is back, one after the other
//!        ^                               |  \-- answered: innocent
//!        |                               \-- it goes away at once, twice --> OnTrial: not made
//!        \-- it goes away without this call, too ------------------------------/   |
//!                                                                                  |
//!   Proven: made now and then <-- it goes away at once -- Accused: made again <----/
//!     \-- it stays although this call is made: innocent                 it stays without this call
//! ```
//!
//! A kubelet asks for one pod after the other. Side by side, one call by which the runtime crashes
//! would cost all others their answers each time. A call that hangs is outstanding at each restart, and
//! a runtime that crashes by itself does so during some call: neither is why.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::call::{Call, Question};
use crate::out::status_report::SuspectCall;

/// A suspect is made once no other call is younger than this.
const YOUNG: Duration = Duration::from_millis(50);

/// Whoever is blamed already waits for others for longer, so that these are answered, and for some
/// time after the last answer: a runtime may crash a moment after it.
const YOUNG_BESIDE_BLAMED: Duration = Duration::from_secs(1);
const QUIET: Duration = Duration::from_millis(100);

/// A panic ends a runtime within this time; a call that was made earlier is not why it went away.
const AT_ONCE: Duration = Duration::from_secs(1);

/// For so long suspects wait for a sign that the runtime is back, and for a quiet moment.
const AWAY: Duration = Duration::from_secs(3);

/// Whoever was blamed so often is on trial.
const TRIAL: u32 = 2;

/// A runtime that stays for so long without a call crashed because of it.
const STAYS: Duration = Duration::from_secs(4);

/// How long such a call is withheld, and each further time four times as long.
const WITHHELD: Duration = Duration::from_secs(4);
const LONGEST: Duration = Duration::from_secs(300);

/// Who was not asked for longer is nobody's suspect any more: it is probably gone.
const FORGOTTEN: Duration = Duration::from_secs(900);

/// The calls during which the runtime went away, and the one of them that waits to be made: while one
/// waits, there is no room for another.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    suspects: BTreeMap<Question, Suspect>,
    waiting: Option<Waiting>,
    /// When the runtime went away, until a call is answered that was made since.
    away: Option<Instant>,
    /// Since when it is back.
    back: Option<Instant>,
    /// How many connections were made.
    connections: usize,
}

#[derive(Debug)]
struct Waiting {
    call: Call,
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    guilt: Guilt,
    last: Instant,
}

/// What is known of a call during which the runtime went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Guilt {
    /// It went away that often right after the call was made.
    Suspect { blamed: u32 },
    /// Whether it stays without this call is to be seen.
    OnTrial,
    /// It stayed; whether it goes away with the call is to be seen once more.
    Accused,
    /// It goes away whenever the call is made, as was seen so many times more.
    Proven { again: u32 },
}

/// What is to be done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// It is made.
    Innocent,
    /// It is made alone.
    Suspect,
    /// It is not made before it is seen whether the runtime stays without it.
    OnTrial,
    /// It is not made for now: the runtime goes away each time.
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
                guilt: Guilt::Suspect { blamed: 0 },
                last: now,
            };
            self.suspects.entry(question.clone()).or_insert(suspect);
        }
    }

    /// So many connections have been made by now. One more that nobody has missed is of a runtime that
    /// was away while no call was outstanding.
    pub(crate) fn connected(&mut self, connections: usize, now: Instant) {
        if connections <= self.connections {
            return;
        }
        self.connections = connections;
        if self.away.is_none() {
            self.blame(&[], now);
            self.back = Some(now);
        }
    }

    /// Blames the suspect that was made last, if it was made just before. If no call was, the runtime
    /// goes away without those that are tried, too.
    fn blame(&mut self, made: &[(Question, Instant)], now: Instant) {
        self.back = None;
        let youngest = made.iter().max_by_key(|(_, made)| *made);
        let youngest = youngest.filter(|(_, made)| now < *made + AT_ONCE);
        let Some((question, _)) = youngest else {
            for suspect in self.suspects.values_mut() {
                if matches!(suspect.guilt, Guilt::OnTrial | Guilt::Accused) {
                    suspect.guilt = Guilt::Suspect { blamed: 0 };
                }
            }
            return;
        };
        if let Some(suspect) = self.suspects.get_mut(question) {
            suspect.last = now;
            suspect.guilt = match suspect.guilt {
                Guilt::Suspect { blamed } if blamed + 1 < TRIAL => {
                    Guilt::Suspect { blamed: blamed + 1 }
                }
                Guilt::Suspect { .. } | Guilt::OnTrial => Guilt::OnTrial,
                Guilt::Accused => Guilt::Proven { again: 0 },
                Guilt::Proven { again } => Guilt::Proven { again: again + 1 },
            };
        }
    }

    /// The runtime has answered a call that was `made` then.
    pub(crate) fn answered(&mut self, question: &Question, made: Instant, now: Instant) {
        self.suspects.remove(question);
        if self.away.take_if(|away| made > *away).is_some() {
            self.back = Some(now);
        }
        if self.back.take_if(|back| now >= *back + STAYS).is_some() {
            for suspect in self.suspects.values_mut() {
                if suspect.guilt == Guilt::OnTrial {
                    suspect.guilt = Guilt::Accused;
                }
            }
        }
    }

    /// The runtime is still there although a call was made alone a while ago, which may hang. Says
    /// whether that was thought to be why it goes away.
    pub(crate) fn survived(&mut self, question: &Question) -> bool {
        let Some(suspect) = self.suspects.get_mut(question) else {
            return false;
        };
        let was_proven = matches!(suspect.guilt, Guilt::Proven { .. });
        suspect.guilt = Guilt::Suspect { blamed: 0 };
        was_proven
    }

    /// Whether the call may be made.
    pub(crate) fn of(&self, question: &Question, now: Instant) -> Suspicion {
        let Some(suspect) = self.suspects.get(question) else {
            return Suspicion::Innocent;
        };
        match suspect.guilt {
            Guilt::OnTrial => Suspicion::OnTrial,
            Guilt::Proven { again } if now < suspect.last + withheld_for(again) => {
                Suspicion::Withheld
            }
            Guilt::Suspect { .. } | Guilt::Accused | Guilt::Proven { .. } => Suspicion::Suspect,
        }
    }

    /// All of them.
    pub(crate) fn calls(&self) -> impl Iterator<Item = SuspectCall> {
        self.suspects.keys().filter_map(|question| {
            let (call, id) = question.key();
            Some(SuspectCall { call, id: id? })
        })
    }

    /// A call waits for its turn.
    pub(crate) fn wait(&mut self, call: Call, now: Instant) {
        self.waiting = Some(Waiting { call, since: now });
    }

    /// When the one that waits may be made, as far as there is anything to wait for: the runtime is to
    /// be back, no other call to be young, and nothing just answered.
    pub(crate) fn next_at(
        &self,
        youngest: Option<Instant>,
        last_answer: Instant,
    ) -> Option<Instant> {
        let Waiting { call, since } = self.waiting.as_ref()?;
        let is_blamed = self.is_blamed(call);
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
        // Others are answered all the time where relists are frequent.
        let at = waits.into_iter().flatten().max()?;
        Some(at.min(*since + AWAY))
    }

    /// Whether one waits.
    pub(crate) fn is_one_waiting(&self) -> bool {
        self.waiting.is_some()
    }

    /// Takes it, with the time for which no other is made beside it, unless it is answered.
    pub(crate) fn take(&mut self) -> Option<(Call, Duration)> {
        let Waiting { call, .. } = self.waiting.take()?;
        let alone = if self.is_blamed(&call) {
            AT_ONCE
        } else {
            YOUNG
        };
        Some((call, alone))
    }

    fn is_blamed(&self, call: &Call) -> bool {
        let suspect = self.suspects.get(&call.question);
        suspect.is_some_and(|suspect| suspect.guilt != Guilt::Suspect { blamed: 0 })
    }
}

fn withheld_for(again: u32) -> Duration {
    let longer = 4u32.saturating_pow(again);
    WITHHELD.saturating_mul(longer).min(LONGEST)
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
            self.suspects.answered(&status("somebody"), at, at);
        }

        fn of(&self, id: &str, at: u64) -> Suspicion {
            self.suspects.of(&status(id), self.at(at))
        }

        /// It is lost twice right after it was made alone.
        fn blamed(id: &str) -> Self {
            let mut case = Self::new();
            case.lost(10, &[(id, 0), ("other", 0)]);
            for at in [1000, 2000] {
                assert_eq!(case.of(id, at), Suspicion::Suspect);
                case.back(at);
                case.lost(at + 110, &[(id, at + 100)]);
            }
            assert_eq!(case.of(id, 2200), Suspicion::OnTrial);
            case
        }
    }

    #[test]
    fn one_without_which_the_runtime_stays_is_withheld_for_longer_and_longer() {
        let mut case = Case::blamed("killer");
        case.back(3000);
        case.back(6900);
        assert_eq!(case.of("killer", 6900), Suspicion::OnTrial);
        case.back(7000);
        assert_eq!(case.of("killer", 7000), Suspicion::Suspect);
        case.lost(7110, &[("killer", 7100)]);
        assert_eq!(case.of("killer", 11_000), Suspicion::Withheld);
        assert_eq!(case.of("killer", 11_200), Suspicion::Suspect);
        case.back(8000);
        case.lost(12_110, &[("killer", 12_100)]);
        assert_eq!(case.of("killer", 28_000), Suspicion::Withheld);
        // It goes away for another reason, too.
        case.back(13_000);
        case.lost(20_000, &[]);
        assert_eq!(case.of("killer", 28_000), Suspicion::Withheld);
        assert_eq!(case.of("killer", 28_200), Suspicion::Suspect);
        assert_eq!(case.of("other", 28_200), Suspicion::Suspect);
    }

    #[test]
    fn two_that_make_it_go_away_are_both_found() {
        let mut case = Case::blamed("one");
        for at in [3000, 4000, 5000] {
            case.back(at);
            case.lost(at + 110, &[("two", at + 100)]);
        }
        case.back(6000);
        case.back(10_000);
        for (id, at) in [("one", 10_100), ("two", 11_100)] {
            case.lost(at + 10, &[(id, at)]);
            assert_eq!(case.of(id, at + 100), Suspicion::Withheld);
            case.back(at + 500);
        }
    }

    #[test]
    fn one_without_which_the_runtime_goes_away_too_is_acquitted() {
        for at in [6000, 8000] {
            let mut case = Case::blamed("innocent");
            case.back(3000);
            case.back(at - 500);
            case.lost(at, &[("other", 3000)]);
            case.back(at + 500);
            case.lost(at + 900, &[("innocent", at + 600)]);
            assert_eq!(case.of("innocent", at + 1000), Suspicion::Suspect);
        }
    }

    #[test]
    fn nor_is_one_without_which_it_was_away_while_nobody_called_it() {
        let mut case = Case::blamed("innocent");
        case.back(3000);
        let at = case.at(5000);
        case.suspects.connected(4, at);
        case.back(8000);
        case.lost(8200, &[("innocent", 8100)]);
        assert_eq!(case.of("innocent", 8300), Suspicion::Suspect);
    }

    #[test]
    fn one_that_only_hangs_now_is_acquitted() {
        let mut case = Case::blamed("killer");
        case.back(3000);
        case.back(7000);
        case.lost(7110, &[("killer", 7100)]);
        assert!(case.suspects.survived(&status("killer")));
        assert_eq!(case.of("killer", 7001), Suspicion::Suspect);
        assert!(!case.suspects.survived(&status("killer")));
    }

    #[test]
    fn one_that_hangs_at_each_restart_is_not_blamed() {
        let mut case = Case::new();
        for at in [0, 15_000, 30_000, 45_000] {
            case.back(at);
            case.lost(at + 10_000, &[("hangs", at + 100)]);
            assert_eq!(case.of("hangs", at + 10_001), Suspicion::Suspect);
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
        let (asked, now) = (case.at(5), case.at(60));
        case.suspects.answered(&status("c"), asked, now);
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
        assert_eq!(case.of("new", 3200), Suspicion::OnTrial);
    }
}
