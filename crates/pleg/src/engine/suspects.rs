//! The status calls during which the connection to the runtime was lost: one of them may be why.
//!
//! ```text
//!   outstanding at a loss --> made again beside few --> made again alone --> held for longer and longer
//!         \_______________________\_______________________\____________________\--> answered, or still
//!                                                          outstanding after a second: no suspect any more
//! ```
//!
//! A kubelet asks for one pod after the other. Side by side, one call by which the runtime crashes
//! would cost all others their answers each time. What is said of such a call is only what was seen:
//! that the connection was lost each time that it was made alone. A runtime may go away for another
//! reason at that moment, so nobody is given up.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use tokio::time::Instant;

use super::call::{Call, Key, Question};
use super::crashes::{AT_ONCE, LONGEST_HELD, hold};
use crate::model::id::Id;
use crate::out::status_report::SuspectCall;

/// A call is named once it scores so much. A runtime that goes away by itself seldom does so just after
/// a call, compared with how long it had been there: each loss adds the logarithm of that ratio, less a
/// little, for such a runtime may take each call with it.
const NAMED: f64 = 5.0;
const LESS: f64 = 1.0;
/// No single loss is enough.
const MOST_OF_ONE: f64 = 4.0;

/// Of those that were lost together so large a part is made again together.
const PART: usize = 4;

/// For so long no other is made beside one that is made alone, and each time that this was not enough
/// to tell, three times as long: some may hang.
const WINDOW: Duration = Duration::from_millis(100);

/// A runtime may crash a moment after an answer.
const QUIET: Duration = Duration::from_millis(100);

/// For so long suspects wait for a sign that the runtime is back, and for a quiet moment.
const AWAY: Duration = Duration::from_secs(3);

/// After so long others are not made any more before the one that is to be made alone.
const PATIENT: Duration = Duration::from_secs(1);

/// Who was lost once is nobody's witness for so long; who was lost again is not any more.
const ONCE: Duration = Duration::from_secs(60);

/// One restart is usual.
const BY_ITSELF: u32 = 2;

/// So many of the last times that the runtime was there without a call that was made alone are compared
/// with the time for which it was there until one was lost.
const COMPARED: usize = 4;

/// Two times that differ by less than this, or by a fifth, are alike.
const ALIKE: Duration = Duration::from_millis(50);

/// The runtime crashes whichever PID it is asked for, once this many in succession were lost alone. For
/// so long it is asked for none then: PIDs are of use, and not needed.
const PIDS_LOST: u32 = 2;
const PIDS_HELD: Duration = LONGEST_HELD;

/// Who was not asked for longer is nobody's suspect any more: it is probably gone.
const FORGOTTEN: Duration = Duration::from_secs(900);

/// The calls during which the connection was lost, and those of them that wait to be made again.
#[derive(Debug, Default)]
pub(crate) struct Suspects {
    suspects: BTreeMap<Question, Suspect>,
    waiting: Vec<Waiting>,
    /// The one that was made alone last.
    alone: Option<Question>,
    /// When the runtime went away, until a call is answered that was made since.
    away: Option<Instant>,
    /// Since when it is back.
    back: Option<Instant>,
    /// How many connections were made.
    connections: usize,
    /// For how long the runtime was there before it went away, without a call that was made alone.
    was_there: VecDeque<Duration>,
    /// How many PIDs in succession were lost alone, and when the last one was.
    pids_lost: Option<(u32, Instant)>,
}

#[derive(Debug)]
struct Waiting {
    call: Call,
    since: Instant,
}

#[derive(Clone, Copy, Debug)]
struct Suspect {
    /// Beside how many others that are as young it may be made, itself included.
    beside: usize,
    /// For how long no other is to be made before and after it, once it is made alone.
    window: Duration,
    /// How often in succession the connection was lost soon after it was made alone.
    alone: u32,
    /// How little that looks like chance.
    score: f64,
    /// How often the connection was lost soon after it was made, alone or not.
    times: u32,
    /// How often the runtime went away without it since.
    without: u32,
    /// The last time that it was made alone the runtime had been there for as long as it is without it,
    /// too.
    is_in_step: bool,
    /// Its answer is needed, as far as the last lists tell.
    is_wanted: bool,
    last: Instant,
}

