//! Parses lines into kernel stacks.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::line::first_chars;

/// The stack of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStack {
    /// The task's name.
    pub process: Option<String>,
    /// Its number.
    pub pid: Option<u32>,
    /// It was running when the kernel printed it: it waits for nothing.
    pub is_running: bool,
    /// For how long it has kept its processor, if the kernel reports that as a lock-up.
    pub locked_up_seconds: Option<u64>,
    /// For how long the kernel says that it has been blocked.
    pub blocked_seconds: Option<u64>,
    /// The function that the processor was in.
    pub instruction: Option<String>,
    /// Functions from the innermost outwards.
    pub functions: Vec<String>,
    /// It decides which files others may open, by fanotify.
    pub decides_on_files: bool,
    /// The kernel's release.
    pub release: Option<String>,
    /// The first line.
    pub line: u64,
}

impl KernelStack {
    /// `dockerd (1810)`, or as much of it as is known; `None` where nothing is.
    pub fn who(&self) -> Option<String> {
        match (&self.process, self.pid) {
            (Some(process), Some(pid)) => Some(format!("{process} ({pid})")),
            (Some(process), None) => Some(process.clone()),
            (None, Some(pid)) => Some(format!("process {pid}")),
            (None, None) => None,
        }
    }
}

/// Reads kernel stacks line by line.
#[derive(Debug, Default)]
pub struct KernelStackReader {
    current: Option<KernelStack>,
    /// What the worker does whose stack it is: its outermost function, which is there even where
    /// the stack is cut.
    work: Option<String>,
    /// Frames that the kernel marks with `?`: left over on the stack, perhaps of earlier calls.
    unreliable: Vec<String>,
    /// The last task that was reported as keeping its processor, and for how many seconds: lines of
    /// others may stand in front of its stack.
    locked_up: Option<(u32, u64)>,
    /// The programs that decide which files others may open.
    deciders: Vec<String>,
    done: Vec<KernelStack>,
}

/// More than a node has.
const MAX_DECIDERS: usize = 16;

const MAX_FUNCTIONS: usize = 64;

impl KernelStackReader {
    /// Takes a line of the kernel's log: `falcon-sensor (28114): Using fanotify permission checks may
    /// lead to deadlock; tainting kernel`.
    pub fn log_line(&mut self, line: &str, number: u64) {
        if let Some(at) = DECIDES.find(line.as_bytes())
            && let Some((process, _)) = line[..at].rsplit_once(" (")
            && self.deciders.len() < MAX_DECIDERS
        {
            let process = process.rsplit(' ').next().unwrap_or(process);
            self.deciders.push(first_chars(process, 100).to_owned());
        }
        self.line(line, number);
    }

    /// Takes a line without its carrier, if it is a part of a kernel stack.
    pub fn line(&mut self, line: &str, number: u64) -> bool {
        let line = line.trim();
        if let Some((pid, frame)) = below_path(line)
            && let Some((function, is_reliable)) = function(frame)
        {
            if self.current.as_ref().is_none_or(|known| known.pid != pid) {
                self.finish();
                self.current = Some(KernelStack {
                    pid,
                    line: number,
                    ..KernelStack::default()
                });
            }
            self.frame(function, is_reliable, number);
            return true;
        }
        if let Some(mut stack) = beginning(line, number) {
            match (stack.pid, stack.locked_up_seconds) {
                (Some(pid), Some(seconds)) => self.locked_up = Some((pid, seconds)),
                (Some(pid), None) if stack.is_running => {
                    let same = self.locked_up.filter(|(other, _)| *other == pid);
                    stack.locked_up_seconds = same.map(|(_, seconds)| seconds);
                }
                _ => {}
            }
            stack.decides_on_files = stack
                .process
                .as_ref()
                .is_some_and(|process| self.deciders.contains(process));
            // A hung task is named twice in front of its one stack.
            let again = self
                .current
                .as_ref()
                .is_some_and(|known| known.functions.is_empty() && known.pid == stack.pid);
            if again {
                return true;
            }
            self.finish();
            self.current = Some(stack);
            return true;
        }
        if let Some((function, is_reliable)) = function(line) {
            self.frame(function, is_reliable, number);
            return true;
        }
        let around = self.current.is_some() && is_around(line);
        match around {
            true => {
                self.work = self.work.take().or_else(|| work(line));
                if let Some(stack) = &mut self.current {
                    let address = || instruction(behind(line, "RIP: ")?);
                    stack.instruction = stack.instruction.take().or_else(address);
                    stack.release = stack.release.take().or_else(|| release(line));
                }
            }
            false => self.finish(),
        }
        around
    }

