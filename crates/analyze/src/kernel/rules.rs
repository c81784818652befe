//! What a kernel stack shows: by the lock, the device or the answer that the task waits for.

use causes::Cause;
use causes::facts::facts;
use causes::finding::{Confidence, Culprit};
use causes::versions::kernel_faults;
use serde::Deserialize;

use super::KernelStack;
use crate::evidence::Evidence;
use crate::rules::{Of, Rules, Texts, is_like};
use crate::table::TableRow;

/// Functions in which a blocked task waits.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct KernelStackRule {
    /// The innermost function that a rule has decides; `nfs_` stands for all functions that begin with
    /// it.
    pub(crate) functions: Texts,
    /// They decide only if no others do: tasks wait in them for many reasons.
    #[serde(default)]
    weak: bool,
    /// A name that `ps` has cut is not taken for one of these.
    #[serde(default)]
    whole: bool,
    /// A task is often there for a moment: without a duration it is at most medium.
    #[serde(default)]
    momentary: bool,
    /// A sleeping task counts, too, and not only one that is blocked.
    #[serde(default)]
    pub(crate) asleep: bool,
    /// The task's name is like one of these; empty is no condition.
    #[serde(default)]
    pub(crate) processes: Texts,
    /// One of these functions is in the stack, too.
    #[serde(default)]
    pub(crate) under: Texts,
    /// The kernel reports that the task has been blocked for this long at least.
    blocked_seconds: Option<u64>,
    confidence: Confidence,
    /// What a finding says in place of the title; `{task}`, `{long}` and `{function}` are filled in.
    headline: Option<String>,
}

impl KernelStackRule {
    /// Whether the stack, besides its function, is meant.
    fn holds(&self, stack: &KernelStack) -> bool {
        let process = stack.process.as_deref().unwrap_or_default();
        let is_called = |function: &String| stack.calls(function);
        (self.processes.is_empty() || self.processes.iter().any(|name| is_like(process, name)))
            && (self.under.is_empty() || self.under.iter().any(is_called))
            && (self.blocked_seconds.is_none() || stack.blocked_seconds >= self.blocked_seconds)
    }
}

/// Where a FUSE server waits for the next request, which no other task waits for.
const SERVER_IDLES: &str = "fuse_dev_do_read";

/// Everything that is looked for in a stack.
#[cfg(test)]
pub(crate) fn searched_texts() -> impl Iterator<Item = &'static str> {
    let rules = Rules::active().kernel_stacks.iter();
    let functions = rules.flat_map(|of| of.rule.functions.iter());
    functions.chain(&facts().kernel_locks).map(String::as_str)
}

/// `ps` cuts names, and shorter ones could be anything.
const MIN_CUT: usize = 5;

/// How much of a name a rule's function has in common with it, and how long the rule needs.
type Common = (usize, Option<u64>);

/// The rule whose function has most in common with this name, and of those the one that needs the
/// longest time.
fn entry(
    name: &str,
    weak: bool,
    stack: &KernelStack,
) -> Option<(&'static str, &'static Of<KernelStackRule>)> {
    let rules = Rules::active().kernel_stacks.iter();
    let rules = rules.filter(|of| of.rule.weak == weak && of.rule.holds(stack));
    let common = |of: &'static Of<KernelStackRule>, function: &'static str| {
        let is_cut = !of.rule.whole && name.len() >= MIN_CUT && function.starts_with(name);
        let is_it = name.starts_with(function) || is_cut;
        is_it.then(|| (function.len().min(name.len()), of.rule.blocked_seconds))
    };
    let mut best: Option<(Common, &str, &Of<KernelStackRule>)> = None;
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

/// The rule for this name; a weak rule only if no other rule has the name.
fn of_name(name: &str, stack: &KernelStack) -> Option<&'static Of<KernelStackRule>> {
    let found = entry(name, false, stack).or_else(|| entry(name, true, stack));
    found.map(|(_, of)| of)
}

/// What waiting in this function shows, as it was seen once.
pub fn cause_of_function(name: &str) -> Option<(Cause, Confidence)> {
    cause_in(name, &KernelStack::default(), true)
}

