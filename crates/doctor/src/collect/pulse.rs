//! Whether the runtime answers at all while a call hangs: what hangs in a runtime that has stopped says
//! nothing about its container.
//!
//! ```text
//!   a call hangs --> Version, once a second
//!                       \-- hangs too --> what was answered before: the status of an id, and Status;
//!                                         then that of another id, and a list
//! ```
//!
//! A call is proven to hang if another, made after its time was up, is answered. After a pause in which
//! nothing was, it has a second more: what a runtime answers then comes in any order. The runtime is
//! silent if neither `Version` nor any of the others is answered.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use cri::Rpc;
use tokio::time::Instant;

use super::calls::Question;
use super::patience::MAX_DEADLINE;
use super::targets::Target;

/// How often it is asked; and after which time of `Version` the others are.
pub(super) const INTERVAL: Duration = Duration::from_secs(1);

/// How many others are asked at once.
const AT_ONCE: usize = 2;

/// For how long `Version` and the others must not be answered: until then, they may be slow.
const SILENT_AFTER: Duration = MAX_DEADLINE;

/// If nothing was answered for longer than this, the next answer ends a pause.
const PAUSE: Duration = Duration::from_secs(2);

/// Within this time after a pause, all that has waited is answered.
const CATCHES_UP: Duration = Duration::from_secs(1);

/// Within this time after a call is overdue, it is known whether it hangs or the runtime is silent: what
/// is asked then has as long as any call, and again if it came just too early.
pub(super) const KNOWN_WITHIN: Duration = SILENT_AFTER.saturating_mul(2);

const VERSION: Question = (Rpc::Version, None);

/// The calls that are outstanding, and since when.
type Times = BTreeMap<Question, Instant>;

/// When anything was answered last, and what else to ask than `Version`.
#[derive(Default)]
pub(super) struct Pulse {
    answered: Option<Instant>,
    /// When the newest call was made that was answered.
    made: Option<Instant>,
    /// When the first answer came after the last pause.
    resumed: Option<Instant>,
    asked: Option<Instant>,
    /// Whose status was answered the quickest, and in which time; the first two.
    well: Vec<(Target, Duration)>,
    /// Which calls for the whole node were answered.
    of_node: BTreeSet<Rpc>,
    /// The calls, answered before, that are outstanding again.
    again: BTreeSet<Question>,
    /// An agent on the node waits for `Version`.
    is_version_the_agents: bool,
}

impl Pulse {
    /// An agent on the node waits for `Version`, so it is not called here.
    pub fn leave_version_to_agent(&mut self) {
        self.is_version_the_agents = true;
    }

    /// A call made then was answered, with an error or without.
    pub fn beats(&mut self, now: Instant, made: Instant) {
        if self.answered.is_none_or(|answered| now > answered + PAUSE) {
            self.resumed = Some(now);
        }
        self.answered = Some(now);
        self.made = self.made.max(Some(made));
    }

    /// The status of that one was answered in that time.
    pub fn is_well(&mut self, target: Target, took: Duration) {
        self.well.push((target, took));
        self.well.sort_by_key(|(_, took)| *took);
        self.well.truncate(2);
    }

    /// That call for the whole node was answered.
    pub fn is_answered(&mut self, call: Rpc) {
        self.of_node.insert(call);
    }

    /// That call is outstanding no longer; returns whether it was made only to see whether it is
    /// answered.
    pub fn ends(&mut self, question: &Question) -> bool {
        self.again.remove(question)
    }

    /// Whether that call is made only to see whether it is answered.
    pub fn is_again(&self, question: &Question) -> bool {
        self.again.contains(question)
    }

    /// When something was answered last.
    pub fn answered(&self) -> Option<Instant> {
        self.answered
    }

    /// Whether others show that a call made then hangs, which has so much time.
    pub fn proves(&self, now: Instant, since: Instant, longest: Duration) -> bool {
        let is_late = self.made.is_some_and(|made| made >= since + longest);
        is_late
            && self
                .resumed
                .is_some_and(|resumed| now >= resumed + CATCHES_UP)
    }

    /// When to ask next, while calls are outstanding that began then and have time until then: once a
    /// second, and when the time of one is up.
    pub fn next(&self, calls: impl Iterator<Item = (Instant, Instant)>) -> Option<Instant> {
        let calls: Vec<_> = calls.collect();
        let oldest = calls.iter().map(|(since, _)| *since).min()?;
        let regular = oldest.max(self.asked.unwrap_or(oldest)) + INTERVAL;
        let ends = calls.iter().map(|(_, end)| *end);
        let ends = ends.filter(|end| self.asked.is_none_or(|asked| asked < *end));
        ends.chain([regular]).min()
    }

