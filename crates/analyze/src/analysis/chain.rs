//! The chain of waits from one daemon to the next, as their goroutine dumps show it.
//!
//! ```text
//!   relist --call--> handler --lock--> its holder --process--> plugin --call--> agent --> kernel
//! ```

use causes::facts::facts;
use causes::finding::{MAX_HEADLINE, headline};
use serde::Serialize;

use crate::goroutines::{Group, Program, Wait, short};
use crate::kernel::{KernelStack, cause_of_function};
use crate::words::capital;

/// One link of the chain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Link {
    /// The program that waits.
    pub program: Option<String>,
    /// The goroutine's number; `None` if its header is missing.
    pub goroutine: Option<u64>,
    /// The function that waits.
    pub function: String,
    /// What the function waits for.
    pub waits_for: String,
    /// The input that shows the wait.
    pub file: String,
    /// The line in that input.
    pub line: u64,
}

/// A chain: its links, and a sentence about all of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Chain {
    /// A sentence about all links.
    pub sentence: String,
    /// The links, from the kubelet to the culprit.
    pub links: Vec<Link>,
}

/// A chain, with what the findings use of it.
pub(super) struct FoundChain {
    pub(super) chain: Chain,
    /// A short sentence about its two ends.
    pub(super) headline: String,
    /// The index of the group in which the chain ends.
    pub(super) last: usize,
    /// Whether a kernel stack confirms the wait of the last group.
    pub(super) confirmed: bool,
}

/// Follows the waits from group to group. Returns `None` if there are fewer than two links.
pub(super) fn follow(groups: &[Group], kernel: &[(String, KernelStack)]) -> Option<FoundChain> {
    let mut path = vec![start(groups)?];
    while let Some(next) = next(groups, &path) {
        path.push(next);
    }
    let last = *path.last()?;
    let in_kernel = in_kernel(&groups[last], kernel);
    if path.len() < 2 && in_kernel.is_none() {
        return None;
    }
    let before = |at: usize| at.checked_sub(1).map(|before| &groups[path[before]]);
    let parts = path.iter().enumerate();
    let parts = parts.map(|(at, &index)| says(&groups[index], before(at)));
    let mut parts: Vec<String> = parts.collect();
    let stack = in_kernel.map(|(_, stack)| stack);
    let end = end_of(&groups[last], before(path.len() - 1), stack);
    let headline = shortest(&groups[path[0]], &end);
    let mut links: Vec<Link> = path.iter().map(|&index| link(&groups[index])).collect();
    if let Some((file, stack)) = in_kernel {
        parts.push(kernel_says(stack));
        links.push(kernel_link(file, stack));
    }
    let sentence = capital(parts.join("; ")) + ".";
    Some(FoundChain {
        chain: Chain { sentence, links },
        headline,
        last,
        confirmed: in_kernel.is_some(),
    })
}

/// Where the chain begins: the index of the relist or, without one, of a handler of the runtime that
/// waits for a lock.
fn start(groups: &[Group]) -> Option<usize> {
    let is_relist = |group: &Group| group.is_relist() && !group.idle;
    groups.iter().position(is_relist).or_else(|| {
        let waits = |group: &Group| {
            let mut methods = facts().goroutines["methods"].iter();
            group.wait == Wait::Lock && methods.any(|method| handles(group, method))
        };
        groups.iter().position(waits)
    })
}

/// The CRI method that the stack of a client calls.
fn method(group: &Group) -> Option<&'static str> {
    let methods = facts().goroutines["methods"].iter().map(String::as_str);
    let mut methods = methods.filter(|method| calls_any(group, "clients", method));
    methods.next()
}

/// Whether the stack is a handler of this CRI method.
fn handles(group: &Group, method: &str) -> bool {
    calls_any(group, "handlers", method)
}

/// Whether the stack has one of the functions that the facts list under the key `functions`, for this CRI
/// method.
fn calls_any(group: &Group, functions: &str, method: &str) -> bool {
    let mut functions = facts().goroutines[functions].iter();
    functions.any(|function| group.calls(&function.replace("{method}", method)))
}

/// The group that the last group of the path waits for. If several fit, one that waits for a lock or for
/// something outside its process is preferred, then the one that has waited longest.
fn next(groups: &[Group], path: &[usize]) -> Option<usize> {
    let here = &groups[*path.last()?];
    let best = |wanted: &dyn Fn(&Group) -> bool| {
        let fits = |index: &usize| {
            let group = &groups[*index];
            !path.contains(index) && !group.idle && wanted(group)
        };
        let fitting = (0..groups.len()).filter(fits);
        fitting.max_by_key(|index| {
            let group = &groups[*index];
            let is_blocked = group.wait == Wait::Lock || group.wait.is_outside();
            (is_blocked, group.max_minutes, group.count)
        })
    };
    match here.wait {
        Wait::Rpc if here.program == Some(Program::CniPlugin) => {
            let agent = |group: &Group| group.program == Some(Program::CniAgent);
            best(&|group| agent(group) && group.wait.is_outside()).or_else(|| best(&agent))
        }
        Wait::Rpc => match method(here) {
            Some(method) => best(&|group| handles(group, method)),
            None if here.calls("libdocker.") || here.calls("dockertools.") => {
                best(&|group| group.program == Some(Program::Dockerd) && group.wait != Wait::Other)
            }
            None => None,
        },
        Wait::Lock => {
            let kind = Some(here.lock_type()?);
            best(&|group| group.wait != Wait::Lock && group.outermost_call_of(kind).is_some())
        }
        Wait::Process => {
            let cni = here.calls("/cni") || here.calls("invoke.");
            let wanted = if cni {
                Program::CniPlugin
            } else {
                Program::Runc
            };
            best(&|group| group.program == Some(wanted))
        }
        // Unless the shim is dead, its handler waits for another goroutine of the shim.
        Wait::Shim => {
            let shim = |group: &Group| group.program == Some(Program::Shim);
            best(&|group| shim(group) && group.wait == Wait::Lock).or_else(|| best(&shim))
        }
        _ => None,
    }
}

