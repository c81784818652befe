//! Tries all short worlds: a guard in front of a runtime with up to three containers, and every order of up
//! to eight steps. Checks each list that the guard answers.
//!
//! A step is one of these:
//! - A caller requests a complete list, a status or a change.
//! - A container exits.
//! - A fault begins or ends.
//! - One hanging call is answered, with the state as of its request or as of now.
//! - The guard is killed and restarted from its saved records.
//! - One second or five seconds pass.
//!
//! A call that does not hang is answered within a millisecond. An alarm of the guard may be late by 0.1 s.
//! Each [`Alphabet`] lists the steps that are tried together, the starts, and the number of steps. A start
//! that is `guarding` has taken three steps already: lists hang, one is requested, and five seconds later
//! the guard has answered it.
//!
//! These worlds are not tried:
//! - steps after which the guard can answer no list
//! - the second of two orders of independent steps at the same time
//! - worlds that differ only by the exchange of equal containers
//! - more than three faults at once, more than two outstanding lists of one kind, more than one other
//!   outstanding call of the same method and id, and more than two waits in succession
//!
//! For each list that the guard answers:
//! - It omits no existing id that the kubelet or a complete list knew before the request.
//! - It shows no state that the runtime has not reported, and no state of a container before the last
//!   reported one.
//! - It is not older than an answer that any caller received before the request: an exited container is not
//!   running, a started one is not created, a removed one is not listed. After a restart this holds for the
//!   saved records.
//! - Another call of this guard for the same kind was sent within the second before the request or later,
//!   and was answered. The same holds for each id in the list after the last change of the id, unless the
//!   status of the id is outstanding or failing.
//!
//! Each call ends exactly once, no later than with the runtime's answer, and within four seconds after the
//! last fault. No list is refused. A change that the guard completed is done. The guard itself sends no call
//! while another of its calls with the same method and id is outstanding.
//!
//! `GUARD_MODEL_STEPS=n` tries `n` more steps in each world, or fewer if it is negative. A failure prints the
//! steps and a replay.

#![allow(
    clippy::print_stderr,
    reason = "a failing world is printed, and how many were tried"
)]

mod records;
mod runtime;
mod steps;
mod world;

use cri::Rpc;
use guard::Kind;
use tokio::time::Instant;

use runtime::{CREATED, Fault, RUNNING, Runtime};
use steps::{Alphabet, Start, Step};
use world::World;

const RUNS: Option<i32> = Some(RUNNING);
const IS_CREATED: Option<i32> = Some(CREATED);

/// The number of steps that a `guarding` start has taken.
const STEPS_TO_GUARDING: usize = 3;

const fn start(steps: usize, pods: &'static [&'static [Option<i32>]]) -> Start {
    Start {
        pods,
        steps,
        host_reports: true,
        guards: None,
    }
}

const fn guarding(kind: Kind, start: Start) -> Start {
    Start {
        guards: Some(kind),
        steps: start.steps - STEPS_TO_GUARDING,
        ..start
    }
}

const fn without_host(start: Start) -> Start {
    Start {
        host_reports: false,
        ..start
    }
}

const ONE: &[&[Option<i32>]] = &[&[RUNS]];
const TWO: &[&[Option<i32>]] = &[&[RUNS], &[RUNS]];
const THREE: &[&[Option<i32>]] = &[&[RUNS], &[RUNS], &[RUNS]];
const TWO_IN_ONE: &[&[Option<i32>]] = &[&[RUNS, RUNS], &[RUNS]];
const CHANGING: &[&[Option<i32>]] = &[&[RUNS], &[IS_CREATED], &[None]];

fn faults_of_statuses(runtime: &Runtime) -> Vec<Fault> {
    let kind = Kind::Container;
    let each = runtime.items(kind).map(Fault::StatusOf);
    let all = [Fault::Lists(kind), Fault::Statuses(kind)];
    all.into_iter().chain(each).collect()
}

fn faults_of_all(runtime: &Runtime) -> Vec<Fault> {
    let kind = Kind::Container;
    let each = runtime.items(kind);
    let each = each.flat_map(|item| [Fault::Fails(item), Fault::StatusOf(item)]);
    let all = [Fault::Lists(kind), Fault::All];
    all.into_iter().chain(each).collect()
}

fn faults_of_changes(runtime: &Runtime) -> Vec<Fault> {
    let each = runtime.items(Kind::Container).map(Fault::StatusOf);
    let all = [Fault::Lists(Kind::Container), Fault::Changes];
    all.into_iter().chain(each).collect()
}

fn faults_of_sandboxes(runtime: &Runtime) -> Vec<Fault> {
    let kind = Kind::Sandbox;
    let each = runtime.items(kind).map(Fault::StatusOf);
    let all = [Fault::Lists(kind), Fault::Statuses(kind)];
    all.into_iter().chain(each).collect()
}

const STATUSES_HANG: Alphabet = Alphabet {
    name: "statuses that hang",
    starts: &[
        start(8, ONE),
        start(8, TWO),
        guarding(Kind::Container, start(8, THREE)),
        guarding(Kind::Container, start(8, TWO_IN_ONE)),
    ],
    lists: &[Kind::Container],
    statuses: &[Kind::Container],
    changes: &[],
    faults: faults_of_statuses,
    restarts: false,
};