    fn frame(&mut self, function: &str, is_reliable: bool, number: u64) {
        let unreliable = &mut self.unreliable;
        let stack = self.current.get_or_insert_with(|| KernelStack {
            line: number,
            ..KernelStack::default()
        });
        let frames = match is_reliable {
            true => &mut stack.functions,
            false => unreliable,
        };
        if frames.len() < MAX_FUNCTIONS {
            frames.push(first_chars(function, 100).to_owned());
        }
    }

    /// The input, or what belongs together, ends.
    pub fn finish(&mut self) {
        let unreliable = std::mem::take(&mut self.unreliable);
        let work = self.work.take();
        let mut stack = self.current.take();
        // Kernels without frame pointers mark all of them.
        if let Some(stack) = stack.as_mut().filter(|stack| stack.functions.is_empty()) {
            stack.functions = unreliable;
        }
        if let Some((stack, work)) = stack.as_mut().zip(work)
            && !stack.functions.contains(&work)
        {
            stack.functions.push(work);
        }
        let real = stack.filter(|stack| {
            let is_reported = stack.blocked_seconds.or(stack.locked_up_seconds).is_some();
            is_reported || !stack.functions.is_empty()
        });
        self.done.extend(real);
    }

    /// Whether a stack is being read.
    pub fn is_inside(&self) -> bool {
        self.current.is_some()
    }

    /// Whether a stack is complete.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// The stacks that are complete.
    pub fn take_done(&mut self) -> Vec<KernelStack> {
        std::mem::take(&mut self.done)
    }
}

/// A task that the kernel reports as blocked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HungTask {
    /// Its name.
    pub process: String,
    /// Its number.
    pub pid: Option<u32>,
    /// For at least how long it has been blocked.
    pub seconds: Option<u64>,
}

impl HungTask {
    /// The task of `INFO: task dockerd:1810 blocked for more than 328 seconds.`
    pub fn of_line(line: &str) -> Option<Self> {
        let at = TASK.find(line.as_bytes())?;
        let rest = &line[at + TASK.needle().len()..];
        let (task, rest) = rest.split_once(" blocked for more than ")?;
        let (process, pid) = task.rsplit_once(':')?;
        Some(Self {
            process: first_chars(process, 100).to_owned(),
            pid: pid.parse().ok(),
            seconds: rest.split(' ').next()?.parse().ok(),
        })
    }
}

// Every line is asked for these.
static TASK: LazyLock<Finder> = LazyLock::new(|| Finder::new("INFO: task "));
static DECIDES: LazyLock<Finder> =
    LazyLock::new(|| Finder::new("): Using fanotify permission checks"));
static PROC: LazyLock<Finder> = LazyLock::new(|| Finder::new("/proc/"));
static OFFSET: LazyLock<Finder> = LazyLock::new(|| Finder::new("+0x"));

/// The task and the frame of `/proc/7/task/9/stack:[<0>] vfs_read+0x73/0x160`, as grep prints it
/// for several files.
fn below_path(line: &str) -> Option<(Option<u32>, &str)> {
    let (path, frame) = line.strip_prefix("/proc/")?.split_once("/stack:")?;
    Some((path.rsplit('/').next()?.parse().ok(), frame))
}

