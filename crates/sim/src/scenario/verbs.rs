//! Parses the verbs: from the words of a line to its action.

use std::time::Duration;

use cri::{Rpc, Subject};
use pleg::runtime::{CallError, NoConnection};

use super::words::{Read, Word, Words, container_name};
use super::{Action, Calls, Churn, ExitReport, Lifted, Target};
use crate::faults::{Fault, Malformation};
use crate::flood::Flood;
use crate::manner::Manner;
use crate::rpc::SERVED;
use crate::stream::Serving;
use crate::stream_faults::StreamFault;

const VERBS: &str = "a verb (run, exit, restart, stop, remove, churn, slow, hang, fail, crash, \
    oversize, malformed, status-lock, lift, events, manner, stop-runtime, continue-runtime, \
    restart-runtime, end)";

const MANNERS: &str = "a runtime (cri-o, cri-dockerd, pleg-sim)";

const METHODS: &str =
    "a method of CRI (ListContainers, ContainerStatus, …), statistics or everything";

const EVENTS: &str = "a fault of events (stop, drop, duplicate, swap, delay, scatter, \
    without-status, flood, broadcast, one-reader, end-at-once, unimplemented, cut)";

const ERRORS: &str = "an error (unavailable, not-found, unimplemented, too-large, refused)";

/// By default, how long the runtime is down when it restarts.
const DEFAULT_DOWN: Duration = Duration::from_secs(1);

/// The shortest time between two restarts. A shorter one is below the resolution of the clock.
const MIN_CHURN_PERIOD: Duration = Duration::from_micros(1);

/// Parses a verb and its arguments.
pub(super) fn action(words: &mut Words<'_>) -> Read<Action> {
    let verb = words.word(VERBS)?;
    Ok(match verb.text {
        "run" => run(words)?,
        "exit" => exit(words)?,
        "restart" => Action::Restart(words.container()?, words.optional_code(1)?),
        "stop" => Action::Stop(words.pod()?),
        "remove" => remove(words)?,
        "churn" => Action::Churn(churn(words)?),
        "slow" => {
            let calls = calls(words)?;
            words.keyword("by")?;
            let min = words.duration()?;
            let slow = match words.takes("to") {
                true => Fault::Jitter(min, words.duration()?),
                false => Fault::Slow(min),
            };
            Action::Fault(calls, slow)
        }
        "hang" => Action::Fault(calls(words)?, Fault::Hang),
        "fail" => {
            let calls = calls(words)?;
            words.keyword("with")?;
            Action::Fault(calls, Fault::Fail(error(words)?))
        }
        "crash" => Action::Fault(calls(words)?, Fault::Crash(down(words)?)),
        "oversize" => Action::Fault(unary_calls(words)?, Fault::Oversize),
        "malformed" => malformed(words)?,
        "status-lock" => Action::StatusLock(words.container()?),
        "lift" => Action::Lift(lifted(words)?),
        "events" => events(words)?,
        "manner" => Action::BehaveAs(manner(words)?),
        "stop-runtime" => Action::StopRuntime,
        "continue-runtime" => Action::ContinueRuntime,
        "restart-runtime" => Action::RestartRuntime(down(words)?),
        "end" => Action::End,
        _ => return Err(verb.unexpected(VERBS)),
    })
}

/// `[for DURATION]`: how long the runtime is down.
fn down(words: &mut Words<'_>) -> Read<Duration> {
    match words.takes("for") {
        true => words.duration(),
        false => Ok(DEFAULT_DOWN),
    }
}

fn manner(words: &mut Words<'_>) -> Read<Manner> {
    let word = words.word(MANNERS)?;
    match word.text {
        "cri-o" => Ok(Manner::CriO),
        "cri-dockerd" => Ok(Manner::CriDockerd),
        "pleg-sim" => Ok(Manner::Sim),
        _ => Err(word.unexpected(MANNERS)),
    }
}

fn run(words: &mut Words<'_>) -> Read<Action> {
    let pod = words.pod()?;
    let mut containers = Vec::new();
    while let Some(word) = words.optional() {
        if word.text.contains('/') || containers.iter().any(|name| name == word.text) {
            return Err(word.unexpected("the name of another container"));
        }
        containers.push(word.text.to_owned());
    }
    Ok(Action::Run { pod, containers })
}