    /// What to ask now, so many calls at most.
    pub fn ask(
        &mut self,
        now: Instant,
        outstanding: &Times,
        most: usize,
    ) -> Vec<(Rpc, Option<Target>)> {
        self.asked = Some(now);
        let mut asked = match outstanding.get(&VERSION) {
            Some(since) if now < *since + INTERVAL => Vec::new(),
            None if !self.is_version_the_agents => vec![(Rpc::Version, None)],
            _ => match self.others() {
                others if others.is_empty() => vec![(Rpc::Status, None)],
                others => others,
            },
        };
        asked.retain(|call| !outstanding.contains_key(&question(call)));
        asked.truncate(most.min(AT_ONCE));
        self.again.extend(
            asked
                .iter()
                .map(question)
                .filter(|question| *question != VERSION),
        );
        asked
    }

    /// Whether `Version` is outstanding, here or in an agent.
    pub fn is_waiting_for_version(&self, outstanding: &Times) -> bool {
        self.is_version_the_agents || outstanding.contains_key(&VERSION)
    }

    /// Whether neither `Version` nor any of the others has been answered for long enough, nor
    /// anything else.
    pub fn is_silent(&self, now: Instant, outstanding: &Times) -> bool {
        let hangs = |since: &Instant| {
            let since = self
                .answered
                .map_or(*since, |answered| answered.max(*since));
            now >= since + SILENT_AFTER
        };
        let is_version_hung = match outstanding.get(&VERSION) {
            Some(since) => hangs(since),
            None => self.is_version_the_agents,
        };
        // If nothing was answered before, whatever is outstanding shows it.
        let is_any_known = !self.others().is_empty();
        let others = outstanding
            .iter()
            .filter(|(question, _)| match is_any_known {
                true => self.is_again(question),
                false => **question != VERSION,
            });
        let mut others = others.map(|(_, since)| since).peekable();
        is_version_hung && others.peek().is_some() && others.all(hangs)
    }

    /// Whether others are answered, although `Version` hangs.
    pub fn answers_besides_version(&self, now: Instant, outstanding: &Times) -> bool {
        let is_hung = match outstanding.get(&VERSION) {
            Some(since) => self.proves(now, *since, MAX_DEADLINE),
            None => self.is_version_the_agents,
        };
        is_hung
            && self
                .answered
                .is_some_and(|answered| now < answered + SILENT_AFTER)
    }

    /// What was answered before, and is again if the runtime is not silent. Each of them may hang for a
    /// reason of its own: first an id and `Status`; if neither is answered, another id and a list.
    fn others(&self) -> Vec<(Rpc, Option<Target>)> {
        let ids = self.well.iter();
        let mut ids = ids.map(|(target, _)| (target.call, Some(target.clone())));
        let of_node = |call| self.of_node.contains(&call).then_some((call, None));
        let (id, other_id) = (ids.next(), ids.next());
        let calls = [
            id,
            of_node(Rpc::Status),
            other_id,
            of_node(Rpc::ListPodSandbox),
        ];
        calls.into_iter().flatten().collect()
    }
}

fn question((call, target): &(Rpc, Option<Target>)) -> Question {
    (*call, target.as_ref().map(|target| target.id.clone()))
}

#[cfg(test)]
mod tests {
    use pleg::model::id::Id;

    use super::*;

    type Made = (Rpc, Option<&'static str>, u64);

    /// Calls that were made so many seconds after the begin.
    fn made(begin: Instant, calls: &[Made]) -> Times {
        let calls = calls.iter().map(|(call, id, at)| {
            let since = begin + Duration::from_secs(*at);
            ((*call, id.map(Id::from)), since)
        });
        calls.collect()
    }

    /// With `Status` and an id that have been answered, that one last.
    fn answered(at: Instant) -> Pulse {
        let mut pulse = Pulse::default();
        pulse.is_answered(Rpc::Status);
        let target = |id: &str| Target {
            call: Rpc::ContainerStatus,
            id: Id::from(id),
            pod: None,
            container: None,
            guessed: false,
        };
        pulse.is_well(target("well"), Duration::from_millis(1));
        pulse.is_well(target("slow"), Duration::from_secs(1));
        pulse.beats(at, at);
        pulse
    }

    const ALL: [Made; 3] = [
        (Rpc::Version, None, 1),
        (Rpc::ContainerStatus, Some("well"), 2),
        (Rpc::Status, None, 2),
    ];

    #[test]
    fn it_is_silent_if_all_that_is_asked_again_hangs_and_nothing_is_answered() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let mut pulse = answered(begin);
        assert!(
            !pulse.is_silent(at(60), &made(begin, &ALL[..1])),
            "nothing else was asked"
        );
        pulse.ask(at(2), &made(begin, &ALL[..1]), 2);
        assert!(pulse.is_silent(at(8), &made(begin, &ALL)));
        assert!(
            !pulse.is_silent(at(7), &made(begin, &ALL)),
            "it may be slow"
        );
        assert!(
            !pulse.is_silent(at(60), &made(begin, &ALL[1..])),
            "Version was answered"
        );
        pulse.beats(at(4), at(3));
        assert!(!pulse.is_silent(at(9), &made(begin, &ALL)));
        assert!(pulse.is_silent(at(10), &made(begin, &ALL)));
    }

