//! What a kernel stack proves: by the lock, the device or the answer that the task waits for.

use causes::Cause;
use causes::facts::facts;
use causes::finding::{Confidence, Culprit};
use causes::versions::kernel_faults;
use serde::Deserialize;

use super::KernelStack;
use crate::proof::Proof;
use crate::rules::{Rules, Texts};

use Cause::*;
use Confidence::*;

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
    /// How sure it is.
    confidence: Confidence,
}

/// Where a FUSE server waits for the next request, which nobody else waits for.
const SERVER_IDLES: &str = "fuse_dev_do_read";

/// Functions of io_uring that take the lock of a ring.
const RING: &[&str] = &["__do_sys_io_uring_enter", "io_poll_task_func"];

/// Everything that is looked for in a stack.
#[cfg(test)]
pub(crate) fn needles() -> impl Iterator<Item = &'static str> {
    let rules = Rules::active().kernel_stacks.iter();
    let functions = rules.flat_map(|of| of.rule.functions.iter());
    functions.chain(&facts().kernel_locks).map(String::as_str)
}

/// A disk that is only slow has done a request by then.
const ENDLESS_SECONDS: u64 = 480;

/// No host keeps a virtual machine's processor from running for so long.
const NO_HOST_PAUSES_SECONDS: u64 = 120;

/// `ps` cuts names, and shorter ones could be anything.
const MIN_CUT: usize = 5;