fn says(group: &Group, before: Option<&Group>) -> String {
    let function = short(group.function());
    let program = program(group);
    let waits_for_minutes = match group.oldest.minutes {
        Some(minutes) => format!("has been waiting for {minutes} minutes"),
        None => "waits".to_owned(),
    };
    let goroutine = match group.oldest.id {
        Some(id) => format!("goroutine {id}"),
        None => "a goroutine".to_owned(),
    };
    let waits = group.wait.what();
    match before {
        None if group.is_relist() => match method(group) {
            Some(method) => format!("{program}'s relist {waits_for_minutes} in {method}"),
            None => format!("{program}'s relist {waits_for_minutes} for {waits}"),
        },
        _ if group.wait == Wait::Lock => {
            let lock = group.lock_type().map_or(function, short);
            let whose = if before.is_some() { "its" } else { "a" };
            format!("{whose} handler in {program} {waits_for_minutes} for the lock of {lock}")
        }
        Some(before) if before.wait == Wait::Lock => {
            let holding = group.outermost_call_of(before.lock_type());
            let holding = holding.map_or(function, short);
            format!(
                "that lock is held by {goroutine} in {holding}, which {waits_for_minutes} for {waits}"
            )
        }
        Some(before) if before.wait == Wait::Process => {
            let waits = if group.wait == Wait::Rpc {
                "its agent"
            } else {
                waits
            };
            format!("that process is {program}, which {waits_for_minutes} for {waits} ({function})")
        }
        _ => {
            let purpose = short(group.purpose());
            format!("in {program} {goroutine} {waits_for_minutes} for {waits} ({purpose})")
        }
    }
}

fn program(group: &Group) -> String {
    let program = group.program.map(|program| program.to_string());
    program.unwrap_or_else(|| "a process".to_owned())
}

/// The end of the chain: a program, and the function that it is in.
fn end_of(last: &Group, before: Option<&Group>, kernel: Option<&KernelStack>) -> [String; 2] {
    let program = program(last);
    if let Some(stack) = kernel {
        let process = stack.process.clone();
        return [process.unwrap_or(program), shown_function(stack).to_owned()];
    }
    let function = match before.filter(|before| before.wait == Wait::Lock) {
        Some(before) => last
            .outermost_call_of(before.lock_type())
            .map_or(last.function(), short),
        None => short(last.purpose()),
    };
    [program, function.to_owned()]
}

/// A headline about the two ends of the chain. If it would be too long, the duration is left out first.
fn shortest(first: &Group, [end, function]: &[String; 2]) -> String {
    let program = program(first);
    let method = method(first);
    let begin = match (first.is_relist(), method) {
        (true, Some(method)) => format!("{program}'s relist waits in {method}"),
        (true, None) => format!("{program}'s relist waits"),
        (false, _) => format!("calls in {program} wait"),
    };
    let whole = says(first, None);
    let is_call = first.is_relist() && method.is_some();
    let lasting = [format!("{whole} for {end}, in {function}")].into_iter();
    let mut forms = lasting.filter(|_| is_call).chain([
        format!("{begin} for {end}, in {function}"),
        format!("{begin} for {end}"),
    ]);
    let fits = |form: &String| form.chars().count() <= MAX_HEADLINE;
    forms.find(fits).unwrap_or_else(|| headline(&whole))
}

fn link(group: &Group) -> Link {
    Link {
        program: group.program.map(|program| program.name().to_owned()),
        goroutine: group.oldest.id,
        function: group.function().to_owned(),
        waits_for: group.wait.what().to_owned(),
        file: group.place.file.clone(),
        line: group.place.line,
    }
}

/// The first kernel stack that shows the wait of the last group, after the input that contains it.
fn in_kernel<'a>(
    last: &Group,
    kernel: &'a [(String, KernelStack)],
) -> Option<(&'a str, &'a KernelStack)> {
    let wanted = match last.wait {
        Wait::Netlink => "netlink-in-kernel",
        Wait::Storage => "storage-in-kernel",
        Wait::Bus => "bus-in-kernel",
        _ => return None,
    };
    let names = &facts().goroutines[wanted];
    let fits = |stack: &KernelStack| names.iter().any(|name| stack.calls(name));
    let mut stacks = kernel.iter().map(|(file, stack)| (&**file, stack));
    stacks.find(|(_, stack)| fits(stack))
}

fn kernel_says(stack: &KernelStack) -> String {
    let task = stack.task().unwrap_or_else(|| "it".to_owned());
    format!(
        "the kernel stack confirms this: {task} is in {}",
        shown_function(stack)
    )
}

fn kernel_link(file: &str, stack: &KernelStack) -> Link {
    Link {
        program: stack.process.clone(),
        goroutine: None,
        function: shown_function(stack).to_owned(),
        waits_for: "the kernel".to_owned(),
        file: file.to_owned(),
        line: stack.line,
    }
}

/// The function that shows what the task waits for: the innermost one that supports a cause, or else the
/// innermost one of all.
fn shown_function(stack: &KernelStack) -> &str {
    let mut functions = stack.functions.iter();
    let known = functions.find(|name| cause_of_function(name).is_some());
    known.or(stack.functions.first()).map_or("", String::as_str)
}
