//! What a single line of a kernel's log or of `/proc/PID/stack` is: the beginning of a stack, a
//! frame, or something between them.

use std::sync::LazyLock;

use causes::facts::facts;
use memchr::memmem::Finder;

use super::reader::KernelStack;
use crate::line::first_chars;

/// The name of a process, a function or a release, cut if it is longer than any real one.
pub(super) fn name(text: &str) -> String {
    first_chars(text, 100).to_owned()
}

/// The task of `INFO: task dockerd:1810 blocked for more than 328 seconds.`
pub fn blocked_task(line: &str) -> Option<KernelStack> {
    let at = TASK.find(line.as_bytes())?;
    let rest = &line[at + TASK.needle().len()..];
    let (task, rest) = rest.split_once(" blocked for more than ")?;
    let (process, pid) = task.rsplit_once(':')?;
    Some(KernelStack {
        process: Some(name(process)),
        pid: pid.parse().ok(),
        blocked_seconds: rest.split(' ').next()?.parse().ok(),
        ..KernelStack::default()
    })
}

// Every line is searched for these.
static TASK: LazyLock<Finder> = LazyLock::new(|| Finder::new("INFO: task "));
static DECIDES: LazyLock<Finder> =
    LazyLock::new(|| Finder::new("): Using fanotify permission checks"));
static PROC: LazyLock<Finder> = LazyLock::new(|| Finder::new("/proc/"));
static OFFSET: LazyLock<Finder> = LazyLock::new(|| Finder::new("+0x"));

/// The task and the frame of `/proc/7/task/9/stack:[<0>] vfs_read+0x73/0x160`, as grep prints it
/// for several files.
pub(super) fn below_path(line: &str) -> Option<(Option<u32>, &str)> {
    let (path, frame) = line.strip_prefix("/proc/")?.split_once("/stack:")?;
    Some((path.rsplit('/').next()?.parse().ok(), frame))
}

/// The task whose stack begins with this line.
pub(super) fn beginning(line: &str, number: u64) -> Option<KernelStack> {
    let of = |process: &str, pid: &str| KernelStack {
        process: Some(name(process)),
        pid: pid.parse().ok(),
        line: number,
        ..KernelStack::default()
    };
    if TASK.find(line.as_bytes()).is_some() {
        let mut task = blocked_task(line)?;
        task.line = number;
        return Some(task);
    }
    // task:dockerd  state:D stack:    0 pid: 1810 ppid:     1 flags:0x00004000
    if let Some(rest) = line.strip_prefix("task:") {
        let (process, rest) = rest.split_once("state:")?;
        let (_, rest) = rest.split_once(" pid:")?;
        let pid = rest.split_ascii_whitespace().next()?;
        return Some(of(process.trim(), pid));
    }
    // CPU: 1 PID: 20417 Comm: exe Not tainted 5.3.0, before the stack of what a CPU was doing
    if let Some((process, pid)) = running(line) {
        return Some(KernelStack {
            is_running: true,
            ..of(process, pid)
        });
    }
    // BUG: soft lockup - CPU#3 stuck for 23s! [java:30112]; a mail may have put `BUG: ` on the line before
    if let Some((before, rest)) = line.split_once("soft lockup - CPU#")
        && (before.is_empty() || before.ends_with("BUG: "))
    {
        let (long, task) = rest.split_once(" stuck for ")?.1.split_once("s! [")?;
        // Perhaps with "(repeating)" after it.
        let (process, pid) = task.split_once(']')?.0.rsplit_once(':')?;
        return Some(KernelStack {
            is_running: true,
            locked_up_seconds: Some(long.parse().ok()?),
            ..of(process, pid)
        });
    }
    // PID: 19246  TASK: ffff880951f70fd0  CPU: 16  COMMAND: "terwayd"
    if let Some(rest) = line.strip_prefix("PID: ") {
        let command = rest.split_once("COMMAND: ")?.1.trim_matches('"');
        return Some(of(command, rest.split_ascii_whitespace().next()?));
    }
    // # cat /proc/14378/stack, or with /task/14379 in it
    let at = PROC.find(line.as_bytes())?;
    let (path, _) = line[at + PROC.needle().len()..].split_once("/stack")?;
    Some(KernelStack {
        pid: Some(path.rsplit('/').next()?.parse().ok()?),
        line: number,
        ..KernelStack::default()
    })
}

/// Whether the kernel prints this beginning of a stack in its log; others are from `crash` or `/proc`.
pub(super) fn is_logged(beginning: &str) -> bool {
    !beginning.starts_with("PID: ") && PROC.find(beginning.as_bytes()).is_none()
}

pub(super) fn is_heading(line: &str) -> bool {
    matches!(line, "Call Trace:" | "Call trace:" | "<TASK>")
}

/// The task and the seconds of `stuck for 22s! [nfsd:2117]`, the end of a line that was wrapped.
pub(super) fn stuck(line: &str) -> Option<(u32, u64)> {
    let (long, task) = line.strip_prefix("stuck for ")?.split_once("s! [")?;
    let (_, pid) = task.strip_suffix(']')?.rsplit_once(':')?;
    Some((pid.parse().ok()?, long.parse().ok()?))
}

