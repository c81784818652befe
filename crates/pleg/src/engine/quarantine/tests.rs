use std::time::Duration;

use super::*;
use crate::engine::call::Purpose;

const SECOND: Duration = Duration::from_secs(1);

fn status(id: &str) -> Request {
    Request::Container(id.into())
}

fn pid(id: &str) -> Request {
    Request::Pid(id.into())
}

struct Case {
    quarantine: Quarantine,
    begun: Instant,
}

impl Case {
    fn new() -> Self {
        Self {
            quarantine: Quarantine::default(),
            begun: Instant::now(),
        }
    }

    /// Each of these was lost twice in succession, and the runtime has been back since the time 100 ms.
    fn quarantined(requests: &[Request]) -> Self {
        let mut case = Self::new();
        for sent in [0, 50] {
            for request in requests {
                case.lost(request, sent, sent + 10);
            }
        }
        case.back(100);
        case
    }

    fn at(&self, millis: u64) -> Instant {
        self.begun + Duration::from_millis(millis)
    }

    fn lost(&mut self, request: &Request, sent: u64, now: u64) {
        let (sent, now) = (self.at(sent), self.at(now));
        self.quarantine.lost(request, sent, now);
    }

    fn answered(&mut self, request: &Request, sent: u64) {
        let sent = self.at(sent);
        self.quarantine.answered(request, sent);
    }

    /// The runtime is back: another call, which was `sent` then, is answered.
    fn back(&mut self, sent: u64) {
        self.answered(&status("other"), sent);
    }

    fn admit(&self, request: &Request, at: u64) -> Admission {
        self.quarantine.admit(request, self.at(at))
    }

    fn wait(&mut self, request: &Request) {
        let (request, purpose) = (request.clone(), Purpose::Death);
        self.quarantine.wait(Call { request, purpose });
    }

    fn next(&mut self, at: u64) -> Option<Request> {
        let call = self.quarantine.take_next(self.at(at));
        call.map(|call| call.request)
    }

    /// The connection is lost 10 ms after the call was sent alone, and the runtime is back 20 ms
    /// later.
    fn lost_alone(&mut self, request: &Request, at: u64) {
        self.wait(request);
        assert_eq!(self.next(at).as_ref(), Some(request), "at {at}");
        self.lost(request, at, at + 10);
        self.back(at + 30);
    }
}

#[test]
fn a_call_that_was_lost_once_is_sent_again_as_usual() {
    let mut case = Case::new();
    case.lost(&status("a"), 0, 10);
    assert_eq!(case.admit(&status("a"), 11), Admission::Send);
    assert!(case.quarantine.can_be_witness(&status("a")));
    assert_eq!(case.quarantine.calls().count(), 1);
    case.lost(&status("a"), 11, 12);
    assert_eq!(case.admit(&status("a"), 13), Admission::Wait);
    assert!(!case.quarantine.can_be_witness(&status("a")));
    case.answered(&status("a"), 20);
    assert_eq!(case.admit(&status("a"), 21), Admission::Send);
    assert_eq!(case.quarantine.calls().count(), 0);
}

#[test]
fn one_quarantined_call_is_outstanding_and_the_next_is_sent_as_soon_as_it_is_answered() {
    let (a, b) = (status("a"), status("b"));
    let mut case = Case::quarantined(&[a.clone(), b.clone()]);
    case.wait(&a);
    case.wait(&b);
    assert_eq!(case.next(200), Some(a.clone()));
    assert_eq!(case.next(200), None);
    case.answered(&a, 200);
    assert_eq!(case.next(201), Some(b.clone()));
    // A call that could not be sent takes no turn.
    case.quarantine.not_sent(&b);
    case.wait(&b);
    assert_eq!(case.next(202), Some(b));
}

#[test]
fn a_quarantined_call_that_is_outstanding_for_a_second_is_an_ordinary_call() {
    let (a, b) = (status("a"), status("b"));
    let mut case = Case::quarantined(&[a.clone(), b.clone()]);
    case.wait(&a);
    case.wait(&b);
    assert_eq!(case.next(200), Some(a.clone()));
    assert_eq!(case.quarantine.alarm(), Some(case.at(1200)));
    let before = case.at(1199);
    assert_eq!(case.quarantine.take_survivor(before), None);
    let survived = case.at(1200);
    assert_eq!(case.quarantine.take_survivor(survived), Some(a.clone()));
    assert_eq!(case.admit(&a, 1201), Admission::Send);
    assert_eq!(case.next(1200), Some(b));
    case.lost(&a, 200, 1300);
    assert_eq!(case.admit(&a, 1301), Admission::Send);
}

