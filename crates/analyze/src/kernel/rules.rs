//! What a kernel stack shows, by the functions in which its task waits.

use causes::Cause;
use causes::facts::facts;
use causes::finding::{Confidence, Culprit};
use causes::versions::kernel_faults;
use serde::Deserialize;

use super::KernelStack;
use crate::evidence::Evidence;
use crate::rules::{CauseRule, Rules, Texts, is_like};
use crate::table::TableRow;

/// A rule about the functions in which a blocked task waits.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelStackRule {
    /// The task waits in one of these functions; `nfs_` stands for all functions that begin with it. If
    /// rules match several functions of a stack, the innermost one counts.
    pub(crate) functions: Texts,
    /// The rule counts only if no other one matches, because tasks wait in these functions for many reasons.
    #[serde(default)]
    weak: bool,
    /// Whether a name that `ps` has cut does not match.
    #[serde(default)]
    whole: bool,
    /// Tasks are often there for a moment, so without a duration the confidence is at most medium.
    #[serde(default)]
    momentary: bool,
    /// A sleeping task counts too, not only a blocked one.
    #[serde(default)]
    pub(crate) asleep: bool,
    /// Patterns for the name of the task; empty for any task.
    #[serde(default)]
    pub(crate) processes: Texts,
    /// One of these functions is in the stack too; empty for any stack.
    #[serde(default)]
    pub(crate) under: Texts,
    /// The minimum time for which the kernel reports the task as blocked.
    blocked_seconds: Option<u64>,
    confidence: Confidence,
    /// What a finding says in place of the title; `{task}`, `{long}` and `{function}` are filled in.
    headline: Option<String>,
}

impl KernelStackRule {
    /// Whether the stack fulfils all conditions except for the function.
    fn holds(&self, stack: &KernelStack) -> bool {
        let process = stack.process.as_deref().unwrap_or_default();
        let is_called = |function: &String| stack.calls(function);
        (self.processes.is_empty() || self.processes.iter().any(|name| is_like(process, name)))
            && (self.under.is_empty() || self.under.iter().any(is_called))
            && (self.blocked_seconds.is_none() || stack.blocked_seconds >= self.blocked_seconds)
    }

    /// How sure the rule is about this stack.
    fn confidence_of(&self, stack: &KernelStack) -> Confidence {
        match self.momentary && stack.blocked_seconds.is_none() {
            true => self.confidence.min(Confidence::Medium),
            false => self.confidence,
        }
    }
}

/// A FUSE server waits in this function for its next request. That blocks no other task.
const SERVER_IDLES: &str = "fuse_dev_do_read";

/// Everything that is looked for in a stack.
#[cfg(test)]
pub(crate) fn searched_texts() -> impl Iterator<Item = &'static str> {
    let rules = Rules::active().kernel_stacks.iter();
    let functions = rules.flat_map(|of| of.rule.functions.iter());
    functions.chain(&facts().kernel_locks).map(String::as_str)
}

/// The minimum length of a name that `ps` may have cut: a shorter one could be any function.
const MIN_CUT: usize = 5;

/// How many bytes a name and a rule's function have in common, and the rule's minimum blocked time.
type Common = (usize, Option<u64>);

/// The rule whose function has the most in common with this name, and its function. Of several such rules,
/// the one with the longest minimum blocked time.
fn entry(
    name: &str,
    weak: bool,
    stack: &KernelStack,
) -> Option<(&'static str, &'static CauseRule<KernelStackRule>)> {
    let rules = Rules::active().kernel_stacks.iter();
    let rules = rules.filter(|of| of.rule.weak == weak && of.rule.holds(stack));
    let common = |of: &'static CauseRule<KernelStackRule>, function: &'static str| {
        let is_cut = !of.rule.whole && name.len() >= MIN_CUT && function.starts_with(name);
        let is_it = name.starts_with(function) || is_cut;
        is_it.then(|| (function.len().min(name.len()), of.rule.blocked_seconds))
    };
    let mut best: Option<(Common, &str, &CauseRule<KernelStackRule>)> = None;
    for of in rules {
        for function in of.rule.functions.iter() {
            let common = common(of, function);
            if common > best.map(|(most, ..)| most) {
                best = common.map(|most| (most, function.as_str(), of));
            }
        }
    }
    best.map(|(_, function, of)| (function, of))
}