fn beginning(line: &str, number: u64) -> Option<KernelStack> {
    let stack = KernelStack {
        line: number,
        ..KernelStack::default()
    };
    if TASK.find(line.as_bytes()).is_some() {
        let task = HungTask::of_line(line)?;
        return Some(KernelStack {
            process: Some(task.process),
            pid: task.pid,
            blocked_seconds: task.seconds,
            ..stack
        });
    }
    // task:dockerd  state:D stack:    0 pid: 1810 ppid:     1 flags:0x00004000
    if let Some(rest) = line.strip_prefix("task:") {
        let (process, rest) = rest.split_once("state:")?;
        let pid = behind(rest, " pid:")?.split_ascii_whitespace().next()?;
        return Some(KernelStack {
            process: Some(first_chars(process.trim(), 100).to_owned()),
            pid: pid.parse().ok(),
            ..stack
        });
    }
    // CPU: 1 PID: 20417 Comm: exe Not tainted 5.3.0, in front of what a CPU was just doing
    if let Some((process, pid)) = running(line) {
        return Some(KernelStack {
            process: Some(first_chars(process, 100).to_owned()),
            pid: Some(pid),
            is_running: true,
            ..stack
        });
    }
    // BUG: soft lockup - CPU#3 stuck for 23s! [java:30112]
    if let Some(rest) = behind(line, "BUG: soft lockup - CPU#") {
        let (long, task) = rest.split_once(" stuck for ")?.1.split_once("s! [")?;
        let task = task.strip_suffix(']')?;
        let (process, pid) = task.rsplit_once(':')?;
        return Some(KernelStack {
            process: Some(first_chars(process, 100).to_owned()),
            pid: pid.parse().ok(),
            is_running: true,
            locked_up_seconds: Some(long.parse().ok()?),
            ..stack
        });
    }
    // PID: 19246  TASK: ffff880951f70fd0  CPU: 16  COMMAND: "terwayd"
    if let Some(rest) = line.strip_prefix("PID: ") {
        let command = behind(rest, "COMMAND: ")?.trim_matches('"');
        let pid = rest.split_ascii_whitespace().next()?;
        return Some(KernelStack {
            process: Some(first_chars(command, 100).to_owned()),
            pid: pid.parse().ok(),
            ..stack
        });
    }
    // # cat /proc/14378/stack, or with /task/14379 in it
    let at = PROC.find(line.as_bytes())?;
    let (path, _) = line[at + PROC.needle().len()..].split_once("/stack")?;
    let pid = path.rsplit('/').next()?.parse().ok()?;
    Some(KernelStack {
        pid: Some(pid),
        ..stack
    })
}

/// The kernel of `Not tainted 5.4.89+ #1` and `Tainted: G           OE     5.15.0-88-generic #98-Ubuntu`.
fn release(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("ainted")?;
    let words = rest.split_ascii_whitespace();
    let mut releases =
        words.filter(|word| word.starts_with(|c: char| c.is_ascii_digit()) && word.contains('.'));
    releases
        .next()
        .map(|release| first_chars(release, 100).to_owned())
}

/// The process of `CPU: 1 PID: 20417 Comm: exe Not tainted 5.3.0-1034-azure`.
fn running(line: &str) -> Option<(&str, u32)> {
    let rest = line.strip_prefix("CPU: ")?;
    let (before, behind_name) = rest.split_once(" Comm: ")?;
    let pid = behind(before, "PID: ")?.split(' ').next()?;
    let ends = [" Not tainted", " Tainted: ", " Kdump: "];
    let end = ends.iter().filter_map(|end| behind_name.find(end)).min();
    let name = &behind_name[..end.unwrap_or(behind_name.len())];
    Some((name, pid.parse().ok()?))
}

