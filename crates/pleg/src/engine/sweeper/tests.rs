use base::ledger::Places;

use super::*;
use crate::model::listed::{ContainerState, ListedContainer};
use crate::model::wall_time::WallTime;
use crate::runtime::Rpc;

const SECOND: Duration = Duration::from_secs(1);

fn pod() -> ListedPod {
    let pod = PodRef {
        uid: "u".into(),
        namespace: "default".into(),
        name: "p".into(),
    };
    let sandbox = ListedSandbox {
        id: "s".into(),
        pod: Some(pod.clone()),
        state: SandboxState::Ready,
        attempt: 0,
        created_at: None,
    };
    let container = ListedContainer {
        id: "c".into(),
        sandbox_id: "s".into(),
        pod: Some(pod.clone()),
        name: "app".into(),
        state: ContainerState::Running,
        attempt: 0,
        created_at: None,
    };
    ListedPod {
        pod,
        sandboxes: vec![Arc::new(sandbox)],
        containers: vec![Arc::new(container)],
    }
}

/// A sweep beside a list of sandboxes has asked for a container, and waits for a sandbox that
/// an inspection asks for.
fn waiting(ledger: &mut Ledger, start: Instant) -> (Sweeper, Key) {
    let pod = pod();
    let sandbox = Question::Sandbox("s".into());
    ledger.begin(about(&sandbox, None, Some(&pod.pod)), start);
    let mut sweeper = Sweeper::new(SECOND, start);
    sweeper.sandbox_told_containers(true, true);
    let missing = Missing {
        sandboxes: false,
        containers: true,
    };
    let now = Moment {
        instant: start + SECOND,
        wall: WallTime::from_unix_nanos(1).unwrap(),
    };
    sweeper.begin(
        missing,
        Some(List::Sandboxes),
        [&pod].into_iter(),
        false,
        ledger,
        now,
    );
    sweeper.list_answered(List::Sandboxes, now.instant);
    let (call, _) = sweeper.next_call(ledger, now.instant).unwrap();
    let asked = call.question.key();
    assert_eq!(asked.0, Rpc::ContainerStatus);
    sweeper.answered(&asked, Some(&pod.pod.uid), Heard::Known, now.instant);
    assert!(sweeper.complete(ledger).is_none());
    (sweeper, sandbox.key())
}

#[test]
fn what_an_inspection_was_told_a_sweep_that_waits_for_it_has_heard() {
    let start = Instant::now();
    let mut ledger = Ledger::new(Places::default(), start);
    let (mut sweeper, sandbox) = waiting(&mut ledger, start);
    ledger.answered(&sandbox, start + SECOND * 2);
    let swept = sweeper.complete(&ledger).unwrap();
    assert_eq!(
        swept.begun.instant, start,
        "as of when the inspection asked"
    );
    assert!(swept.unseen.is_empty() && swept.sees_new_containers);
}

#[test]
fn of_a_sandbox_that_an_inspection_did_not_find_a_sweep_has_heard_nothing() {
    let start = Instant::now();
    let mut ledger = Ledger::new(Places::default(), start);
    let (mut sweeper, sandbox) = waiting(&mut ledger, start);
    let about = ledger.answered(&sandbox, start + SECOND * 2).unwrap();
    let uid = about.pod.unwrap().uid;
    sweeper.heard_elsewhere(&sandbox, &uid, Heard::Lost);
    let swept = sweeper.complete(&ledger).unwrap();
    assert_eq!(swept.unseen, BTreeSet::from([uid]));
}