impl Suspect {
    fn is_made_alone(self) -> bool {
        self.beside == 1
    }

    /// For how long no other is made beside it.
    fn window(self) -> Duration {
        match self.alone {
            0 => self.window,
            _ => AT_ONCE,
        }
    }

    /// Whether so many losses hardly come together with its calls by chance.
    fn is_named(self) -> bool {
        self.score >= NAMED || self.alone >= 4
    }

    /// For how long it waits at most before no other is made until it is its turn. A runtime that goes
    /// away every few seconds would take it with it each time if it were always made last.
    fn patience(self) -> Duration {
        match self.is_in_step {
            true => Duration::ZERO,
            false => PATIENT,
        }
    }

    /// Until when it is not made.
    fn held_until(self) -> Option<Instant> {
        let before = self.alone.checked_sub(1)?;
        Some(self.last + hold(before, LONGEST_HELD))
    }
}

/// What is to be done about a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Suspicion {
    /// It is made.
    Innocent,
    /// It is made beside few others, or alone.
    Suspect,
    /// It is not made for now, and it is not sure why the connection was lost.
    Held,
    /// It is not made for now, and is named as one during which the connection is lost each time.
    Named,
}

impl Suspects {
    /// The connection was lost while these were outstanding, each of which was `made` then.
    pub(crate) fn went_away_during(&mut self, made: &[(Question, Instant)], now: Instant) {
        // Each call that is lost says so; and what is made before it is back tells nothing new, unless
        // that was waited for in vain.
        if let Some(away) = self.away
            && !made.iter().any(|(_, made)| *made >= away + AWAY)
        {
            return;
        }
        self.away = Some(now);
        let back = self.back.take();
        let was_there = back.map(|back| now.duration_since(back));
        self.suspects
            .retain(|_, suspect| now < suspect.last + FORGOTTEN);
        let is_young = |made: Instant| now < made + AT_ONCE;
        let alone = self.alone.take().filter(|alone| {
            let mut others = made.iter();
            let own = others.find(|(question, made)| question == alone && is_young(*made));
            let window = self.suspects.get(alone).map(|suspect| suspect.window());
            own.zip(window).is_some_and(|((_, own), window)| {
                let mut others = made.iter().filter(|(question, _)| question != alone);
                others.all(|(_, other)| *own >= *other + window)
            })
        });
        let is_usual = was_there.is_some_and(|was_there| self.is_usual(was_there));
        if alone.is_none() {
            self.goes_away_by_itself();
            self.was_there.extend(was_there);
            if self.was_there.len() > COMPARED {
                self.was_there.pop_front();
            }
        }
        let young = made.iter().filter(|(_, made)| is_young(*made)).count();
        for (question, made) in made {
            if !is_young(*made) {
                self.suspects.remove(question);
                continue;
            }
            let suspect = self.suspects.entry(question.clone()).or_insert(Suspect {
                beside: young,
                window: WINDOW,
                alone: 0,
                score: 0.0,
                times: 0,
                without: 0,
                is_in_step: false,
                is_wanted: true,
                last: now,
            });
            suspect.last = now;
            suspect.times += 1;
            suspect.is_wanted = true;
            if suspect.is_made_alone() {
                suspect.window = (suspect.window * 3).min(AT_ONCE);
            }
            suspect.beside = (suspect.beside.min(young) / PART).max(1);
            if alone.as_ref() == Some(question) {
                suspect.is_in_step = is_usual;
                if is_usual {
                    suspect.alone = suspect.alone.max(1);
                } else {
                    suspect.alone += 1;
                    suspect.score = (suspect.score + score(back, *made, now)).max(0.0);
                    suspect.without = 0;
                }
                if let Question::Pid(_) = question {
                    let before = self.pids_lost.map_or(0, |(before, _)| before);
                    self.pids_lost = Some((before + 1, now));
                }
            }
        }
    }

    /// Whether it was there for so long without a call that was made alone, too, again and again.
    fn is_usual(&self, time: Duration) -> bool {
        let alike = |other: &&Duration| other.abs_diff(time) <= ALIKE.max(time / 5);
        self.was_there.iter().filter(alike).count() >= 2
    }