/// The function, and whether it was surely called: of `[<0>] __refrigerator+0x4c/0x130`, ` ? schedule+0x67/0x90 [xfs]` or
/// `#6 [ffff880826267c58] netlink_recvmsg at ffffffff815bb312`, the first without its number with
/// `bt -t`.
fn function(line: &str) -> Option<(&str, bool)> {
    if line.starts_with('#') || line.starts_with("[ffff") {
        let (_, rest) = line.split_once("] ")?;
        let (function, address) = rest.split_once(" at ")?;
        let address = address.split(' ').next()?;
        let real = address.len() >= 8 && address.bytes().all(|byte| byte.is_ascii_hexdigit());
        return (real && is_symbol(function)).then_some((function, true));
    }
    let line = match line.strip_prefix("[<") {
        Some(rest) => rest.split_once(">]")?.1.trim_start(),
        None => line,
    };
    // [<8079d9b0>] (__schedule) from [<8079e018>] (schedule+0x50/0xa8), of 32-bit ARM
    if let Some((name, from)) = line
        .strip_prefix('(')
        .and_then(|rest| rest.split_once(") from [<"))
    {
        let name = name.split([' ', '+']).next().unwrap_or_default();
        return (from.contains(">]") && is_symbol(name)).then_some((name, true));
    }
    let plain = line.strip_prefix("? ");
    let is_reliable = plain.is_none();
    let line = plain.unwrap_or(line);
    let at = OFFSET.find(line.as_bytes())?;
    let (function, offset) = (&line[..at], &line[at + OFFSET.needle().len()..]);
    let (at, rest) = offset.split_once("/0x")?;
    let size = rest.split(' ').next()?;
    let hex = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    (hex(at) && hex(size) && is_symbol(function)).then_some((function, is_reliable))
}

fn is_symbol(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    !text.is_empty() && text.bytes().all(plain)
}

/// The function of `0010:smp_call_function_single+0xce/0xf2`, or behind addresses in brackets.
fn instruction(at: &str) -> Option<String> {
    let (function, _) = function(at.rsplit([':', ' ']).next()?)?;
    Some(first_chars(function, 100).to_owned())
}

/// The function of `Workqueue: netns cleanup_net`.
fn work(line: &str) -> Option<String> {
    let function = behind(line, "Workqueue: ")?.split(' ').nth(1)?;
    is_symbol(function).then(|| first_chars(function, 100).to_owned())
}