/// The function of a rule, and what it shows.
type Entry = (&'static str, Cause, Confidence, bool);

/// The function of a rule that has most in common with this name.
fn entry(name: &str, weak: bool) -> Option<Entry> {
    let rules = Rules::active().kernel_stacks.iter();
    let rules = rules.filter(|of| of.rule.weak == weak);
    let mut best: Option<(usize, Entry)> = None;
    for of in rules {
        for function in of.rule.functions.iter() {
            let is_cut = !of.rule.whole && name.len() >= MIN_CUT && function.starts_with(name);
            let common = function.len().min(name.len());
            let is_better = best.is_none_or(|(most, _)| common > most);
            if is_better && (name.starts_with(function.as_str()) || is_cut) {
                let rule = &of.rule;
                best = Some((
                    common,
                    (function, of.cause, rule.confidence, rule.momentary),
                ));
            }
        }
    }
    best.map(|(_, entry)| entry)
}

/// What waiting in this function tells, as it was seen once.
pub fn cause_of_function(name: &str) -> Option<(Cause, Confidence)> {
    let (_, cause, confidence, momentary) = best_entry(name)?;
    Some((cause, at_once(confidence, momentary)))
}

/// What waiting in this function for a while tells.
pub fn cause_of_long_wait(name: &str) -> Option<(Cause, Confidence)> {
    let (_, cause, confidence, _) = best_entry(name)?;
    Some((cause, confidence))
}

/// The function of a rule for this name; of a weak rule only if no other has it.
fn best_entry(name: &str) -> Option<Entry> {
    entry(name, false).or_else(|| entry(name, true))
}

/// How sure a stack without a duration is.
fn at_once(confidence: Confidence, momentary: bool) -> Confidence {
    if momentary {
        confidence.min(Medium)
    } else {
        confidence
    }
}

/// What the stack shows; `None` if nothing in it is known. The release of the kernel is named only
/// if the stack shows a fault that the release has.
pub fn proof(stack: &KernelStack) -> Option<Proof> {
    let shown = shown(stack);
    let fault = known_fault(stack).filter(|_| {
        let is_other = |proof: &Proof| proof.cause != KernelStall;
        !shown.as_ref().is_some_and(is_other)
    });
    match (shown, fault) {
        (shown, Some(fault)) => {
            let mut proof = shown.unwrap_or_else(|| of(stack, KernelRegression, Low, ""));
            proof.cause = KernelRegression;
            proof.says += &fault;
            proof.headline = None;
            Some(proof)
        }
        (shown, None) => shown,
    }
}

fn shown(stack: &KernelStack) -> Option<Proof> {
    if stack.is_running {
        return of_running(stack);
    }
    let process = stack.process.as_deref().unwrap_or_default();
    let calls = |function: &str| {
        let mut functions = stack.functions.iter();
        functions.any(|name| name.starts_with(function))
    };
    if calls("crash_kexec") || calls("__crash_kexec") {
        return Some(of_crash(stack));
    }
    if calls(SERVER_IDLES) {
        return None;
    }
    if process.starts_with("runc") && (calls("pipe_write") || calls("pipe_wait")) {
        return Some(of(stack, RuncSeccompPipe, High, "pipe_write"));
    }
    let innermost = |weak| {
        let mut functions = stack.functions.iter();
        functions.find_map(|name| entry(name, weak))
    };
    // A ring is waited for without its lock for as long as nothing happens.
    let of_a_ring = || {
        let mut functions = stack.functions.iter();
        let of_ring = functions.find_map(|name| RING.iter().find(|ring| name.starts_with(**ring)));
        let is_hung = stack.blocked_seconds.is_some() && calls("__mutex_lock");
        let function = of_ring.filter(|_| is_hung)?;
        Some((*function, KernelStall, Medium, false))
    };
    let found = innermost(false).or_else(of_a_ring);
    // What the kernel itself waits for in a file system is not the file system.
    if found.is_none() && kernel_lock(stack).is_some() {
        return None;
    }
    if let Some((function, cause, confidence, momentary)) = found.or_else(|| innermost(true)) {
        let confidence = at_once(confidence, momentary && stack.blocked_seconds.is_none());
        let is_endless = stack.blocked_seconds >= Some(ENDLESS_SECONDS);
        let cause = match cause {
            DiskSaturated if is_endless => StorageUnresponsive,
            cause => cause,
        };
        return Some(of(stack, cause, confidence, function));
    }
    // Without a stack only the task itself can tell for what it waits.
    let is_hung = stack.blocked_seconds.is_some();
    if is_hung && stack.decides_on_files {
        let mut proof = of(stack, FanotifyBlocked, Medium, "");
        proof.says += ", and decides by fanotify which files others may open";
        return Some(proof);
    }
    let mut commands = facts().storage_commands.iter();
    let mut threads = facts().storage_threads.iter();
    let is_of_storage = commands.any(|name| process == name)
        || threads.any(|name| process.starts_with(name.as_str()));
    (is_hung && is_of_storage).then(|| of(stack, StorageUnresponsive, Medium, ""))
}

/// The fault of this kernel's release that the stack shows.
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
/// its stack, which tells that, was cut off.
pub fn held_up(stack: &KernelStack) -> Option<Proof> {
    let may_be_hung = stack.blocked_seconds.is_some() || stack.process.is_none();
    let function = kernel_lock(stack).filter(|_| may_be_hung)?;
    let mut proof = of(stack, KernelStall, Low, function);
    proof.says += ", for the kernel itself: a CPU without progress or a fault of the kernel holds \
                   it up";
    // Whoever waits does not hold it.
    proof.culprit = Culprit::default();
    Some(proof)
}

/// The function in which it waits for the kernel itself. Who holds that up, the stack of whoever
/// waits does not show.
pub fn kernel_lock(stack: &KernelStack) -> Option<&str> {
    let mut functions = stack.functions.iter();
    let found = functions.find(|name| facts().kernel_locks.contains(*name));
    found.map(String::as_str)
}

/// The kernel itself has crashed in this task.
fn of_crash(stack: &KernelStack) -> Proof {
    let who = stack.who().unwrap_or_else(|| "a task".to_owned());
    let says = format!("the kernel crashed while it ran {who}");
    Proof::new(KernelStall, Medium, stack.line, says)
}

/// A task that runs does not wait, whatever its frames; one that finds no page tells that the
/// memory is used up, unless it is only that of a memory cgroup.
fn of_running(stack: &KernelStack) -> Option<Proof> {
    let calls = |function: &str| {
        stack
            .functions
            .iter()
            .any(|name| name.starts_with(function))
    };
    if let Some(seconds) = stack.locked_up_seconds {
        return of_locked_up(stack, seconds);
    }
    let is_global = calls("out_of_memory") && calls("__alloc_pages");
    let is_of_a_group = calls("mem_cgroup") || calls("try_charge");
    (is_global && !is_of_a_group).then(|| {
        let who = stack.who().unwrap_or_else(|| "a task".to_owned());
        let says = format!("{who} finds no free page on the whole node");
        Proof::new(MemoryThrash, Medium, stack.line, says)
    })
}

/// A task that keeps its processor. For a while that may be the host of a virtual machine, which
/// does not let it run; where it is seen what it does, or after minutes, it is the kernel, unless it
/// waits for another processor.
fn of_locked_up(stack: &KernelStack, seconds: u64) -> Option<Proof> {
    let who = stack.who().unwrap_or_else(|| "a task".to_owned());
    let long = format!("a processor has made no progress for {seconds} s in {who}");
    let proof = |cause, confidence, says: String| {
        Some(Proof::new(cause, confidence, stack.line, &*says).headed(says))
    };
    let no_host_pauses = seconds >= NO_HOST_PAUSES_SECONDS;
    let confidence = if no_host_pauses { High } else { Medium };
    let mut functions = stack.instruction.iter().chain(&stack.functions);
    match functions.next() {
        Some(function) if function.starts_with("smp_call_function") => {
            let says =
                format!("{long}: it waits in {function} for another, which does not respond");
            proof(CpuStarved, Low, says)
        }
        Some(function) => proof(KernelStall, confidence, format!("{long}, in {function}")),
        None if no_host_pauses => proof(KernelStall, confidence, long),
        None => {
            let says = format!("{long}: the kernel is busy, or its host does not let it run");
            proof(CpuStarved, Low, says)
        }
    }
}

fn of(stack: &KernelStack, cause: Cause, confidence: Confidence, function: &str) -> Proof {
    let long = match stack.blocked_seconds {
        Some(seconds) => format!(" for more than {seconds} s"),
        None => String::new(),
    };
    let place = match function {
        "" => String::new(),
        function => format!(" in {function}"),
    };
    let who = stack.who().unwrap_or_else(|| "a task".to_owned());
    let says = format!("{who} waits{long}{place} in the kernel");
    let culprit = Culprit {
        pid: stack.pid,
        process: stack.process.clone(),
        ..Culprit::default()
    };
    let proof = Proof::new(cause, confidence, stack.line, says).of(culprit);
    match cause {
        // The title names several faults.
        KernelStall => proof.headed(format!("{who} waits{long}{place} of the kernel")),
        _ => proof,
    }
}