const STATUSES_FAIL: Alphabet = Alphabet {
    name: "failing statuses and a stopped runtime",
    starts: &[start(7, TWO), guarding(Kind::Container, start(8, THREE))],
    lists: &[Kind::Container],
    statuses: &[],
    changes: &[],
    faults: faults_of_all,
    restarts: true,
};

const CHANGES: Alphabet = Alphabet {
    name: "changes and restarts",
    starts: &[
        guarding(Kind::Container, start(8, CHANGING)),
        guarding(Kind::Container, without_host(start(8, CHANGING))),
    ],
    lists: &[Kind::Container],
    statuses: &[],
    changes: &[
        Rpc::CreateContainer,
        Rpc::StartContainer,
        Rpc::StopContainer,
        Rpc::RemoveContainer,
    ],
    faults: faults_of_changes,
    restarts: true,
};

const SANDBOXES: Alphabet = Alphabet {
    name: "sandboxes",
    starts: &[
        start(6, TWO),
        guarding(Kind::Sandbox, start(8, TWO)),
        guarding(Kind::Sandbox, start(8, TWO_IN_ONE)),
    ],
    lists: &[Kind::Sandbox, Kind::Container],
    statuses: &[Kind::Sandbox],
    changes: &[Rpc::StopPodSandbox, Rpc::RemovePodSandbox],
    faults: faults_of_sandboxes,
    restarts: true,
};

/// The numbers of worlds, steps and checked lists.
#[derive(Default)]
struct Counts {
    worlds: u64,
    steps: u64,
    lists: u64,
}

struct Wrong {
    steps: Vec<Step>,
    what: String,
}

/// Tries all steps that can follow these.
fn explore(
    alphabet: &Alphabet,
    world: &World,
    path: &mut Vec<Step>,
    left: usize,
    counts: &mut Counts,
) -> Result<(), Wrong> {
    let steps = alphabet.next(world, path, left);
    counts.worlds += u64::from(steps.is_empty());
    for step in steps {
        let mut next = world.clone();
        next.checked = 0;
        path.push(step);
        next.take(step).map_err(|what| Wrong {
            steps: path.clone(),
            what,
        })?;
        counts.steps += 1;
        counts.lists += next.checked;
        explore(alphabet, &next, path, left - 1, counts)?;
        path.pop();
    }
    Ok(())
}

fn begin(start: &Start, now: Instant, speaks: bool) -> World {
    let mut world = World::new(start, now);
    world.speaks = speaks;
    let lists = [Kind::Sandbox, Kind::Container].map(Step::List);
    let steps = lists.into_iter().chain([Step::Wait(steps::SHORT)]);
    for step in steps {
        world.take(step).expect("nothing hangs yet");
    }
    if let Some(kind) = start.guards {
        world.begin_guarding(kind).expect("the guard answers lists");
        assert!(world.checked > 0, "a list was answered");
    }
    world
}

/// Prints the replay of a world.
fn replay(start: &Start, now: Instant, wrong: &Wrong) {
    let mut world = begin(start, now, true);
    for step in &wrong.steps {
        if world.take(*step).is_err() {
            break;
        }
    }
    eprintln!("{}", wrong.what);
}

/// Tries all worlds of an alphabet.
fn try_all(alphabet: &Alphabet) {
    let more = std::env::var("GUARD_MODEL_STEPS").ok();
    let more: isize = more.map_or(0, |text| text.parse().expect("a number of steps"));
    let now = Instant::now();
    let mut counts = Counts::default();
    for start in alphabet.starts {
        let world = begin(start, now, false);
        let left = start.steps.saturating_add_signed(more);
        if let Err(wrong) = explore(alphabet, &world, &mut Vec::new(), left, &mut counts) {
            replay(start, now, &wrong);
            panic!("after {:?}: {}", wrong.steps, wrong.what);
        }
    }
    let Counts {
        worlds,
        steps,
        lists,
    } = counts;
    let name = alphabet.name;
    eprintln!("{name}: {worlds} worlds, {steps} steps, {lists} lists answered by the guard");
    let is_enough = worlds > 10_000 && lists > 10_000;
    assert!(is_enough || more < 0, "little was tried");
}

/// Enforces G2.
#[test]
fn each_list_that_the_guard_answers_is_true_while_statuses_hang() {
    try_all(&STATUSES_HANG);
}

/// Enforces G2.
#[test]
fn each_list_that_the_guard_answers_is_true_while_statuses_fail_or_the_runtime_is_stopped() {
    try_all(&STATUSES_FAIL);
}

/// Enforces G2, G9.
#[test]
fn each_list_that_the_guard_answers_is_true_through_changes_and_restarts() {
    try_all(&CHANGES);
}

/// Enforces G2.
#[test]
fn each_list_of_sandboxes_that_the_guard_answers_is_true() {
    try_all(&SANDBOXES);
}
