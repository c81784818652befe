//! Sentences between what was pasted: "`docker ps` has no response", "crictl images hangs".
//!
//! They are what somebody remembers, not what a program printed, so they never give more than a
//! weak suspicion.

use causes::finding::Confidence;

use super::prompt::{Command, without_prefixes};
use super::{Seen, has_any};
use crate::proof::Proof;

/// Nobody writes longer sentences about a command.
const MAX_LENGTH: usize = 1000;

/// Programs that ask a runtime.
const PROGRAMS: [&str; 5] = ["docker", "crictl", "ctr", "nerdctl", "podman"];

/// What people write of a command that does not return: words of their own, and phrases.
const HANGS: [&str; 6] = ["hang", "hangs", "hanging", "hanged", "hung", "unresponsive"];
const DOES_NOT_RETURN: [&str; 16] = [
    "no response",
    "no return",
    "not respond",
    "n't respond",
    "never return",
    "not return",
    "n't return",
    "never come",
    "not come back",
    "never finish",
    "not finish",
    "not complete",
    "n't complete",
    "never complete",
    "is stuck",
    "gets stuck",
];

/// What they write of one that does.
const DOES_NOT_HANG: [&str; 4] = ["n't hang", "not hang", "no longer hang", "never hang"];

/// Longer remarks behind a command are sentences of their own.
const MAX_REMARK: usize = 24;

/// Whether it is a remark that the command above it hangs: `(hangs here)`.
pub(super) fn is_remark(text: &str) -> bool {
    let is_stuck = || text.contains("stuck");
    text.len() <= MAX_REMARK && (is_said_to_hang(text) || is_stuck()) && command(text).is_none()
}

/// Takes a remark away that stands behind a command, `docker ps   (no return)`; says whether there was
/// one.
pub(super) fn take_remark(command: &mut Command) -> bool {
    let split = command.text.rsplit_once("  (");
    let Some((typed, _)) = split.filter(|(_, remark)| is_remark(remark)) else {
        return false;
    };
    command.text = typed.trim_end().to_owned();
    true
}

/// A command that was pasted without its prompt.
pub(super) fn bare_command(text: &str, line: u64) -> Option<Command> {
    let text = without_prefixes(text);
    let first = text.split_ascii_whitespace().next()?;
    PROGRAMS
        .contains(&first)
        .then(|| Command::in_prose(text, line))
}

/// Reads a line that is nothing else.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    if text.len() > MAX_LENGTH || !is_said_to_hang(text) {
        return;
    }
    for clause in clauses(text) {
        if !is_said_to_hang(clause) || has_any(clause, &DOES_NOT_HANG) {
            continue;
        }
        let Some(typed) = command(clause) else {
            continue;
        };
        let command = Command::in_prose(&typed, line);
        if let Some((cause, _)) = command.blames() {
            let says = format!("somebody writes: {}", clause.trim());
            seen.proof(Proof::new(cause, Confidence::Low, line, says));
        }
    }
}

fn is_said_to_hang(text: &str) -> bool {
    let is_around = |char: char| !char.is_ascii_alphabetic();
    let mut words = text.split_ascii_whitespace();
    let hangs = |word: &str| {
        let word = word.trim_matches(is_around);
        HANGS.iter().any(|hangs| hangs.eq_ignore_ascii_case(word))
    };
    words.any(hangs) || has_any(text, &DOES_NOT_RETURN)
}

/// Parts of a sentence that each say something of a command of their own.
fn clauses(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split([',', ';']);
    let parts = parts.flat_map(|part| part.split(". "));
    let parts = parts.flat_map(|part| part.split(" but "));
    parts.flat_map(|part| part.split(" while "))
}

/// The last command in it, from its program on, without quotes.
fn command(clause: &str) -> Option<String> {
    let is_around = |char: char| matches!(char, '`' | '\'' | '"' | '*' | '(' | ')' | ':' | '.');
    let words = clause.split_ascii_whitespace();
    let words: Vec<&str> = words.map(|word| word.trim_matches(is_around)).collect();
    let program = words.iter().rposition(|word| PROGRAMS.contains(word))?;
    Some(words[program..].join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blamed(text: &str) -> Vec<&'static str> {
        let mut seen = Seen::default();
        read(text, 1, &mut seen);
        seen.proofs.iter().map(|proof| proof.cause.id()).collect()
    }

    #[test]
    fn a_command_that_is_said_to_hang_blames_whom_it_asks() {
        for (text, cause) in [
            (
                "The cmd `docker ps` has no response.",
                "runtime-unresponsive",
            ),
            ("- crictl images hangs", "runtime-unresponsive"),
            (
                "hangs. docker inspect worker - hangs too, docker ps works",
                "container-lock",
            ),
            (
                "docker exec into it never returns, others do",
                "container-lock",
            ),
        ] {
            assert_eq!(blamed(text), [cause], "{text}");
        }
    }

    #[test]
    fn a_remark_is_short_and_says_that_something_hangs() {
        for text in [
            "(hangs here)",
            "... hangs",
            "<no response>",
            "hung",
            "its stuck...",
        ] {
            assert!(is_remark(text), "{text}");
        }
        for text in [
            "unchanged",
            "Exchange rates",
            "docker ps hangs",
            "real 0m1.2s",
        ] {
            assert!(!is_remark(text), "{text}");
        }
    }

    #[test]
    fn a_command_that_works_and_a_word_about_something_else_blame_nobody() {
        for text in [
            "crictl ps works fine",
            "docker ps does not hang any more",
            "the kubelet hangs, docker ps is fine",
            "kubectl exec hangs",
            "docker ps has changed since 1.13",
        ] {
            assert_eq!(blamed(text), [""; 0], "{text}");
        }
    }
}