    /// Whether PIDs may be asked for.
    pub(crate) fn may_ask_pids(&self, now: Instant) -> bool {
        let lost = self.pids_lost.filter(|(lost, _)| *lost >= PIDS_LOST);
        lost.is_none_or(|(_, last)| now >= last + PIDS_HELD)
    }

    /// So many connections have been made by now. One more that nobody has missed is of a runtime that
    /// was away while no call was outstanding.
    pub(crate) fn connected(&mut self, connections: usize, now: Instant) {
        if connections <= self.connections {
            return;
        }
        self.connections = connections;
        if self.away.is_none() {
            self.goes_away_by_itself();
            self.back = Some(now);
        }
    }

    /// It goes away without any call that was made alone. If it does so again and again, whoever is
    /// held and not named is not why: then it is made again soon.
    fn goes_away_by_itself(&mut self) {
        for suspect in self.suspects.values_mut() {
            suspect.without += 1;
            if suspect.without >= BY_ITSELF && suspect.score < NAMED {
                suspect.alone = suspect.alone.min(1);
            }
        }
    }

    /// The runtime has answered a call that was `made` then.
    pub(crate) fn answered(&mut self, question: &Question, made: Instant, now: Instant) {
        self.suspects.remove(question);
        if let Question::Pid(_) = question {
            self.pids_lost = None;
        }
        if self.away.take_if(|away| made > *away).is_some() {
            self.back = Some(now);
        }
    }

