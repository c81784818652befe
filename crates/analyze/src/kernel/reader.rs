//! Builds kernel stacks from lines.

use super::lines::{
    beginning, below_path, decider, function, instruction, is_around, is_heading, is_logged, name,
    release, stuck, work,
};
use crate::kind::Kind;

/// The stack of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KernelStack {
    /// The task's name.
    pub process: Option<String>,
    /// The task's process id.
    pub pid: Option<u32>,
    /// Whether the task was running when the kernel printed the stack, so that it does not wait.
    pub is_running: bool,
    /// How long the task has kept its processor, if the kernel reports a lock-up.
    pub locked_up_seconds: Option<u64>,
    /// How long the task has been blocked, if the kernel reports that.
    pub blocked_seconds: Option<u64>,
    /// The function that the processor was in.
    pub instruction: Option<String>,
    /// The functions on the stack, from the innermost outwards.
    pub functions: Vec<String>,
    /// Whether the task's program decides, by fanotify, which files other processes may open.
    pub decides_on_files: bool,
    /// The kernel's release.
    pub release: Option<String>,
    /// The number of the stack's first line.
    pub line: u64,
}

impl KernelStack {
    /// Whether the name of a function in the stack begins with this text.
    pub fn calls(&self, function: &str) -> bool {
        let mut functions = self.functions.iter();
        functions.any(|name| name.starts_with(function))
    }

    /// The task as `dockerd (1810)`, or the part of this that is known; `None` if nothing is.
    pub fn task(&self) -> Option<String> {
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
    /// Whether the kernel printed the current stack in its log; otherwise it is from `/proc` or `crash`.
    is_logged: bool,
    /// The outermost function of a kernel worker, from a line before the stack: the stack itself may be
    /// cut.
    work: Option<String>,
    /// Frames that the kernel marks with `?`: they may be left over from earlier calls.
    unreliable: Vec<String>,
    /// The last task that was reported as locking up its processor, and for how many seconds. Other lines
    /// may precede its stack.
    locked_up: Option<(u32, u64)>,
    /// The previous line, if it was only a number: the id of the task whose stack may follow.
    number_before: Option<u32>,
    /// Whether the previous line was the heading of a stack in a log.
    follows_heading: bool,
    /// The number of a line with the kernel's registers: the next stack is that of a running task.
    registers: Option<u64>,
    /// The programs that decide which files other processes may open.
    deciders: Vec<String>,
    done: Vec<KernelStack>,
}

/// The maximum number of lines between the registers and the stack, even if a mail has wrapped them.
const REGISTER_LINES: u64 = 40;

/// How many programs are kept. No node has more that use fanotify.
const MAX_DECIDERS: usize = 16;

const MAX_FUNCTIONS: usize = 64;

impl KernelStackReader {
    /// Reads a line of the kernel's log, which also reports programs that use fanotify.
    pub fn log_line(&mut self, line: &str, number: u64) {
        if self.deciders.len() < MAX_DECIDERS
            && let Some(process) = decider(line)
        {
            self.deciders.push(name(process));
        }
        self.line(line, number);
    }

