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
fn one_that_is_lost_when_the_runtime_goes_away_anyway_is_not_named_and_made_first_the_next_time() {
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