    /// The runtime is still there although a call was made alone a while ago, which may hang. Says
    /// whether it was named before.
    pub(crate) fn survived(&mut self, question: &Question) -> bool {
        let suspect = self.suspects.get(question).copied();
        let Some(suspect) = suspect.filter(|suspect| suspect.window() == AT_ONCE) else {
            return false;
        };
        self.suspects.remove(question);
        suspect.is_named()
    }

    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.suspects.is_empty()
    }

    /// Whether it may be made only to see whether the runtime answers it.
    pub(crate) fn may_be_witness(&self, question: &Question, now: Instant) -> bool {
        let suspect = self.suspects.get(question);
        suspect.is_none_or(|suspect| suspect.times == 1 && now >= suspect.last + ONCE)
    }

    /// The looks that are needed and were lost.
    fn looks(&self) -> impl Iterator<Item = &Question> {
        let wanted = self
            .suspects
            .iter()
            .filter(|(_, suspect)| suspect.is_wanted);
        let questions = wanted.map(|(question, _)| question);
        questions.filter(|question| !matches!(question, Question::Pid(_)))
    }

    /// During how many needed status calls the connection was lost, of those that are not told of
    /// otherwise.
    pub(crate) fn lost(&self, is_told: impl Fn(&Key) -> bool) -> usize {
        let looks = self.looks();
        looks.filter(|question| !is_told(&question.key())).count()
    }

    /// What they ask for.
    pub(crate) fn ids(&self) -> BTreeSet<Id> {
        let ids = self.suspects.keys().filter_map(|question| question.key().1);
        ids.collect()
    }

    /// Lists have come: of their ids these exist, and the status of some is wanted. What was seen of
    /// another is remembered, as somebody may ask for it again.
    pub(crate) fn listed(&mut self, is_wanted: &BTreeMap<Id, bool>, now: Instant) {
        self.suspects.retain(|question, suspect| {
            let listed = question.key().1.and_then(|id| is_wanted.get(&id));
            suspect.is_wanted = listed.copied().unwrap_or_default();
            now < suspect.last + FORGOTTEN && listed.is_some()
        });
    }

    /// Whether the call may be made.
    pub(crate) fn of(&self, question: &Question, now: Instant) -> Suspicion {
        let Some(suspect) = self.suspects.get(question) else {
            return Suspicion::Innocent;
        };
        let is_away = self.away.is_some_and(|away| now < away + AWAY);
        // A PID is of use, and not worth another crash.
        if matches!(question, Question::Pid(_)) && suspect.alone > 0 {
            return Suspicion::Named;
        }
        match suspect.held_until().is_some_and(|until| now < until) {
            true if suspect.is_named() => Suspicion::Named,
            true => Suspicion::Held,
            // All of them may hang, and others may show sooner that it is back.
            false if is_away => Suspicion::Held,
            false => Suspicion::Suspect,
        }
    }

    /// All that are needed. That a PID was asked for says nothing of the same call without that question.
    pub(crate) fn calls(&self) -> impl Iterator<Item = SuspectCall> {
        self.looks().filter_map(|question| {
            let (call, id) = question.key();
            Some(SuspectCall { call, id: id? })
        })
    }

    /// A call waits for its turn.
    pub(crate) fn wait(&mut self, call: Call, now: Instant) {
        self.waiting.push(Waiting { call, since: now });
    }

    /// Whether one waits.
    pub(crate) fn is_one_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Whether one has waited for long to be made alone: no other is made before it.
    pub(crate) fn wants_quiet(&self, now: Instant) -> bool {
        self.away.is_none() && self.quiet_at().is_some_and(|at| now >= at)
    }

    /// When the first one will have waited for so long, or has.
    pub(crate) fn quiet_at(&self) -> Option<Instant> {
        let times = self.waiting.iter().filter_map(|waiting| {
            let suspect = self.suspects.get(&waiting.call.question)?;
            let time = waiting.since + suspect.patience();
            suspect.is_made_alone().then_some(time)
        });
        times.min()
    }

    /// Which one may be made next, beside these that were `made`, and when.
    fn next(
        &self,
        made: &[(Question, Instant)],
        last_answer: Instant,
        now: Instant,
    ) -> Option<(usize, Instant)> {
        let youngest = made.iter().map(|(_, made)| *made).max();
        let young = made.iter().filter(|(_, made)| now < *made + AT_ONCE);
        let young = young.filter_map(|(question, made)| {
            let suspect = self.suspects.get(question)?;
            Some((*made, suspect.beside))
        });
        let (mut young, besides): (Vec<_>, Vec<_>) = young.unzip();
        young.sort_unstable();
        let beside_these = besides.into_iter().min().unwrap_or(usize::MAX);
        // Enough of them are old, or answered, before there is room again.
        let room = |beside: usize| {
            let at = young.len().checked_sub(beside.min(beside_these))?;
            Some(young[at] + AT_ONCE)
        };
        let away = self.away.map(|away| away + AWAY);
        let times = self.waiting.iter().enumerate().map(|(at, waiting)| {
            let suspect = self.suspects.get(&waiting.call.question);
            let time = match suspect {
                None => away,
                Some(suspect) if !suspect.is_made_alone() => room(suspect.beside).max(away),
                Some(suspect) => {
                    // Others are answered all the time where relists are frequent.
                    let quiet = (last_answer + QUIET).min(waiting.since + AWAY);
                    let old = youngest.map(|made| made + suspect.window());
                    old.max(away).max(Some(quiet))
                }
            };
            (at, time.unwrap_or(now))
        });
        times.min_by_key(|(_, time)| *time)
    }

    /// When the next one may be made, beside these that were `made`.
    pub(crate) fn next_at(
        &self,
        made: &[(Question, Instant)],
        last_answer: Instant,
        now: Instant,
    ) -> Option<Instant> {
        self.next(made, last_answer, now).map(|(_, at)| at)
    }

    /// Takes the one that may be made now, with the time for which no other is made beside it, unless
    /// it is answered.
    pub(crate) fn take(
        &mut self,
        made: &[(Question, Instant)],
        last_answer: Instant,
        now: Instant,
    ) -> Option<(Call, Option<Duration>)> {
        let (at, _) = self
            .next(made, last_answer, now)
            .filter(|(_, at)| now >= *at)?;
        let Waiting { call, .. } = self.waiting.remove(at);
        let suspect = self.suspects.get(&call.question).copied();
        let alone = suspect.filter(|suspect| suspect.is_made_alone());
        if alone.is_some() {
            self.alone = Some(call.question.clone());
        }
        Some((call, alone.map(Suspect::window)))
    }
}

