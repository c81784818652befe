use std::collections::BTreeSet;
use std::time::Duration;

use tokio::time::{advance, timeout};

use super::*;
use crate::model::wall_time::Moment;
use crate::out::failure::InspectError;

fn uid() -> PodUid {
    "u".into()
}

fn status() -> PodStatus {
    PodStatus {
        name: "p".into(),
        ..PodStatus::unknown(uid())
    }
}

fn moment(instant: Instant) -> Moment {
    Moment {
        instant,
        wall: crate::model::wall_time::WallTime::from_unix_nanos(1).unwrap(),
    }
}

/// A pass with both lists.
fn pass(begun: Instant, pending: BTreeSet<PodUid>) -> Confirmation {
    Confirmation {
        begun: moment(begun),
        pending,
        unseen: BTreeSet::new(),
        sees_new_pods: true,
        sees_new_containers: true,
    }
}

/// An inspection caused by lists that were requested at `begun`.
fn listed(begun: Instant) -> Inspection {
    Inspection {
        begun: moment(begun),
        confirmed: Confirmed::Seen(moment(begun)),
        listed: Some(begun),
        differs: false,
        lacks_listed: false,
        disproved: false,
    }
}

/// An inspection that began at `begun` because of a hint, after lists that were requested at
/// `lists`.
fn hinted(begun: Instant, lists: Instant) -> Inspection {
    Inspection {
        listed: Some(lists),
        ..listed(begun)
    }
}

/// Whether the cache has something newer than `time` without waiting.
async fn has_newer(cache: &Cache, time: Instant) -> bool {
    let uid = uid();
    let newer = cache.newer_than(&uid, time);
    timeout(Duration::from_millis(1), newer).await.is_ok()
}

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn before_the_first_relist_no_entry_is_newer_than_any_time() {
    let (_writer, cache) = cache(RunClock::default());
    assert_eq!(cache.get(&uid()), Entry::unknown(&uid()));
    assert!(!has_newer(&cache, Instant::now()).await);
}

