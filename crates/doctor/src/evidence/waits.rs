//! Who is blocked in the kernel, by what that proves.

use analyze::kernel::cause_of_function;
use analyze::signs::Signs;
use causes::Cause;
use causes::finding::Confidence;

use crate::evidence::who::EXAMPLES;
use crate::facts::NodeFacts;
use crate::facts::host::{KernelLine, Process, Thread};

/// A thread that did not move between the looks.
pub(crate) struct Wait<'a> {
    pub(crate) process: &'a Process,
    pub(crate) thread: &'a Thread,
    pub(crate) function: &'a str,
    pub(crate) confidence: Confidence,
}

impl Wait<'_> {
    pub(crate) fn says(&self) -> String {
        let who = self.process.label();
        let thread = match self.thread.tid == self.process.pid {
            true => String::new(),
            false => format!(", thread {}", self.thread.tid),
        };
        format!(
            "{who}{thread} waits in {} and did not run between two looks",
            self.function
        )
    }
}

/// Threads that wait in a function which proves this cause.
pub(crate) fn waits(facts: &NodeFacts, cause: Cause) -> Vec<Wait<'_>> {
    let waits = facts
        .host
        .blocked_threads()
        .filter_map(|(process, thread)| {
            let proofs = thread.functions().filter_map(|function| {
                let (proved, confidence) = cause_of_function(function)?;
                Some((function, proved, confidence))
            });
            // A stack through several layers is called by the surest of them.
            let (function, proved, confidence) =
                proofs.max_by_key(|(_, _, confidence)| *confidence)?;
            (proved == cause).then_some(Wait {
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

/// Who is blocked without our seeing in what: only root is told where others wait.
pub(crate) fn unseen(facts: &NodeFacts) -> Option<String> {
    let mut blocked = facts.host.blocked_threads();
    let (process, _) = blocked.find(|(_, thread)| thread.functions().next().is_none())?;
    Some(format!(
        "{} is blocked in the kernel, and where could not be read",
        process.label()
    ))
}

/// What happened longer ago is over, or has other signs.
const LAST: f64 = 15.0 * 60.0;

/// A line that tells of a cause.
pub(crate) struct Said<'a> {
    pub(crate) line: &'a KernelLine,
    pub(crate) confidence: Confidence,
}

impl Said<'_> {
    pub(crate) fn says(&self) -> String {
        let KernelLine { seconds, text } = self.line;
        format!("kernel, {seconds:.0} s after its start: {text}")
    }
}

/// All that the kernel has lately said about this cause.
pub(crate) fn kernel_lines(facts: &NodeFacts, cause: Cause) -> Vec<Said<'_>> {
    let signs = Signs::new();
    let lines = facts.host.kernel_lines_of_last(LAST);
    let said = lines.filter_map(|line| {
        let found = signs.find(line.text.as_bytes());
        let told = found.signs.iter().map(|index| signs.sign(*index));
        let confidence = told
            .filter(|sign| sign.cause == cause)
            .map(|sign| sign.confidence)
            .max()?;
        Some(Said { line, confidence })
    });
    said.collect()
}

/// The first of these lines, with how sure all of them make it.
pub(crate) fn kernel_says(facts: &NodeFacts, cause: Cause) -> Option<(Confidence, Vec<String>)> {
    let said = kernel_lines(facts, cause);
    let sure = said.iter().map(|said| said.confidence).max()?;
    Some((sure, said.iter().take(EXAMPLES).map(Said::says).collect()))
}
