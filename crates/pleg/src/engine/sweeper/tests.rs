use std::sync::Arc;

use base::ledger::Places;

use super::*;
use crate::model::id::PodRef;
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

/// A sweep beside a list of sandboxes: it has requested a container, and waits for a sandbox that
/// an inspection has requested.
fn waiting(ledger: &mut Ledger, start: Instant) -> (Sweeper, Key) {
    let pod = pod();
    let sandbox = Request::Sandbox("s".into());
    ledger.begin(sandbox.about(None, Some(&pod.pod)), start);
    let mut sweeper = Sweeper::new(SECOND, start);
    sweeper.sandbox_status_received(true, true);
    let missing = PerList {
        sandboxes: false,
        containers: true,
    };
    let now = Moment {
        instant: start + SECOND,
        wall: WallTime::from_unix_nanos(1).unwrap(),
    };
    sweeper.begin(missing, [&pod].into_iter(), false, ledger, now);
    sweeper.list_answered(List::Sandboxes, now.instant);
    let (call, _) = sweeper.next_call(ledger, now.instant).unwrap();
    let requested = call.request.key();
    assert_eq!(requested.0, Rpc::ContainerStatus);
    sweeper.answered(&requested, Some(&pod.pod.uid), Outcome::Known, now.instant);
    assert!(sweeper.complete(ledger).is_none());
    (sweeper, sandbox.key())
}

#[test]
fn an_answer_to_an_inspection_serves_a_sweep_as_of_its_request() {
    let start = Instant::now();
    let mut ledger = Ledger::new(Places::default(), start);
    let (mut sweeper, sandbox) = waiting(&mut ledger, start);
    let answered_at = start + SECOND * 2;
    ledger.answered(&sandbox, answered_at);
    sweeper.answered(&sandbox, Some(&"u".into()), Outcome::Known, answered_at);
    let swept = sweeper.complete(&ledger).unwrap();
    assert_eq!(
        swept.begun.instant, start,
        "as of the request of the inspection"
    );
    assert!(swept.unobserved.is_empty() && swept.sees_new_containers);
}

#[test]
fn a_sandbox_that_an_inspection_did_not_find_is_unobserved_by_a_sweep() {
    let start = Instant::now();
    let mut ledger = Ledger::new(Places::default(), start);
    let (mut sweeper, sandbox) = waiting(&mut ledger, start);
    let answered_at = start + SECOND * 2;
    let about = ledger.answered(&sandbox, answered_at).unwrap();
    let uid = about.pod.unwrap().uid;
    sweeper.answered(&sandbox, Some(&uid), Outcome::FirstNotFound, answered_at);
    let swept = sweeper.complete(&ledger).unwrap();
    assert_eq!(swept.unobserved, BTreeSet::from([uid]));
}