#[tokio::test(start_paused = true)]
async fn an_entry_is_as_new_as_its_inspection_or_the_last_relist() {
    let (writer, cache) = cache(RunClock::default());
    let first = Instant::now();
    writer.set(&uid(), status(), listed(first + SECOND));
    assert!(has_newer(&cache, first).await);
    assert!(
        !has_newer(&cache, first + SECOND).await,
        "an equal time is not newer"
    );
    writer.confirm(pass(first + SECOND * 2, BTreeSet::new()));
    assert!(has_newer(&cache, first + SECOND).await);
    assert!(!has_newer(&cache, first + SECOND * 2).await);
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_the_runtime_does_not_have_is_as_new_as_the_last_relist() {
    let (writer, cache) = cache(RunClock::default());
    let requested = Instant::now();
    writer.confirm(pass(requested + SECOND, BTreeSet::new()));
    let entry = cache.newer_than(&uid(), requested).await.unwrap();
    let unknown = Entry {
        complete_as_of: Some(requested + SECOND),
        ..Entry::unknown(&uid())
    };
    assert_eq!(entry, unknown);
}

#[tokio::test(start_paused = true)]
async fn no_relist_confirms_a_pod_that_differs_from_its_entry() {
    let (writer, cache) = cache(RunClock::default());
    let requested = Instant::now();
    writer.confirm(pass(requested + SECOND, [uid()].into()));
    assert!(!has_newer(&cache, requested).await);
    writer.set(&uid(), status(), listed(requested + SECOND));
    assert!(has_newer(&cache, requested).await);
}

#[tokio::test(start_paused = true)]
async fn a_late_pass_confirms_no_pod_that_a_newer_pass_has_not_observed() {
    let (writer, cache) = cache(RunClock::default());
    let requested = Instant::now();
    writer.confirm(pass(requested + SECOND * 2, [uid()].into()));
    writer.set(&uid(), status(), listed(requested));
    writer.confirm(pass(requested + SECOND, BTreeSet::new()));
    assert!(!has_newer(&cache, requested).await);
}

#[tokio::test(start_paused = true)]
async fn a_pass_without_a_list_of_sandboxes_does_not_show_that_a_pod_does_not_exist() {
    let (writer, cache) = cache(RunClock::default());
    let requested = Instant::now();
    let sweep = Confirmation {
        sees_new_pods: false,
        sees_new_containers: false,
        ..pass(requested + SECOND, BTreeSet::new())
    };
    writer.confirm(sweep);
    assert!(!has_newer(&cache, requested).await);
    writer.set(&uid(), status(), listed(requested));
    assert!(
        has_newer(&cache, requested).await,
        "known pods were observed"
    );
    assert_eq!(cache.get(&uid()).complete_as_of, Some(requested));
    writer.confirm(pass(requested + SECOND * 2, BTreeSet::new()));
    let complete_as_of = cache.get(&uid()).complete_as_of;
    assert_eq!(complete_as_of, Some(requested + SECOND * 2));
}

#[tokio::test(start_paused = true)]
async fn an_inspection_that_follows_a_hint_does_not_suffice_before_the_next_list() {
    let (writer, cache) = cache(RunClock::default());
    let start = Instant::now();
    writer.confirm(pass(start, BTreeSet::new()));
    let begun = start + SECOND * 2;
    writer.set(&uid(), status(), hinted(begun, start));
    assert!(!has_newer(&cache, start + SECOND).await);
    let entry = cache.get(&uid());
    let times = (entry.modified, entry.complete_as_of);
    assert_eq!(times, (Some(begun), Some(start)));
    // Lists show something new, which is inspected.
    let lists = start + SECOND * 3;
    writer.confirm(pass(lists, [uid()].into()));
    assert!(!has_newer(&cache, start + SECOND).await);
    let again = Inspection {
        differs: true,
        ..listed(lists)
    };
    writer.set(&uid(), status(), again);
    assert!(has_newer(&cache, start + SECOND).await);
    assert!(!has_newer(&cache, lists).await);
}

#[tokio::test(start_paused = true)]
async fn only_an_inspection_completes_a_status_that_lacks_what_is_listed() {
    let (writer, cache) = cache(RunClock::default());
    let start = Instant::now();
    let complete_as_of = || cache.get(&uid()).complete_as_of;
    writer.set(&uid(), status(), listed(start));
    // Another inspection of the same lists.
    let lacking = Inspection {
        lacks_listed: true,
        ..listed(start)
    };
    writer.set(&uid(), status(), lacking);
    assert_eq!(complete_as_of(), None);
    writer.confirm(pass(start + SECOND, BTreeSet::new()));
    assert_eq!(complete_as_of(), None);
    assert!(
        has_newer(&cache, start).await,
        "no reader waits for the next list"
    );
    writer.set(&uid(), status(), listed(start + SECOND));
    assert_eq!(complete_as_of(), Some(start + SECOND));
    writer.confirm(pass(start + SECOND * 2, BTreeSet::new()));
    assert_eq!(complete_as_of(), Some(start + SECOND * 2));
}

#[tokio::test(start_paused = true)]
async fn a_pass_that_did_not_observe_a_pod_does_not_complete_a_later_inspection() {
    let (writer, cache) = cache(RunClock::default());
    let start = Instant::now();
    let complete_as_of = || cache.get(&uid()).complete_as_of;
    writer.set(&uid(), status(), listed(start));
    let sweep = start + SECOND;
    let missed = Confirmation {
        unseen: [uid()].into(),
        ..pass(sweep, [uid()].into())
    };
    writer.confirm(missed);
    writer.set(&uid(), status(), hinted(start + SECOND * 2, start));
    assert_eq!(complete_as_of(), Some(start));
    // A pass that does not show what is new does not complete the status either.
    let blind = Confirmation {
        sees_new_containers: false,
        ..pass(start + SECOND * 3, BTreeSet::new())
    };
    writer.confirm(blind);
    assert_eq!(complete_as_of(), Some(start));
    writer.confirm(pass(start + SECOND * 4, BTreeSet::new()));
    assert_eq!(complete_as_of(), Some(start + SECOND * 4));
}

#[tokio::test(start_paused = true)]
async fn a_pod_that_differs_is_as_of_the_last_pass_that_confirmed_it() {
    let (writer, cache) = cache(RunClock::default());
    let start = Instant::now();
    let as_of = || cache.get(&uid()).as_of.map(|as_of| as_of.instant);
    writer.set(&uid(), status(), listed(start));
    writer.confirm(pass(start + SECOND, BTreeSet::new()));
    writer.confirm(pass(start + SECOND * 2, [uid()].into()));
    assert_eq!(as_of(), Some(start + SECOND));
    writer.confirm(pass(start + SECOND * 3, [uid()].into()));
    assert_eq!(as_of(), Some(start + SECOND));
    writer.set(&uid(), status(), listed(start + SECOND * 3));
    assert_eq!(as_of(), Some(start + SECOND * 3));
}

#[tokio::test(start_paused = true)]
async fn a_waiter_is_released_by_an_inspection_an_error_a_relist_and_a_removal() {
    let failed = || InspectError::Overdue {
        call: crate::runtime::Rpc::ContainerStatus,
        id: "c".into(),
    };
    type Release = fn(&CacheWriter, Instant, InspectError);
    let releases: [Release; 4] = [
        |writer, now, _| drop(writer.set(&uid(), status(), listed(now))),
        |writer, now, error| writer.set_error(&uid(), error, now),
        |writer, now, _| writer.confirm(pass(now, BTreeSet::new())),
        |writer, now, _| {
            writer.confirm(pass(now, BTreeSet::new()));
            writer.remove(&uid());
        },
    ];
    for release in releases {
        let (writer, cache) = cache(RunClock::default());
        writer.set(&uid(), status(), listed(Instant::now()));
        let requested = Instant::now();
        let waiter = tokio::spawn(async move { cache.newer_than(&uid(), requested).await });
        advance(SECOND).await;
        assert!(!waiter.is_finished());
        release(&writer, Instant::now(), failed());
        assert!(waiter.await.unwrap().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_waiter_can_have_a_deadline_and_is_released_when_the_writer_is_dropped() {
    let (writer, cache) = cache(RunClock::default());
    let now = Instant::now();
    assert!(
        timeout(SECOND, cache.newer_than(&uid(), now))
            .await
            .is_err()
    );
    drop(writer);
    assert_eq!(cache.newer_than(&uid(), now).await, Err(Stopped));
}

#[tokio::test(start_paused = true)]
async fn times_never_go_backwards() {
    let (writer, cache) = cache(RunClock::default());
    let start = Instant::now();
    writer.set(&uid(), status(), listed(start + SECOND * 5));
    writer.set(&uid(), status(), listed(start + SECOND));
    assert_eq!(cache.get(&uid()).modified, Some(start + SECOND * 5));
    writer.confirm(pass(start + SECOND * 9, BTreeSet::new()));
    writer.confirm(pass(start + SECOND * 2, BTreeSet::new()));
    assert!(has_newer(&cache, start + SECOND * 8).await);
}

#[tokio::test(start_paused = true)]
async fn an_error_is_kept_beside_the_last_good_status_until_the_next_inspection() {
    let (writer, cache) = cache(RunClock::default());
    let error = InspectError::Overdue {
        call: crate::runtime::Rpc::PodSandboxStatus,
        id: "s".into(),
    };
    writer.set(&uid(), status(), listed(Instant::now()));
    writer.set_error(&uid(), error.clone(), Instant::now());
    let entry = cache.get(&uid());
    assert_eq!((entry.error, &*entry.status.name), (Some(error), "p"));
    writer.set(&uid(), status(), listed(Instant::now()));
    assert_eq!(cache.get(&uid()).error, None);
    writer.remove(&uid());
    assert_eq!(cache.get(&uid()), Entry::unknown(&uid()));
}