    #[test]
    fn of_a_runtime_that_has_never_answered_whatever_is_outstanding_shows_that_it_is_silent() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let pulse = Pulse::default();
        let lists = [(Rpc::Version, None, 0), (Rpc::ListContainers, None, 2)];
        assert!(pulse.is_silent(at(8), &made(begin, &lists)));
        assert!(!pulse.is_silent(at(60), &made(begin, &lists[..1])));
        let mut pulse = pulse;
        let asked = pulse.ask(at(1), &made(begin, &lists[..1]), 8);
        assert_eq!(asked, [(Rpc::Status, None)]);
    }

    #[test]
    fn what_hangs_is_proven_by_an_answer_after_its_time_and_by_nothing_else() {
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let six = Duration::from_secs(6);
        assert!(!answered(at(5)).proves(at(60), begin, six));
        assert!(answered(at(6)).proves(at(7), begin, six));
        let version = made(begin, &ALL[..1]);
        assert!(!answered(at(6)).answers_besides_version(at(8), &version));
        assert!(answered(at(7)).answers_besides_version(at(8), &version));
        assert!(!answered(at(7)).answers_besides_version(at(13), &version));
    }

    #[test]
    fn after_a_pause_an_answer_proves_nothing_until_the_others_had_time_to_come() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let six = Duration::from_secs(6);
        let mut pulse = answered(begin);
        // Made in the pause, which held it up as well.
        pulse.beats(at(6400), at(3000));
        assert!(!pulse.proves(at(9000), begin, six));
        pulse.beats(at(6500), at(6450));
        assert!(!pulse.proves(at(7300), begin, six));
        assert!(pulse.proves(at(7400), begin, six));
        // Without a pause, nothing has to catch up.
        let mut pulse = answered(begin);
        for second in 1..=6 {
            pulse.beats(at(second * 1000 + 1), at(second * 1000));
        }
        assert!(pulse.proves(at(6002), begin, six));
    }

    #[test]
    fn version_is_asked_first_and_the_others_where_it_hangs() {
        let begin = Instant::now();
        let mut pulse = answered(begin);
        let mut asked = |seconds, calls: &[Made], most| {
            let now = begin + Duration::from_secs(seconds);
            let asked = pulse.ask(now, &made(begin, calls), most);
            asked.into_iter().map(|(call, _)| call).collect::<Vec<_>>()
        };
        assert_eq!(asked(1, &[], 8), [Rpc::Version]);
        assert_eq!(asked(1, &ALL[..1], 8), []);
        assert_eq!(asked(2, &ALL[..1], 8), [Rpc::ContainerStatus, Rpc::Status]);
        assert_eq!(asked(2, &ALL[..1], 1), [Rpc::ContainerStatus]);
        // Another id, which took longer.
        assert_eq!(asked(3, &ALL, 8), [Rpc::ContainerStatus]);
        let other = (Rpc::ContainerStatus, Some("slow"), 3);
        assert_eq!(asked(4, &[&ALL[..], &[other]].concat(), 8), []);
    }

    #[test]
    fn it_is_asked_once_a_second_and_when_the_time_of_a_call_is_up() {
        let begin = Instant::now();
        let at = |millis| begin + Duration::from_millis(millis);
        let mut pulse = Pulse::default();
        let call = (begin, at(6000));
        assert_eq!(pulse.next([call].into_iter()), Some(at(1000)));
        assert_eq!(pulse.next(std::iter::empty()), None);
        pulse.ask(at(5400), &Times::new(), 8);
        assert_eq!(pulse.next([call].into_iter()), Some(at(6000)));
        pulse.ask(at(6000), &Times::new(), 8);
        assert_eq!(pulse.next([call].into_iter()), Some(at(7000)));
    }
}