/// What waiting in this function shows of the task of this stack, which is blocked or only asleep.
pub fn cause_in(name: &str, stack: &KernelStack, is_blocked: bool) -> Option<(Cause, Confidence)> {
    let Of { cause, rule, .. } = of_name(name, stack).filter(|of| is_blocked || of.rule.asleep)?;
    Some((*cause, rule.confidence_of(stack)))
}

/// What waiting in this function for a while shows.
pub fn cause_of_long_wait(name: &str) -> Option<(Cause, Confidence)> {
    let of = of_name(name, &KernelStack::default())?;
    Some((of.cause, of.rule.confidence))
}

impl KernelStackRule {
    /// How sure it is of a stack, which may have no duration.
    fn confidence_of(&self, stack: &KernelStack) -> Confidence {
        match self.momentary && stack.blocked_seconds.is_none() {
            true => self.confidence.min(Confidence::Medium),
            false => self.confidence,
        }
    }
}

/// What the stack shows; nothing if nothing in it is known.
pub fn evidence(stack: &KernelStack) -> Vec<Evidence> {
    let mut evidence = match entry_of(stack) {
        Some((function, of)) => vec![of_function(stack, function, of)],
        None => row(stack).map_or_else(Vec::new, |row| Rules::active().evidence(&row)),
    };
    // The release of the kernel counts only if the stack shows a fault that it has.
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

fn entry_of(stack: &KernelStack) -> Option<(&'static str, &'static Of<KernelStackRule>)> {
    if stack.is_running || has_crashed(stack) || stack.calls(SERVER_IDLES) {
        return None;
    }
    let innermost = |weak| {
        let mut functions = stack.functions.iter();
        functions.find_map(|name| entry(name, weak, stack))
    };
    // What the kernel itself waits for in a file system is not the file system.
    innermost(false).or_else(|| innermost(true).filter(|_| kernel_lock(stack).is_none()))
}

fn has_crashed(stack: &KernelStack) -> bool {
    stack.calls("crash_kexec") || stack.calls("__crash_kexec")
}

/// What is known of a task of which no function that waits is known.
fn row(stack: &KernelStack) -> Option<TableRow> {
    let of = |table| TableRow::new(table, stack.line).text("task", &*task(stack));
    // For a while the host of a virtual machine may keep its processor from running.
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
    let fixed = fault
        .fixed
        .as_ref()
        .map(|fixed| format!("; fixed in {fixed}"));
    Some(format!(
        "; its release, {release}, has a known fault: {}{}",
        fault.what,
        fixed.unwrap_or_default()
    ))
}

/// For a task that has been blocked for long by a lock of the kernel itself, or of which the head of
/// its stack, which shows that, was cut off.
pub fn held_up(stack: &KernelStack) -> Vec<Evidence> {
    let may_be_hung = stack.blocked_seconds.is_some() || stack.process.is_none();
    let Some(function) = kernel_lock(stack).filter(|_| may_be_hung) else {
        return Vec::new();
    };
    let row = TableRow::new("kernel-locks", stack.line).text("task", &*task(stack));
    Rules::active().evidence(&row.text("long", &*long(stack)).text("function", function))
}

/// A task that waits, of which no rule says more.
pub fn waiting(stack: &KernelStack) -> TableRow {
    // The first process of a container, once it has to end.
    let init = stack
        .functions
        .iter()
        .find(|name| *name == "zap_pid_ns_processes");
    let function = init.map(String::as_str).or_else(|| kernel_lock(stack));
    let row = TableRow::new("waiting-tasks", stack.line).text("task", &*task(stack));
    let seconds = stack.blocked_seconds.map(|seconds| seconds as f64);
    row.text("function", function).number("seconds", seconds)
}

/// The function in which it waits for the kernel itself. What holds that up, the stack of the
/// waiting task does not show.
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

fn of_function(stack: &KernelStack, function: &str, of: &Of<KernelStackRule>) -> Evidence {
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