/// The rule for this name; a weak rule only if no other rule matches.
fn of_name(name: &str, stack: &KernelStack) -> Option<&'static CauseRule<KernelStackRule>> {
    let found = entry(name, false, stack).or_else(|| entry(name, true, stack));
    found.map(|(_, of)| of)
}

/// What a wait in this function shows, if it was seen at one moment.
pub fn cause_of_function(name: &str) -> Option<(Cause, Confidence)> {
    cause_in(name, &KernelStack::default(), true)
}

/// What a wait in this function shows about the task of this stack, which is blocked or else asleep.
pub fn cause_in(name: &str, stack: &KernelStack, is_blocked: bool) -> Option<(Cause, Confidence)> {
    let CauseRule { cause, rule, .. } =
        of_name(name, stack).filter(|of| is_blocked || of.rule.asleep)?;
    Some((*cause, rule.confidence_of(stack)))
}

/// What a long wait in this function shows.
pub fn cause_of_long_wait(name: &str) -> Option<(Cause, Confidence)> {
    let of = of_name(name, &KernelStack::default())?;
    Some((of.cause, of.rule.confidence))
}

/// The evidence in a stack; empty if no rule matches.
pub fn evidence(stack: &KernelStack) -> Vec<Evidence> {
    let mut evidence = match entry_of(stack) {
        Some((function, of)) => vec![of_function(stack, function, of)],
        None => row(stack).map_or_else(Vec::new, |row| Rules::active().evidence(&row)),
    };
    // The release of the kernel counts only if the stack shows a known fault of this release.
    if let Some(fault) = known_fault(stack) {
        let shown = evidence.first();
        let cause = shown.map_or("", |evidence| evidence.cause.id());
        let confidence = shown.map_or(Confidence::Low, |evidence| evidence.confidence);
        let says = shown.map_or_else(|| waits(stack, ""), |evidence| evidence.says.clone());
        let row = TableRow::new("kernel-faults", stack.line).text("shown", cause);
        let row = row.text("confidence", confidence.as_str());
        let row = row.text("text", &*format!("{says}{fault}"));
        let row = row.process(stack.process.as_deref(), stack.pid);
        evidence.extend(Rules::active().evidence(&row));
    }
    evidence
}

fn entry_of(stack: &KernelStack) -> Option<(&'static str, &'static CauseRule<KernelStackRule>)> {
    if stack.is_running || has_crashed(stack) || stack.calls(SERVER_IDLES) {
        return None;
    }
    let innermost = |weak| {
        let mut functions = stack.functions.iter();
        functions.find_map(|name| entry(name, weak, stack))
    };
    // A task that waits for a lock of the kernel itself is no evidence against the file system around it.
    innermost(false).or_else(|| innermost(true).filter(|_| kernel_lock(stack).is_none()))
}

fn has_crashed(stack: &KernelStack) -> bool {
    stack.calls("crash_kexec") || stack.calls("__crash_kexec")
}

/// A row for the tables, if no rule matches a function of the stack.
fn row(stack: &KernelStack) -> Option<TableRow> {
    let of = |table| TableRow::new(table, stack.line).text("task", &*task(stack));
    // A short lock-up may be a pause of the virtual machine by its host.
    if let Some(seconds) = stack.locked_up_seconds.filter(|_| stack.is_running) {
        let function = stack.instruction.iter().chain(&stack.functions).next();
        let row = of("stalled-processors").number("seconds", seconds as f64);
        return Some(row.text("function", function.map(String::as_str)));
    }
    if stack.is_running {
        let is_of_a_group = stack.calls("mem_cgroup") || stack.calls("try_charge");
        let is_global = stack.calls("out_of_memory") && stack.calls("__alloc_pages");
        return (is_global && !is_of_a_group).then(|| of("failed-allocations"));
    }
    if has_crashed(stack) {
        return Some(of("crashes"));
    }
    let is_known = stack.calls(SERVER_IDLES) || kernel_lock(stack).is_some();
    let seconds = stack.blocked_seconds.filter(|_| !is_known)?;
    let row = of("blocked-tasks").number("seconds", seconds as f64);
    let decides = stack.decides_on_files.then_some("yes");
    let row = row.text("decides", decides);
    Some(row.process(stack.process.as_deref(), stack.pid))
}