/// ` ffff88008d8cfc48 0000000000000046 ffff88029e428000`: the stack as it is in memory, which
/// kernels before 4.9 print in front of the functions.
fn is_raw_words(line: &str) -> bool {
    let is_word = |word: &str| {
        matches!(word.len(), 8 | 16) && word.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let words = line.split_ascii_whitespace();
    !line.is_empty() && words.take(9).all(is_word)
}

fn is_around(line: &str) -> bool {
    const TEXTS: [&str; 15] = [
        "START: ",
        " task.stack: ",
        "Modules linked in: ",
        "Workqueue: ",
        "Call trace:",
        "Hardware name: ",
        "blocked on ",
        "Not tainted",
        "Tainted:",
        "hung_task_timeout_secs",
        "Call Trace:",
        "RIP: ",
        "(via system_call)",
        "<TASK>",
        "</TASK>",
    ];
    let registers = ["RSP: ", "RAX: ", "RDX: ", "RBP: ", "R10: ", "R13: ", "RIP:"];
    // dockerd         D    0  1810      1 0x00004080
    let task = line
        .split_ascii_whitespace()
        .nth(1)
        .is_some_and(|state| matches!(state, "D" | "S" | "R"));
    task || is_raw_words(line)
        || TEXTS.iter().any(|text| line.contains(text))
        || registers.iter().any(|register| line.starts_with(register))
}

fn behind<'a>(line: &'a str, text: &str) -> Option<&'a str> {
    line.find(text).map(|at| &line[at + text.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_all_three_sources_are_read() {
        assert_eq!(
            function("[<0>] __refrigerator+0x4c/0x130"),
            Some(("__refrigerator", true))
        );
        assert_eq!(
            function("[<ffffffff8109>] ? schedule+0x67/0x90 [xfs]"),
            Some(("schedule", false))
        );
        assert_eq!(
            function("ovl_sync_fs+0x2f/0x50 [overlay]"),
            Some(("ovl_sync_fs", true))
        );
        assert_eq!(
            function("#6 [ffff880826267c58] netlink_recvmsg at ffffffff815bb312"),
            Some(("netlink_recvmsg", true))
        );
        for line in [
            "a+b",
            "#6 issue at hand",
            "x+0x1",
            "[<0> x",
            "## [a] b at c",
        ] {
            assert_eq!(function(line), None, "{line}");
        }
    }

    #[test]
    fn a_task_is_named_by_what_stands_in_front() {
        let mut reader = KernelStackReader::default();
        for line in [
            "INFO: task dockerd:1810 blocked for more than 328 seconds.",
            "      Not tainted 5.4.89+ #1",
            "dockerd         D    0  1810      1 0x00004080",
            "Call Trace:",
            " ovl_sync_fs+0x2f/0x50",
            "PID: 19246  TASK: ffff880951f70fd0  CPU: 16  COMMAND: \"terwayd\"",
            "#0 [ffff880826267a40] __schedule at ffffffff816a8f65",
        ] {
            assert!(reader.line(line, 1), "{line}");
        }
        assert!(!reader.line("something else", 8));
        let read = reader.take_done();
        let names: Vec<_> = read
            .iter()
            .map(|stack| (stack.process.as_deref(), stack.pid))
            .collect();
        assert_eq!(
            names,
            [
                (Some("dockerd"), Some(1810)),
                (Some("terwayd"), Some(19246))
            ]
        );
        assert_eq!(read[0].blocked_seconds, Some(328));
    }

    #[test]
    fn what_a_cpu_was_doing_is_no_wait() {
        let mut reader = KernelStackReader::default();
        for line in [
            "CPU: 11 UID: 0 PID: 318 Comm: tmux: server Not tainted 6.12.0 #1",
            "Call Trace:",
            " ext4_filemap_fault+0x31/0x44",
            "INFO: task dockerd:1810 blocked for more than 120 seconds.",
            "ovl_sync_fs+0x2f/0x50",
        ] {
            assert!(reader.line(line, 1), "{line}");
        }
        reader.finish();
        let read = reader.take_done();
        let tasks: Vec<_> = read
            .iter()
            .map(|stack| (stack.process.as_deref(), stack.is_running))
            .collect();
        assert_eq!(
            tasks,
            [(Some("tmux: server"), true), (Some("dockerd"), false)]
        );
    }

    #[test]
    fn raw_words_do_not_cut_a_stack_and_its_work_is_its_end() {
        let mut reader = KernelStackReader::default();
        for line in [
            "INFO: task kworker/u16:2:4127 blocked for more than 120 seconds.",
            "kworker/u16:2   D ffff8801fbc12f40     0  4127      2 0x00000000",
            "Workqueue: netns cleanup_net",
            " ffff8800b9a4bc48 0000000000000046 ffff8801f0d1a180 0000000000012f40",
            "Call Trace:",
            " [<ffffffff814d1c59>] schedule+0x29/0x70",
        ] {
            assert!(reader.line(line, 1), "{line}");
        }
        reader.finish();
        let read = reader.take_done();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].functions, ["schedule", "cleanup_net"]);
    }

    #[test]
    fn a_hung_task_of_new_kernels_is_one_stack() {
        let mut reader = KernelStackReader::default();
        for line in [
            "INFO: task dockerd:1810 blocked for more than 120 seconds.",
            "      Tainted: G           OE     5.15.0-88-generic #98-Ubuntu",
            "task:dockerd         state:D stack:    0 pid: 1810 ppid:     1 flags:0x00004000",
            "Call Trace:",
            " <TASK>",
            " ovl_sync_fs+0x2f/0x50",
            " </TASK>",
            "task:runc            state:D stack:    0 pid:   77 ppid:     1 flags:0x00004000",
            " rtnl_lock+0x15/0x20",
        ] {
            assert!(reader.line(line, 1), "{line}");
        }
        reader.finish();
        let read = reader.take_done();
        let tasks: Vec<_> = read
            .iter()
            .map(|stack| (stack.pid, stack.blocked_seconds, stack.functions.len()))
            .collect();
        assert_eq!(tasks, [(Some(1810), Some(120), 1), (Some(77), None, 1)]);
    }
}