#[test]
fn a_call_that_is_lost_alone_each_time_is_withheld_with_growing_pauses() {
    let killer = status("killer");
    let mut case = Case::quarantined(std::slice::from_ref(&killer));
    case.lost_alone(&killer, 200);
    assert_eq!(case.admit(&killer, 231), Admission::Wait);
    let mut sent = 1000;
    for withheld in [1000, 4000, 16_000, 64_000, 256_000, 300_000, 300_000] {
        case.lost_alone(&killer, sent);
        sent += 10 + withheld;
        assert_eq!(case.admit(&killer, sent - 1), Admission::Withhold);
        assert_eq!(case.admit(&killer, sent), Admission::Wait);
    }
    case.answered(&killer, sent);
    assert_eq!(case.admit(&killer, sent + 1), Admission::Send);
}

/// A runtime that restarts often loses a different call each time.
#[test]
fn a_call_that_was_lost_alone_is_sent_after_all_others() {
    let ids = ["a", "b", "c"].map(status);
    let mut case = Case::quarantined(&ids);
    let mut lost = Vec::new();
    for pass in 0..4 {
        let at = 1000 * pass + 200;
        for id in &ids {
            case.wait(id);
        }
        let next = case.next(at).unwrap();
        case.lost(&next, at, at + 10);
        case.back(at + 20);
        case.quarantine.waiting.clear();
        lost.push(next);
    }
    assert_eq!(lost, ["a", "b", "c", "a"].map(status));
}

#[test]
fn quarantined_calls_wait_for_the_runtime_for_three_seconds_at_most() {
    let a = status("a");
    let mut case = Case::quarantined(std::slice::from_ref(&a));
    case.lost(&Request::Version, 150, 200);
    case.wait(&a);
    // This call was sent before the loss.
    case.back(199);
    assert_eq!(case.next(300), None);
    assert_eq!(case.quarantine.alarm(), Some(case.at(3200)));
    assert_eq!(case.next(3200), Some(a.clone()));
    case.lost(&a, 3200, 3210);
    case.wait(&a);
    case.back(3300);
    assert_eq!(case.next(3301), Some(a));
}

#[test]
fn a_call_that_is_stuck_before_each_restart_is_never_quarantined() {
    let mut case = Case::new();
    for at in [0, 15_000, 30_000] {
        case.lost(&status("stuck"), at + 100, at + 10_000);
        assert_eq!(case.admit(&status("stuck"), at + 10_001), Admission::Send);
    }
}

#[test]
fn a_pid_call_is_withheld_once_it_was_lost_alone() {
    let mut case = Case::quarantined(&[pid("c")]);
    case.lost_alone(&pid("c"), 200);
    assert_eq!(case.admit(&pid("c"), 900_000), Admission::Withhold);
    assert_eq!(case.admit(&status("c"), 231), Admission::Send);
    assert_eq!(case.quarantine.calls().count(), 0);
}

#[test]
fn all_pid_calls_are_withheld_once_two_in_succession_were_lost_alone() {
    let pids = ["a", "b", "c"].map(pid);
    let mut case = Case::quarantined(&pids);
    case.lost_alone(&pids[0], 200);
    assert!(case.quarantine.admits_pids(case.at(231)));
    case.lost_alone(&pids[1], 300);
    assert!(!case.quarantine.admits_pids(case.at(1309)));
    assert!(case.quarantine.admits_pids(case.at(1310)));
    case.lost_alone(&pids[2], 1400);
    assert!(!case.quarantine.admits_pids(case.at(5409)));
    case.answered(&pid("d"), 5000);
    assert!(case.quarantine.admits_pids(case.at(5001)));
}

#[test]
fn a_call_is_remembered_while_its_id_is_listed() {
    let killer = status("killer");
    let mut case = Case::quarantined(std::slice::from_ref(&killer));
    case.quarantine.keep(&["killer".into()].into());
    assert_eq!(case.quarantine.calls().count(), 1);
    assert_eq!(case.admit(&killer, 200), Admission::Wait);
    case.quarantine.keep(&BTreeSet::new());
    assert_eq!(case.quarantine.calls().count(), 0);
    assert_eq!(case.admit(&killer, 201), Admission::Send);
}

/// The number of calls does not matter: a runtime that is back answers each within milliseconds.
#[test]
fn sixty_quarantined_calls_are_sent_without_a_pause() {
    let ids: Vec<_> = (0..60).map(|id| status(&format!("c{id}"))).collect();
    let mut case = Case::quarantined(&ids);
    for id in &ids {
        case.wait(id);
    }
    for at in 0..60 {
        let next = case.next(200 + at).unwrap();
        case.answered(&next, 200 + at);
    }
    let end = case.begun + SECOND;
    assert_eq!(
        case.quarantine.take_next(end).map(|call| call.request),
        None
    );
    assert_eq!(case.quarantine.calls().count(), 0);
}