/// How little it looks like chance that a runtime which was `back` then goes away `now`, and how soon
/// after a call was `made`.
fn score(back: Option<Instant>, made: Instant, now: Instant) -> f64 {
    let was_there = back.map(|back| made.saturating_duration_since(back));
    let was_there = was_there.unwrap_or_default().as_secs_f64().max(0.001);
    let after = now.duration_since(made).as_secs_f64().max(0.001);
    ((was_there / after).ln() - LESS).min(MOST_OF_ONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::call::Purpose;

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

        fn made(&self, made: &[(&str, u64)]) -> Vec<(Question, Instant)> {
            let made = made.iter().map(|(id, made)| (status(id), self.at(*made)));
            made.collect()
        }

        /// The connection is lost at that time while these are outstanding.
        fn lost(&mut self, at: u64, made: &[(&str, u64)]) {
            let (made, at) = (self.made(made), self.at(at));
            self.suspects.went_away_during(&made, at);
        }

        /// The runtime is back: somebody else is answered, who was asked then.
        fn back(&mut self, at: u64) {
            let at = self.at(at);
            self.suspects.answered(&status("somebody"), at, at);
        }

        fn of(&self, id: &str, at: u64) -> Suspicion {
            self.suspects.of(&status(id), self.at(at))
        }

        fn wait(&mut self, id: &str, at: u64) {
            let (question, purpose) = (status(id), Purpose::Death);
            let at = self.at(at);
            self.suspects.wait(Call { question, purpose }, at);
        }

        /// Who is made at that time beside these, and whether alone.
        fn taken(&mut self, at: u64, beside: &[(&str, u64)]) -> Vec<(Question, bool)> {
            let (mut made, now) = (self.made(beside), self.at(at));
            let mut taken = Vec::new();
            let begun = self.begun;
            while let Some((call, alone)) = self.suspects.take(&made, begun, now) {
                made.push((call.question.clone(), now));
                taken.push((call.question, alone.is_some()));
            }
            taken
        }

        /// It is made alone at that time, and the connection is lost right after it.
        fn lost_alone(&mut self, id: &str, at: u64) {
            self.back(at - 390);
            self.wait(id, at - 1);
            assert_eq!(self.taken(at, &[]), [(status(id), true)], "at {at}");
            self.lost(at + 10, &[(id, at)]);
        }

        /// It was lost twice beside others, and then alone.
        fn held(id: &str) -> Self {
            let mut case = Self::new();
            case.lost(10, &[(id, 0), ("other", 0)]);
            case.back(500);
            case.lost(600, &[(id, 550)]);
            case.lost_alone(id, 1000);
            assert_eq!(case.of(id, 1011), Suspicion::Held);
            case
        }
    }

    #[test]
    fn what_is_lost_each_time_is_held_for_longer_and_longer() {
        let mut case = Case::held("killer");
        let mut lost = 1010;
        for held in [1000, 4000, 16_000, 64_000, 256_000, 300_000, 300_000] {
            let before = match held {
                1000 => Suspicion::Held,
                _ => Suspicion::Named,
            };
            case.back(lost + 600);
            assert_eq!(case.of("killer", lost + held - 1), before);
            assert_eq!(case.of("killer", lost + held), Suspicion::Suspect);
            case.lost_alone("killer", lost + held);
            lost += held + 10;
        }
    }

    #[test]
    fn after_a_restart_few_are_made_at_a_time_and_the_others_once_these_are_old() {
        let mut case = Case::new();
        let ids: Vec<_> = (0..20).map(|id| format!("c{id}")).collect();
        let made: Vec<_> = ids.iter().map(|id| (id.as_str(), 0)).collect();
        case.lost(10, &made);
        for id in &ids {
            case.wait(id, 20);
        }
        assert_eq!(case.taken(30, &[]), [], "it may be away");
        case.back(40);
        let first = case.taken(50, &[]);
        assert_eq!(first.len(), 20 / PART);
        assert!(first.iter().all(|(_, is_alone)| !is_alone));
        let beside: Vec<_> = ids.iter().take(5).map(|id| (id.as_str(), 50)).collect();
        assert_eq!(case.taken(1049, &beside), []);
        assert_eq!(case.taken(1050, &beside).len(), 5);
        // It is one of these, whoever else is asked for meanwhile.
        let mut case = Case::new();
        case.lost(10, &made);
        case.back(500);
        let made: Vec<_> = ids.iter().map(|id| (id.as_str(), 600)).collect();
        case.lost(700, &made[..5]);
        case.back(1000);
        case.wait("c3", 1300);
        assert_eq!(case.taken(1310, &[]), [(status("c3"), true)]);
    }

    #[test]
    fn one_that_is_to_be_made_alone_waits_until_all_others_are_old_or_answered() {
        let mut case = Case::new();
        for at in [0, 1000] {
            case.lost(at + 10, &[("killer", at), ("other", at)]);
            case.back(at + 500);
        }
        case.wait("killer", 1600);
        assert!(!case.suspects.wants_quiet(case.at(2599)));
        assert!(case.suspects.wants_quiet(case.at(2600)));
        // Which was not long enough the last time.
        assert_eq!(case.taken(2600, &[("hangs", 0), ("young", 2301)]), []);
        let taken = case.taken(2600, &[("hangs", 0), ("young", 2300)]);
        assert_eq!(taken, [(status("killer"), true)]);
    }

    #[test]
    fn one_that_is_not_named_is_made_soon_again_if_the_runtime_goes_away_without_it_too() {
        let mut case = Case::held("innocent");
        case.back(1500);
        case.lost(3000, &[("other", 1600)]);
        case.back(3100);
        case.wait("innocent", 3200);
        assert_eq!(case.taken(3300, &[]), [(status("innocent"), true)]);
        // It was there for a shorter time before the call than after it.
        case.lost(3800, &[("innocent", 3300)]);
        case.back(4000);
        assert_eq!(case.of("innocent", 7700), Suspicion::Held);
        case.lost(5100, &[("other", 4050)]);
        case.back(5200);
        assert_eq!(case.of("innocent", 7700), Suspicion::Held);
        // The same if it was away while nobody called it.
        let at = case.at(5300);
        case.suspects.connected(4, at);
        assert_eq!(case.of("innocent", 5301), Suspicion::Suspect);
    }

    #[test]
    fn one_that_is_named_is_held_although_the_runtime_goes_away_without_it_too() {
        let mut case = Case::held("killer");
        case.lost_alone("killer", 3000);
        for at in [4000, 6000] {
            case.back(at);
            case.lost(at + 1100, &[("other", at + 10)]);
        }
        assert_eq!(case.of("killer", 7005), Suspicion::Named);
    }

    #[test]
    fn two_that_are_lost_alone_do_not_excuse_one_another() {
        let mut case = Case::held("one");
        case.back(1100);
        for at in [1200, 1300] {
            case.lost(at + 10, &[("two", at)]);
            case.back(at + 20);
        }
        case.lost_alone("two", 2000);
        case.lost_alone("one", 6000);
        case.lost_alone("two", 7000);
        assert_eq!(case.of("one", 9900), Suspicion::Named);
        assert_eq!(case.of("two", 9900), Suspicion::Named);
    }

    #[test]
    fn one_that_hangs_at_each_restart_is_no_suspect() {
        let mut case = Case::new();
        for at in [0, 15_000, 30_000, 45_000] {
            case.back(at);
            case.lost(at + 10_000, &[("hangs", at + 100)]);
            assert_eq!(case.of("hangs", at + 10_001), Suspicion::Innocent);
        }
        let mut case = Case::held("hangs");
        case.lost_alone("hangs", 6000);
        assert!(case.suspects.survived(&status("hangs")));
        assert_eq!(case.of("hangs", 6020), Suspicion::Innocent);
    }

    #[test]
    fn what_nobody_needs_to_know_is_not_told_and_remembered() {
        let mut case = Case::held("killer");
        case.back(1100);
        assert_eq!(case.suspects.lost(|_| false), 2);
        let now = case.at(1200);
        let ids = ["killer", "other"].map(|id| (id.into(), false));
        case.suspects.listed(&ids.into(), now);
        assert_eq!(case.suspects.lost(|_| false), 0);
        assert_eq!(case.suspects.calls().count(), 0);
        case.back(60_000);
        assert_eq!(case.of("other", 60_000), Suspicion::Suspect);
        case.lost_alone("killer", 61_000);
        assert_eq!(case.of("killer", 64_000), Suspicion::Named);
        case.suspects.listed(&BTreeMap::new(), now);
        assert_eq!(case.of("killer", 64_000), Suspicion::Innocent);
    }

    /// Which is long after the one before.
    #[test]
    fn a_pid_is_withheld_from_the_second_loss_on() {
        let mut case = Case::new();
        let pid = Question::Pid("c".into());
        for (at, before) in [(0, Suspicion::Innocent), (10_000, Suspicion::Suspect)] {
            case.back(at);
            assert_eq!(case.suspects.of(&pid, case.at(at)), before);
            if before == Suspicion::Suspect {
                case.suspects.alone = Some(pid.clone());
            }
            let made = [(pid.clone(), case.at(at + 10))];
            let lost = case.at(at + 20);
            case.suspects.went_away_during(&made, lost);
            case.back(at + 1000);
            case.back(at + 6000);
        }
        assert_eq!(case.suspects.of(&pid, case.at(90_000)), Suspicion::Named);
        assert_eq!(
            case.suspects.lost(|_| false) + case.suspects.calls().count(),
            0
        );
    }

    /// Which goes away every three seconds, whoever is called.
    #[test]
    fn one_that_is_lost_when_the_runtime_goes_away_anyway_is_not_named_and_made_first_the_next_time()
     {
        let mut case = Case::new();
        for round in 0..8u64 {
            let back = 3300 * round;
            case.back(back);
            match round {
                0 => {}
                1..=3 => case.lost(back + 3000, &[("innocent", back + 2700), ("other", back)]),
                _ => {
                    case.wait("innocent", back);
                    assert_eq!(case.suspects.wants_quiet(case.at(back)), round > 4);
                    let taken = case.taken(back + 2700, &[]);
                    assert_eq!(taken, [(status("innocent"), true)]);
                    case.lost(back + 3000, &[("innocent", back + 2700)]);
                }
            }
            assert_ne!(case.of("innocent", back + 3001), Suspicion::Named);
        }
    }

    /// It was made beside others, and nothing is known of it.
    #[test]
    fn a_pid_is_only_held_while_the_runtime_is_away() {
        let mut case = Case::new();
        let made = ["a", "b", "c", "d"].map(|id| (Question::Pid(id.into()), case.at(0)));
        case.suspects.went_away_during(&made, case.begun);
        let (pid, _) = &made[0];
        assert_eq!(case.suspects.of(pid, case.at(600)), Suspicion::Held);
        case.back(700);
        assert_eq!(case.suspects.of(pid, case.at(701)), Suspicion::Suspect);
    }

    #[test]
    fn pids_are_not_asked_for_once_two_in_succession_were_lost_alone() {
        let mut case = Case::new();
        let pid = |id: u64| Question::Pid(format!("c{id}").as_str().into());
        for id in 0..2 {
            let at = 10_000 * id;
            case.back(at);
            assert!(case.suspects.may_ask_pids(case.at(at)));
            for at in [at + 1000, at + 5000] {
                case.suspects.alone = Some(pid(id));
                let made = [(pid(id), case.at(at))];
                let lost = case.at(at + 10);
                case.suspects.went_away_during(&made, lost);
                case.back(at + 500);
            }
        }
        assert!(!case.suspects.may_ask_pids(case.at(300_000)));
        let again = case.at(316_000);
        assert!(case.suspects.may_ask_pids(again));
        case.suspects.answered(&pid(7), again, again);
        assert_eq!(case.suspects.pids_lost, None);
    }

    #[test]
    fn what_is_lost_after_nobody_was_answered_for_long_is_a_new_loss() {
        let mut case = Case::new();
        case.lost(10, &[("killer", 0), ("other", 0)]);
        case.lost(2000, &[("killer", 1990)]);
        assert_eq!(case.suspects.lost(|_| false), 2);
        for at in [3020, 7000, 12_000] {
            case.wait("killer", at);
            assert_eq!(case.taken(at, &[]), [(status("killer"), true)], "at {at}");
            case.lost(at + 10, &[("killer", at)]);
            assert_eq!(case.of("killer", at + 900), Suspicion::Held);
        }
        assert_eq!(case.of("killer", 12_010 + 15_900), Suspicion::Held);
    }

    #[test]
    fn what_is_lost_before_it_is_back_tells_nothing_new() {
        let mut case = Case::new();
        case.lost(10, &[("a", 0), ("b", 0)]);
        for at in [20, 30, 40, 50] {
            case.lost(at + 5, &[("a", at), ("b", at + 1)]);
        }
        // An answer that was on its way.
        let (asked, now) = (case.at(5), case.at(60));
        case.suspects.answered(&status("c"), asked, now);
        case.lost(70, &[("a", 60)]);
        case.wait("a", 80);
        case.back(100);
        assert_eq!(case.taken(110, &[]), [(status("a"), true)]);
    }
}