fn known_fault(stack: &KernelStack) -> Option<String> {
    let release = stack.release.as_deref()?;
    let is_stuck = stack.blocked_seconds.is_some() || stack.locked_up_seconds.is_some();
    let functions = || stack.instruction.iter().chain(&stack.functions);
    let mut faults = kernel_faults(release).into_iter();
    let fault = faults.find(|fault| is_stuck && fault.is_in(functions().map(String::as_str)))?;
    let what = &fault.what;
    let fixed = fault
        .fixed
        .iter()
        .map(|fixed| format!("; fixed in {fixed}"));
    let fixed: String = fixed.collect();
    Some(format!(
        "; its release, {release}, has a known fault: {what}{fixed}"
    ))
}

/// The evidence of a task that has long been blocked by a lock of the kernel itself. If the stack lacks its
/// first line, the duration of the wait is not known, and is assumed to be long.
pub fn blocked_by_kernel_lock(stack: &KernelStack) -> Vec<Evidence> {
    let may_be_hung = stack.blocked_seconds.is_some() || stack.process.is_none();
    let Some(function) = kernel_lock(stack).filter(|_| may_be_hung) else {
        return Vec::new();
    };
    let row = TableRow::new("kernel-locks", stack.line).text("task", &*task(stack));
    Rules::active().evidence(&row.text("long", &*long(stack)).text("function", function))
}

/// A row for a waiting task that no other rule explains.
pub fn waiting(stack: &KernelStack) -> TableRow {
    // The first process of a container waits in this function while the container ends.
    let mut functions = stack.functions.iter().map(String::as_str);
    let init = functions.find(|name| *name == "zap_pid_ns_processes");
    let function = init.or_else(|| kernel_lock(stack));
    let row = TableRow::new("waiting-tasks", stack.line).text("task", &*task(stack));
    let seconds = stack.blocked_seconds.map(|seconds| seconds as f64);
    row.text("function", function).number("seconds", seconds)
}

/// The function in which the task waits for a lock of the kernel itself. Its stack does not show what
/// holds the lock.
pub fn kernel_lock(stack: &KernelStack) -> Option<&str> {
    let mut functions = stack.functions.iter();
    let found = functions.find(|name| facts().kernel_locks.contains(*name));
    found.map(String::as_str)
}

fn long(stack: &KernelStack) -> String {
    match stack.blocked_seconds {
        Some(seconds) => format!(" for more than {seconds} s"),
        None => String::new(),
    }
}

fn task(stack: &KernelStack) -> String {
    stack.task().unwrap_or_else(|| "a task".to_owned())
}

fn waits(stack: &KernelStack, place: &str) -> String {
    let (task, long) = (task(stack), long(stack));
    format!("{task} waits{long}{place} in the kernel")
}

fn of_function(stack: &KernelStack, function: &str, of: &CauseRule<KernelStackRule>) -> Evidence {
    let says = waits(stack, &format!(" in {function}"));
    let culprit = Culprit::of_process(stack.process.clone(), stack.pid);
    let headline = of.rule.headline.as_ref().map(|headline| {
        let headline = headline
            .replace("{task}", &task(stack))
            .replace("{long}", &long(stack));
        headline.replace("{function}", function)
    });
    let evidence = Evidence::new(of.cause, of.rule.confidence_of(stack), stack.line, says);
    evidence.of(culprit).headed(headline)
}
