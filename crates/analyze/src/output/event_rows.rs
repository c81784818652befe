//! Events, as `kubectl describe` and `kubectl get events` print them in all layouts.

use causes::facts::facts;

use super::{Seen, TIMED_OUT, has_any};
use crate::rules::{Event, Excuse};

pub(super) fn begins(words: &[&str]) -> bool {
    facts().begins("events", words.join(" ").as_bytes()) || is_row(words)
}

/// A row without a header, `4m12s  Warning  FailedSync  Pod/web  error …`, perhaps after a namespace.
pub(super) fn is_row(words: &[&str]) -> bool {
    let Some(at) = type_column(words).filter(|at| (1..=6).contains(at)) else {
        return false;
    };
    let is_age = words[..at].iter().any(|word| is_age(word));
    let reason = words.get(at + 1).is_some_and(|word| is_reason(word));
    is_age && reason && words.len() > at + 2
}

/// The position of the type of an event.
fn type_column(words: &[&str]) -> Option<usize> {
    let mut words = words.iter();
    words.position(|word| matches!(*word, "Normal" | "Warning"))
}

/// `Warning  FailedSync  4m12s  kubelet  error …`, as `kubectl describe` prints it.
pub(super) fn is_described(words: &[&str]) -> bool {
    let [kind, reason, age, _, ..] = words else {
        return false;
    };
    matches!(*kind, "Normal" | "Warning") && is_reason(reason) && is_age(age)
}

/// `4m12s`, `83m`, `6d3h`; `<invalid>` if the clock of the node is ahead.
pub(super) fn is_age(word: &str) -> bool {
    matches!(word, "<invalid>" | "<unknown>") || is_span(word)
}

fn is_span(word: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_digit() || b"smhdy".contains(&byte);
    word.starts_with(|first: char| first.is_ascii_digit())
        && word.ends_with(['s', 'm', 'h', 'd', 'y'])
        && word.bytes().all(is_part)
}

fn is_reason(word: &str) -> bool {
    word.starts_with(|first: char| first.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let words: Vec<&str> = text.split_ascii_whitespace().take(24).collect();
    let Some(row @ [kind, reason, ..]) = type_column(&words).map(|at| &words[at..]) else {
        return;
    };
    if *kind == "Warning" {
        seen.error(line, row[1..].join(" "));
    }
    let times = count(text).unwrap_or(1);
    let mut spans = words.iter().filter(|word| is_span(word));
    let age = spans.next().copied().unwrap_or_default();
    match *reason {
        "SystemOOM" => seen.system_ooms.event(text, age, line),
        "Starting" if text.contains("kubelet") => {
            seen.system_ooms.started(age);
            seen.kubelet_starts.add(times, line);
        }
        "Rebooted" => seen.reboots.add(times, line),
        _ => {}
    }
    if has_any(text, &["is reserved for", "name is reserved"]) {
        seen.warnings.excuse(Excuse::NameReserved);
    } else if has_any(
        text,
        &["error reserving pod name", "error reserving ctr name"],
    ) {
        seen.warnings.excuse(Excuse::NameReserved);
        seen.reserved_names.add(times, line);
    }
    // A plugin that reports what it could not reach does not hang.
    let is_unreachable = text.contains(": i/o timeout") && !text.contains("DeadlineExceeded");
    let event = Event {
        reason,
        text,
        times,
        timed_out: has_any(text, TIMED_OUT) && !is_unreachable,
        line,
    };
    event.read(seen);
}

/// `(x22 over 83m)`.
fn count(text: &str) -> Option<u64> {
    let (_, behind) = text.split_once("(x")?;
    behind.split_once(" over ")?.0.parse().ok()
}
