//! All short worlds, one after the other: a guard before a runtime of up to three containers, every
//! order of up to eight steps, and the check of each list that the guard answers.
//!
//! A step is one of: a caller requests a list (of all), a status or a change; a container exits;
//! a fault begins or ends; one call that hangs is answered, by what there was when it was sent or
//! by what there is now; the guard is killed and started again from the records that it saved last;
//! one second or five seconds pass. What does not hang is answered within a millisecond, and an
//! alarm of the guard may be late by 0.1 s. Each [`Alphabet`] lists which steps are tried together,
//! from where and how many. Starts that are `guarding` have taken the first three steps: the lists
//! hang, one is requested, and five seconds later the guard has answered it.
//!
//! Not tried are: steps after which no list can be answered any more; the second of two orders of
//! steps at one time that do not concern one another; the exchange of containers that are alike;
//! more than three faults at once, more than two lists of a kind or one other call of a method and
//! an id that callers wait for at once, more than two waits in a row.
//!
//! Of each list that the guard answers:
//! - it omits no live id that the kubelet or a complete list knew before it was requested;
//! - it shows no state that the runtime has not reported, and of a container none before the last
//!   one that was reported;
//! - nothing in it is older than an answer that any caller was given before it was requested: an
//!   exited container does not run again, a started one is not created, a removed one is not there.
//!   After a restart this holds for what the saved records contain;
//! - another call of this guard for its kind was sent since one second before it was requested, and
//!   was answered; and so was one for each id in it after the last change of the id, or the status
//!   of the id is outstanding or fails.
//!
//! And of each call: it ends exactly once, no later than with the runtime's answer, and within four
//! seconds after the last fault; no list is refused; a change that the guard says to be done is
//! done; and the guard itself sends none while another one of it with the same method and id is
//! outstanding.
//!
//! `GUARD_MODEL_STEPS=n` tries `n` more steps in each world, or fewer if it is negative. A failure
//! prints the steps, and what happened.

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

/// How many steps are taken before a world whose start answers lists already.
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

/// How much was tried.
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

/// Tries all that can happen after these steps.
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

/// Prints what happened in a world.
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