/// The release in `Not tainted 5.4.89+ #1` and `Tainted: G           OE     5.15.0-88-generic #98-Ubuntu`.
pub(super) fn release(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("ainted")?;
    let words = rest.split_ascii_whitespace();
    let mut releases =
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    releases.next().map(name)
}

/// The process of `CPU: 1 PID: 20417 Comm: exe Not tainted 5.3.0-1034-azure`.
fn running(line: &str) -> Option<(&str, &str)> {
    let (before, behind_name) = line.strip_prefix("CPU: ")?.split_once(" Comm: ")?;
    let pid = before.split_once("PID: ")?.1.split(' ').next()?;
    let ends = [" Not tainted", " Tainted: ", " Kdump: "];
    let end = ends.iter().filter_map(|end| behind_name.find(end)).min();
    let process = &behind_name[..end.unwrap_or(behind_name.len())];
    pid.parse::<u32>().is_ok().then_some((process, pid))
}

/// The function of a frame, and whether it was certainly called: `[<0>] __refrigerator+0x4c/0x130`,
/// ` ? schedule+0x67/0x90 [xfs]`, or as `crash` prints it, with `bt -t` without the number:
/// `#6 [ffff880826267c58] netlink_recvmsg at ffffffff815bb312`.
pub(super) fn function(line: &str) -> Option<(&str, bool)> {
    if line.starts_with('#') || line.starts_with("[ffff") {
        let (_, rest) = line.split_once("] ")?;
        let (function, address) = rest.split_once(" at ")?;
        let address = address.split(' ').next()?;
        let real = address.len() >= 8 && address.bytes().all(|byte| byte.is_ascii_hexdigit());
        return (real && is_symbol(function)).then_some((function, true));
    }
    let line = line.strip_prefix("stack: ").unwrap_or(line);
    let line = match line.strip_prefix("[<") {
        Some(rest) => rest.split_once(">]")?.1.trim_start(),
        // A web page has taken the address for a tag.
        None if line.starts_with("[] ") => &line["[] ".len()..],
        // [c000001b9ab076d0] [c00000000001b5d0] schedule+0x48/0xc0, of PowerPC
        None if line.starts_with("[c0") => line.rsplit_once("] ")?.1,
        None => line,
    };
    // [<8079d9b0>] (__schedule) from [<8079e018>] (schedule+0x50/0xa8), of 32-bit ARM
    let frame = line.strip_prefix('(');
    if let Some((name, from)) = frame.and_then(|rest| rest.split_once(") from [<")) {
        let name = name.split([' ', '+']).next().unwrap_or_default();
        return (from.contains(">]") && is_symbol(name)).then_some((name, true));
    }
    let plain = line.strip_prefix("? ");
    let is_reliable = plain.is_none();
    let line = plain.unwrap_or(line);
    let at = OFFSET.find(line.as_bytes())?;
    let (function, offset) = (&line[..at], &line[at + OFFSET.needle().len()..]);
    // __schedule from schedule+0x54/0xec, of 32-bit ARM since Linux 5.18
    let function = function.split(" from ").next().unwrap_or(function);
    let (at, rest) = offset.split_once("/0x")?;
    let size = rest.split(' ').next()?;
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hex(at) && hex(size) && is_symbol(function)).then_some((function, is_reliable))
}

fn is_symbol(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    !text.is_empty() && text.bytes().all(plain)
}

/// The function of `0010:smp_call_function_single+0xce/0xf2`, also after addresses in brackets.
pub(super) fn instruction(at: &str) -> Option<String> {
    let (function, _) = function(at.rsplit([':', ' ']).next()?)?;
    Some(name(function))
}

/// The function of `Workqueue: netns cleanup_net`.
pub(super) fn work(line: &str) -> Option<String> {
    let function = line.split_once("Workqueue: ")?.1.split(' ').nth(1)?;
    is_symbol(function).then(|| name(function))
}

/// Whether the line is the raw memory of a stack, ` ffff88008d8cfc48 0000000000000046 ffff88029e428000`,
/// which kernels before 4.9 print before the functions.
fn is_raw_words(line: &str) -> bool {
    let is_word = |word: &str| {
        matches!(word.len(), 8 | 16) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let words = line.split_ascii_whitespace();
    !line.is_empty() && words.take(9).all(is_word)
}

/// Whether the line, which is not a frame, belongs to a stack.
pub(super) fn is_around(line: &str) -> bool {
    let around = &facts().around_kernel_stacks;
    // dockerd         D    0  1810      1 0x00004080
    let state = line.split_ascii_whitespace().nth(1);
    let is_task = matches!(state, Some("D" | "S" | "R"));
    // The end of a release that a mail or a terminal has wrapped.
    let number = line.strip_prefix('#').unwrap_or_default();
    let is_build = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    is_task
        || is_build
        || is_raw_words(line)
        || around.iter().any(|text| line.contains(text))
        || line.starts_with("RIP:")
}

/// The process of `falcon-sensor (28114): Using fanotify permission checks may lead to deadlock;
/// tainting kernel`.
pub(super) fn decider(line: &str) -> Option<&str> {
    let at = DECIDES.find(line.as_bytes())?;
    let (process, _) = line[..at].rsplit_once(" (")?;
    process.rsplit(' ').next()
}
