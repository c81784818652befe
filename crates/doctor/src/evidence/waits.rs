//! Threads that are blocked in the kernel, and lines of the kernel's log, by the cause that they show.

use analyze::kernel::cause_of_long_wait;
use analyze::line::rcu::{begins_stall, shows_pause};
use analyze::rules::{LineSearch, Rules};
use causes::Cause;
use causes::finding::Confidence;

use super::phrases::MAX_EXAMPLES;
use crate::facts::NodeFacts;
use crate::facts::host::{KernelLine, Process, Thread};

/// A thread that did not run between the two samples.
pub(crate) struct Wait<'a> {
    pub(crate) process: &'a Process,
    thread: &'a Thread,
    pub(crate) function: &'a str,
    pub(crate) confidence: Confidence,
}

impl Wait<'_> {
    fn says(&self) -> String {
        let process = self.process.label();
        match self.thread.tid {
            tid if tid == self.process.pid => blocked_in(&process, self.function),
            tid => blocked_in(&format!("{process}, thread {tid}"), self.function),
        }
    }
}

/// The evidence that a process or thread is blocked.
pub(crate) fn blocked_in(name: &str, function: &str) -> String {
    format!("{name} waits in {function} and did not run between two samples")
}

/// The evidence for the first of these threads, and how many there are.
pub(crate) fn examples(waits: &[Wait]) -> Vec<String> {
    let first = waits.iter().take(MAX_EXAMPLES);
    let mut said: Vec<String> = first.map(Wait::says).collect();
    if waits.len() > MAX_EXAMPLES {
        said.push(format!("{} blocked threads in total", waits.len()));
    }
    said
}

/// Threads that are blocked in a function that shows this cause, those of processes that serve
/// containers first.
pub(crate) fn waits(facts: &NodeFacts, cause: Cause) -> Vec<Wait<'_>> {
    let blocked = facts.host.blocked_threads();
    let waits = blocked.filter_map(|(process, thread)| {
        let evidence = thread.functions().filter_map(|function| {
            let (shown, confidence) = cause_of_long_wait(function)?;
            Some((function, shown, confidence))
        });
        // In a stack with several known functions, the one with the highest confidence counts.
        let (function, shown, confidence) =
            evidence.max_by_key(|(_, _, confidence)| *confidence)?;
        (shown == cause).then_some(Wait {
            process,
            thread,
            function,
            confidence,
        })
    });
    let mut waits: Vec<Wait> = waits.collect();
    waits.sort_by_key(|wait| !wait.process.serves_containers());
    waits
}

/// Why evidence may be missing: a thread is blocked in an unknown function, because only root can read
/// where the processes of other users wait.
pub(crate) fn unseen(facts: &NodeFacts) -> Option<String> {
    let mut blocked = facts.host.blocked_threads();
    let (process, _) = blocked.find(|(_, thread)| thread.functions().next().is_none())?;
    let label = process.label();
    Some(format!(
        "{label} is blocked in the kernel; the function could not be read"
    ))
}

/// How old a message may be. Older ones are about faults that are over, or that have other symptoms.
const RECENT_SECONDS: f64 = 15.0 * 60.0;

/// A line of the kernel's log that shows a cause.
pub(crate) struct Said<'a> {
    pub(crate) line: &'a KernelLine,
    pub(crate) confidence: Confidence,
}

impl Said<'_> {
    pub(crate) fn says(&self) -> String {
        let KernelLine { seconds, text } = self.line;
        format!("kernel log, {seconds:.0} s after boot: {text}")
    }
}

/// The recent lines of the kernel's log that show this cause.
pub(crate) fn kernel_lines(facts: &NodeFacts, cause: Cause) -> Vec<Said<'_>> {
    let lines: Vec<_> = facts.host.kernel_lines_of_last(RECENT_SECONDS).collect();
    // How long a stall was is shown only by a later line.
    let begins_pause = |at: usize| {
        let mut later = lines[at + 1..].iter().map(|line| line.text.as_bytes());
        begins_stall(lines[at].text.as_bytes())
            && later
                .find(|line| begins_stall(line) || shows_pause(line))
                .is_some_and(shows_pause)
    };
    let said = lines.iter().enumerate().filter_map(|(at, line)| {
        let found = LineSearch::active().find(line.text.as_bytes());
        let rules = found
            .rules
            .iter()
            .map(|index| &Rules::active().lines[*index]);
        let of_cause = rules.filter(|of| of.cause == cause);
        let confidence = of_cause.map(|of| of.rule.confidence).max()?;
        (!begins_pause(at)).then_some(Said { line, confidence })
    });
    said.collect()
}

/// The first of these lines, with the highest confidence of all.
pub(crate) fn kernel_says(facts: &NodeFacts, cause: Cause) -> Option<(Confidence, Vec<String>)> {
    let said = kernel_lines(facts, cause);
    let confidence = said.iter().map(|said| said.confidence).max()?;
    let first = said.iter().take(MAX_EXAMPLES).map(Said::says);
    Some((confidence, first.collect()))
}