    /// Reads a line without its prefix; returns whether it is part of a kernel stack.
    pub fn line(&mut self, line: &str, number: u64) -> bool {
        let line = line.trim();
        let number_before = self.number_before.take();
        let follows_heading = std::mem::take(&mut self.follows_heading);
        if line.contains("RIP: 0010:") {
            self.registers = Some(number);
        }
        self.locked_up = stuck(line).or(self.locked_up);
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
                self.is_logged = false;
            }
            self.frame(function, is_reliable);
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
            let process = stack.process.as_ref();
            stack.decides_on_files = process.is_some_and(|name| self.deciders.contains(name));
            stack.release = release(line);
            // A hung task is named twice before its only stack.
            let known = self.current.as_mut();
            let again = known.filter(|known| known.functions.is_empty() && known.pid == stack.pid);
            if let Some(known) = again {
                known.release = known.release.take().or(stack.release);
                return true;
            }
            self.finish();
            self.registers = None;
            self.is_logged = is_logged(line);
            self.current = Some(stack);
            return true;
        }
        if let Some((function, is_reliable)) = function(line) {
            if self.current.is_none() {
                let registers = self.registers.take();
                self.is_logged = registers.is_some() || follows_heading;
                let is_running = registers.is_some_and(|at| number <= at + REGISTER_LINES);
                let locked_up = self.locked_up.filter(|_| is_running);
                self.current = Some(KernelStack {
                    pid: locked_up.map(|(pid, _)| pid).or(number_before),
                    is_running,
                    locked_up_seconds: locked_up.map(|(_, seconds)| seconds),
                    line: number,
                    ..KernelStack::default()
                });
            }
            self.frame(function, is_reliable);
            return true;
        }
        if let Some(stack) = self.current.as_mut().filter(|_| is_around(line)) {
            self.work = self.work.take().or_else(|| work(line));
            let address = || instruction(line.split_once("RIP: ")?.1);
            stack.instruction = stack.instruction.take().or_else(address);
            stack.release = stack.release.take().or_else(|| release(line));
            return true;
        }
        self.number_before = line.parse().ok();
        self.follows_heading = is_heading(line);
        self.finish();
        false
    }

    fn frame(&mut self, function: &str, is_reliable: bool) {
        let unreliable = &mut self.unreliable;
        let stack = self.current.get_or_insert_default();
        let frames = match is_reliable {
            true => &mut stack.functions,
            false => unreliable,
        };
        if frames.len() < MAX_FUNCTIONS {
            frames.push(name(function));
        }
    }

    /// Ends the current stack.
    pub fn finish(&mut self) {
        let unreliable = std::mem::take(&mut self.unreliable);
        let work = self.work.take();
        let mut stack = self.current.take();
        // Kernels without frame pointers mark all frames.
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

    /// The kind of input that the current stack belongs to.
    pub fn kind(&self) -> Kind {
        match self.is_logged {
            true => Kind::KernelLog,
            false => Kind::KernelStack,
        }
    }

    /// Whether a stack is being read.
    pub fn is_inside(&self) -> bool {
        self.current.is_some()
    }

    /// The stacks that are complete.
    pub fn take_done(&mut self) -> Vec<KernelStack> {
        std::mem::take(&mut self.done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The stacks in these lines; each line must belong to a stack.
    #[track_caller]
    fn stacks(lines: &[&str]) -> Vec<KernelStack> {
        let mut reader = KernelStackReader::default();
        for line in lines {
            assert!(reader.line(line, 1), "{line}");
        }
        reader.finish();
        reader.take_done()
    }

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
    fn the_line_in_front_of_a_stack_names_the_task() {
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
    fn a_running_task_does_not_wait() {
        let read = stacks(&[
            "CPU: 11 UID: 0 PID: 318 Comm: tmux: server Not tainted 6.12.0 #1",
            "Call Trace:",
            " ext4_filemap_fault+0x31/0x44",
            "INFO: task dockerd:1810 blocked for more than 120 seconds.",
            "ovl_sync_fs+0x2f/0x50",
        ]);
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
    fn raw_words_do_not_end_a_stack_and_the_work_is_its_last_function() {
        let read = stacks(&[
            "INFO: task kworker/u16:2:4127 blocked for more than 120 seconds.",
            "kworker/u16:2   D ffff8801fbc12f40     0  4127      2 0x00000000",
            "Workqueue: netns cleanup_net",
            " ffff8800b9a4bc48 0000000000000046 ffff8801f0d1a180 0000000000012f40",
            "Call Trace:",
            " [<ffffffff814d1c59>] schedule+0x29/0x70",
        ]);
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].functions, ["schedule", "cleanup_net"]);
    }

    #[test]
    fn a_hung_task_of_new_kernels_is_one_stack() {
        let read = stacks(&[
            "INFO: task dockerd:1810 blocked for more than 120 seconds.",
            "      Tainted: G           OE     5.15.0-88-generic #98-Ubuntu",
            "task:dockerd         state:D stack:    0 pid: 1810 ppid:     1 flags:0x00004000",
            "Call Trace:",
            " <TASK>",
            " ovl_sync_fs+0x2f/0x50",
            " </TASK>",
            "task:runc            state:D stack:    0 pid:   77 ppid:     1 flags:0x00004000",
            " rtnl_lock+0x15/0x20",
        ]);
        let tasks: Vec<_> = read
            .iter()
            .map(|stack| (stack.pid, stack.blocked_seconds, stack.functions.len()))
            .collect();
        assert_eq!(tasks, [(Some(1810), Some(120), 1), (Some(77), None, 1)]);
    }
}