/// `exit POD/CONTAINER [CODE] [unlisted | reported-after DURATION]`.
fn exit(words: &mut Words<'_>) -> Read<Action> {
    let name = words.container()?;
    let is_code = words
        .peek()
        .is_some_and(|word| word != "unlisted" && word != "reported-after");
    let code = if is_code { words.optional_code(0)? } else { 0 };
    if words.takes("unlisted") {
        return Ok(Action::Exit(name, code, ExitReport::NotListed));
    }
    let report = match words.takes("reported-after") {
        true => ExitReport::CodeDelayed(words.duration()?),
        false => ExitReport::Prompt,
    };
    Ok(Action::Exit(name, code, report))
}

fn remove(words: &mut Words<'_>) -> Read<Action> {
    let expected = "POD or POD/CONTAINER";
    let word = words.word(expected)?;
    if !word.text.contains('/') {
        return Ok(Action::RemovePod(word.text.to_owned()));
    }
    let container = container_name(word.text);
    let container = container.ok_or_else(|| word.unexpected(expected))?;
    Ok(Action::RemoveContainer(container))
}

/// `5/s`, `12/m`, `off`.
fn churn(words: &mut Words<'_>) -> Read<Option<Churn>> {
    let expected = "a rate (5/s, 12/m) or off";
    let word = words.word(expected)?;
    if word.text == "off" {
        return Ok(None);
    }
    let wrong = || word.unexpected(expected);
    let (number, unit) = word.text.split_once('/').ok_or_else(wrong)?;
    let unit = match unit {
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    let period = Duration::try_from_secs_f64(unit / number).map_err(|_| wrong())?;
    if period < MIN_CHURN_PERIOD {
        return Err(wrong());
    }
    let duration = match words.takes("for") {
        true => Some(words.duration()?),
        false => None,
    };
    Ok(Some(Churn { period, duration }))
}

/// A method's name, `statistics` or `everything`, and the subject of the calls.
fn calls(words: &mut Words<'_>) -> Read<Calls> {
    let word = words.word(METHODS)?;
    calls_of(words, word)
}

fn calls_of(words: &mut Words<'_>, word: Word<'_>) -> Read<Calls> {
    let many = match word.text {
        "everything" => Some(SERVED.to_vec()),
        "statistics" => Some(
            SERVED
                .into_iter()
                .filter(|rpc| rpc.is_statistics())
                .collect(),
        ),
        _ => None,
    };
    if let Some(rpcs) = many {
        return Ok(Calls { rpcs, of: None });
    }
    let rpc: Rpc = word.text.parse().map_err(|_| word.unexpected(METHODS))?;
    if !SERVED.contains(&rpc) {
        return Err(word.wrong(format!("the simulated runtime has no method {rpc}")));
    }
    let of = match words.takes("of") {
        true => Some(of(words, rpc, word)?),
        false => None,
    };
    Ok(Calls {
        rpcs: vec![rpc],
        of,
    })
}

fn of(words: &mut Words<'_>, rpc: Rpc, method: Word<'_>) -> Read<Target> {
    let subject = rpc.subject();
    if subject == Subject::Node {
        let why = format!("expected a method that is about one id, not {}", rpc.name());
        return Err(method.wrong(why));
    }
    if words.takes("id") {
        return Ok(Target::Id(words.word("an id")?.text.to_owned()));
    }
    match subject {
        Subject::Container => Ok(Target::Container(words.container()?)),
        _ => Ok(Target::Pod(words.pod()?)),
    }
}

/// Parses calls with one answer. Only these can be oversize or malformed.
fn unary_calls(words: &mut Words<'_>) -> Read<Calls> {
    let word = words.word(METHODS)?;
    let mut calls = calls_of(words, word)?;
    calls.rpcs.retain(|rpc| *rpc != Rpc::GetContainerEvents);
    if calls.rpcs.is_empty() {
        return Err(word.unexpected("a method with one answer (for the stream see events)"));
    }
    Ok(calls)
}

fn malformed(words: &mut Words<'_>) -> Read<Action> {
    let calls = unary_calls(words)?;
    let malformation = match words.optional() {
        None => Malformation::Garbage,
        Some(word) => {
            let has_status = |rpc: &Rpc| {
                let with = [Rpc::Status, Rpc::PodSandboxStatus, Rpc::ContainerStatus];
                with.contains(rpc)
            };
            let has_id = |rpc: &Rpc| *rpc != Rpc::Status && has_status(rpc);
            match word.text {
                "without-status" if calls.rpcs.iter().all(has_status) => {
                    Malformation::WithoutStatus
                }
                "of-another" if calls.rpcs.iter().all(has_id) => Malformation::OfAnother,
                _ => {
                    let expected = "the end of the line, or without-status or of-another where \
                        there is a status";
                    return Err(word.unexpected(expected));
                }
            }
        }
    };
    Ok(Action::Fault(calls, Fault::Malformed(malformation)))
}

/// An error and its message.
fn error(words: &mut Words<'_>) -> Read<CallError> {
    let kind = words.word(ERRORS)?;
    let rest = words.rest();
    let message = |default: &str| match rest {
        "" => default.into(),
        rest => rest.into(),
    };
    Ok(match kind.text {
        "unavailable" => {
            CallError::unavailable(NoConnection::Refused, message("connection refused"))
        }
        "not-found" => CallError::NotFound(message("no such id")),
        "unimplemented" => CallError::Unimplemented(message("unknown method")),
        "too-large" => CallError::TooLarge(message("17302190 vs. 16777216")),
        "refused" => CallError::Refused(message("refused by the scenario")),
        _ => return Err(kind.unexpected(ERRORS)),
    })
}

fn lifted(words: &mut Words<'_>) -> Read<Lifted> {
    if words.takes("all") {
        return Ok(Lifted::All);
    }
    if words.takes("events") {
        return Ok(Lifted::Events);
    }
    if words.takes("status-lock") {
        return Ok(Lifted::StatusLock(words.container()?));
    }
    Ok(Lifted::Calls(calls(words)?))
}

fn events(words: &mut Words<'_>) -> Read<Action> {
    let word = words.word(EVENTS)?;
    let fault = match word.text {
        "stop" => StreamFault::Silent,
        "drop" => StreamFault::Drop {
            every: words.every()?,
        },
        "duplicate" => StreamFault::Duplicate {
            every: words.every()?,
        },
        "swap" => StreamFault::Swap,
        "delay" => {
            words.keyword("by")?;
            StreamFault::Delay(words.duration()?)
        }
        "scatter" => scatter(words)?,
        "without-status" => StreamFault::WithoutStatus,
        "flood" => return flood(words),
        "broadcast" => return Ok(Action::Serve(Serving::Broadcast)),
        "one-reader" => return Ok(Action::Serve(Serving::OneReader)),
        "end-at-once" => return Ok(Action::Serve(Serving::EndsAtOnce)),
        "unimplemented" => return Ok(Action::Serve(Serving::Unimplemented)),
        "cut" => return Ok(Action::CutStreams),
        _ => return Err(word.unexpected(EVENTS)),
    };
    Ok(Action::SetStreamFault(fault))
}

/// `N`, `N unknown-pods`, `N known`.
fn flood(words: &mut Words<'_>) -> Read<Action> {
    let events = words.positive()?.get() as usize;
    let flood = if words.takes("unknown-pods") {
        Flood::UnknownPods
    } else if words.takes("known") {
        Flood::Known
    } else {
        Flood::UnknownIds
    };
    Ok(Action::Flood(flood, events))
}

fn scatter(words: &mut Words<'_>) -> Read<StreamFault> {
    words.keyword("within")?;
    let within = words.duration()?;
    let mut seed = 0;
    if words.takes("seed") {
        let expected = "a number";
        let word = words.word(expected)?;
        seed = word.text.parse().map_err(|_| word.unexpected(expected))?;
    }
    Ok(StreamFault::Scatter { within, seed })
}
