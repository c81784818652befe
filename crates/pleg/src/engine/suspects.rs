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
    fn new(beside: usize, now: Instant) -> Self {
        Self {
            beside,
            window: WINDOW,
            alone: 0,
            score: 0.0,
            times: 0,
            without: 0,
            is_in_step: false,
            is_wanted: true,
            last: now,
        }
    }

    /// The connection was lost soon after so many were made, itself included.
    fn lost(&mut self, young: usize, now: Instant) {
        self.last = now;
        self.times += 1;
        self.is_wanted = true;
        if self.is_made_alone() {
            self.window = (self.window * 3).min(AT_ONCE);
        }
        self.beside = (self.beside.min(young) / PART).max(1);
    }

    /// That was when it was made alone. A runtime that had been there for as long as it is without it
    /// went away by itself.
    fn lost_alone(&mut self, score: f64, is_usual: bool) {
        self.is_in_step = is_usual;
        if is_usual {
            self.alone = self.alone.max(1);
        } else {
            self.alone += 1;
            self.score = (self.score + score).max(0.0);
            self.without = 0;
        }
    }

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
        let alone = self.lost_alone(made, now);
        let is_usual = was_there.is_some_and(|was_there| self.is_usual(was_there));
        if alone.is_none() {
            self.goes_away_by_itself();
            self.was_there.extend(was_there);
            if self.was_there.len() > COMPARED {
                self.was_there.pop_front();
            }
        }
        let young = made.iter().filter(|(_, made)| is_young(*made, now)).count();
        for (question, made) in made {
            if !is_young(*made, now) {
                self.suspects.remove(question);
                continue;
            }
            let suspects = self.suspects.entry(question.clone());
            let suspect = suspects.or_insert_with(|| Suspect::new(young, now));
            suspect.lost(young, now);
            if alone.as_ref() != Some(question) {
                continue;
            }
            suspect.lost_alone(score(back, *made, now), is_usual);
            if let Question::Pid(_) = question {
                let before = self.pids_lost.map_or(0, |(before, _)| before);
                self.pids_lost = Some((before + 1, now));
            }
        }
    }

    /// The one that was made alone, if it is lost now and no other was made soon before or after it.
    fn lost_alone(&mut self, made: &[(Question, Instant)], now: Instant) -> Option<Question> {
        let alone = self.alone.take()?;
        let window = self.suspects.get(&alone)?.window();
        let mut own = made.iter().filter(|(question, _)| *question == alone);
        let (_, own) = own.find(|(_, made)| is_young(*made, now))?;
        let mut others = made.iter().filter(|(question, _)| *question != alone);
        others
            .all(|(_, other)| *own >= *other + window)
            .then_some(alone)
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

    /// Whether it may be made only to see whether the runtime answers it. One that is withheld for now
    /// is no witness: it would be chosen again and again.
    pub(crate) fn may_be_witness(&self, question: &Question, now: Instant) -> bool {
        let suspect = self.suspects.get(question);
        match self.of(question, now) {
            Suspicion::Innocent => true,
            Suspicion::Suspect => {
                suspect.is_some_and(|suspect| suspect.times == 1 && now >= suspect.last + ONCE)
            }
            Suspicion::Held | Suspicion::Named => false,
        }
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

/// A crash that this call was the reason for may be what happens now.
fn is_young(made: Instant, now: Instant) -> bool {
    now < made + AT_ONCE
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
mod tests;
