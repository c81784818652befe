//! The processes that run containers, as `/proc` shows them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::is_id;

/// How long a `runc` command may take, unless it is a session ([`RuncCommand::is_session`]). It normally
/// takes less than a second. On a slow disk it may exceed the limit of the call that waits for it; it must
/// not be killed for that.
pub const RUNC_OVERDUE_AFTER: Duration = Duration::from_secs(30);

/// The fields of `/proc/PID/stat` that are read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// The name, which may contain any character.
    pub comm: String,
    /// `R`, `S`, `D`, `T`, `Z` and others.
    pub state: char,
    /// The parent.
    pub ppid: u32,
    /// The kernel's flags of the task.
    pub flags: u64,
    /// Minor page faults of the children that it has waited for. The number grows with each such child.
    pub child_faults: u64,
    /// Ticks in user mode and in the kernel.
    pub ticks: u64,
    /// How many threads it has.
    pub threads: u32,
    /// Ticks from the start of the machine to the start of the process.
    pub start: u64,
    /// The number of resident pages.
    pub resident: Option<u64>,
    /// Whether it was killed: SIGKILL is pending for its first thread, or a signal is ending that thread.
    pub is_killed: bool,
}

/// The flag of a task that is ending (`PF_EXITING`).
const ENDING: u64 = 0x4;

/// The flag of a task that a signal is ending (`PF_SIGNALED`), even while a tracer delays its end.
const SIGNALED: u64 = 0x400;

impl ProcessStat {
    /// Parses `/proc/PID/stat`, such as `1 (systemd) S 0 1 1 0 -1 4194560 …`. The name may even contain
    /// `) S 1`.
    pub fn parse(text: &str) -> Option<Self> {
        let (front, back) = text.rsplit_once(") ")?;
        let (_, comm) = front.split_once(" (")?;
        let fields: Vec<&str> = back.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        let flags = number(6)?;
        let is_kill_pending = number(28).is_some_and(|pending| pending & KILL != 0);
        Some(Self {
            comm: comm.to_owned(),
            state: fields.first()?.chars().next()?,
            ppid: number(1)? as u32,
            flags,
            child_faults: number(8)?,
            ticks: number(11)? + number(12)?,
            threads: number(17)? as u32,
            start: number(19)?,
            resident: number(21),
            is_killed: is_kill_pending || flags & SIGNALED != 0,
        })
    }

    /// Whether it is ending but has not ended: it was killed, or its first thread is ending or has ended.
    pub fn is_ending(&self) -> bool {
        let first_is_ending = self.flags & ENDING != 0 || self.state == 'Z';
        !self.has_ended() && (self.is_killed || first_is_ending)
    }

    /// Whether it has ended, and its parent has not waited for it yet.
    pub fn has_ended(&self) -> bool {
        has_ended(self.state, self.threads)
    }
}

/// Whether a process has ended, given the state of its first thread and its number of threads. While other
/// threads live on, the kernel still counts a first thread that has ended.
pub fn has_ended(state: char, threads: u32) -> bool {
    matches!(state, 'Z' | 'X') && threads <= 1
}

/// SIGKILL in a set of signals.
const KILL: u64 = 1 << 8;

/// The lines of `/proc/PID/status` that are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessStatus {
    /// The effective user.
    pub uid: Option<u32>,
    /// The pending signal that is to end the process, whether sent to its first thread or to the process.
    pub pending: Option<EndSignal>,
    /// The process that traces it. A tracer in another PID namespace is not known.
    pub tracer: Option<u32>,
}

/// A signal that ends containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum EndSignal {
    /// SIGTERM, which a process may handle or ignore.
    Term,
    /// SIGKILL, which ends a process as soon as it can run or returns to user mode.
    Kill,
}

impl EndSignal {
    /// The name of the signal.
    pub fn name(self) -> &'static str {
        match self {
            Self::Term => "SIGTERM",
            Self::Kill => "SIGKILL",
        }
    }

    /// The stronger signal in a set of pending signals.
    fn of(pending: u64) -> Option<Self> {
        const TERM: u64 = 1 << 14;
        match (pending & KILL != 0, pending & TERM != 0) {
            (true, _) => Some(Self::Kill),
            (false, true) => Some(Self::Term),
            (false, false) => None,
        }
    }
}

impl ProcessStatus {
    /// Parses `/proc/PID/status`.
    pub fn parse(text: &str) -> Self {
        let line = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
        let pending = ["SigPnd:", "ShdPnd:"].into_iter().filter_map(line);
        let pending = pending.filter_map(|set| u64::from_str_radix(set.trim(), 16).ok());
        let effective = |ids: &str| ids.split_ascii_whitespace().nth(1)?.parse::<u32>().ok();
        let tracer = line("TracerPid:").and_then(|pid| pid.trim().parse::<u32>().ok());
        Self {
            uid: line("Uid:").and_then(effective),
            pending: EndSignal::of(pending.fold(0, |all, set| all | set)),
            tracer: tracer.filter(|pid| *pid != 0),
        }
    }
}

/// Whether a process with this name is a `runc` command.
pub fn is_runc(comm: &str) -> bool {
    matches!(comm, "runc" | "crun" | "docker-runc")
}

/// Whether a process with this name is a containerd shim or a conmon. The kernel truncates names after 15
/// bytes.
pub fn is_shim(comm: &str) -> bool {
    comm.starts_with("containerd-shim") || comm == "conmon"
}

/// The subcommand of a `runc` process and its container. The rest of the command line is not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RuncCommand {
    /// The subcommand, such as `create` or `kill`.
    pub verb: String,
    /// The id of the container.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}

/// The subcommands that daemons and shims use.
const VERBS: [&str; 15] = [
    "checkpoint",
    "create",
    "delete",
    "events",
    "exec",
    "features",
    "kill",
    "pause",
    "ps",
    "restore",
    "resume",
    "run",
    "start",
    "state",
    "update",
];

impl RuncCommand {
    /// Parses `/proc/PID/cmdline`, in which a zero byte ends each argument.
    pub fn parse(cmdline: &str) -> Option<Self> {
        let mut arguments = cmdline.split('\0').skip(1);
        let verb = arguments.find(|argument| VERBS.contains(argument))?;
        Some(Self {
            verb: verb.to_owned(),
            container: arguments.find(|id| is_id(id)).map(str::to_owned),
        })
    }

    /// Whether it may run for as long as a process in the container.
    pub fn is_session(&self) -> bool {
        matches!(self.verb.as_str(), "exec" | "run" | "events")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_looks_like_fields_is_read_as_a_name() {
        let stat = |state: char, threads: u32| {
            let line = format!(
                "77 (a) R 1 (b)) {state} 12 77 77 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 {threads} 0 9900 1 250"
            );
            ProcessStat::parse(&line).unwrap()
        };
        let alive = stat('S', 3);
        assert_eq!(alive.comm, "a) R 1 (b)");
        assert_eq!((alive.state, alive.ppid, alive.ticks), ('S', 12, 110));
        assert_eq!((alive.threads, alive.start), (3, 9900));
        assert_eq!(alive.child_faults, 2);
        assert_eq!(alive.resident, Some(250));
        assert!(!alive.has_ended() && stat('Z', 1).has_ended());
        assert!(!stat('Z', 3).has_ended(), "two threads live");
        assert_eq!(ProcessStat::parse("77 (runc"), None);
    }

    #[test]
    fn a_killed_or_exiting_process_that_has_not_ended_is_ending() {
        let is_ending = |state: char, flags: u64, threads: u32, pending: u64| {
            let line = format!(
                "7 (app) {state} 1 7 7 0 -1 {flags} 1 2 3 4 5 6 7 8 20 0 {threads} 0 9 1 2 3 4 5 6 7 8 {pending} 0"
            );
            ProcessStat::parse(&line).unwrap().is_ending()
        };
        let none = 4_194_560;
        assert!(!is_ending('S', none, 1, 0) && !is_ending('D', none, 1, 1 << 14));
        assert!(is_ending('D', none, 1, 1 << 8), "SIGKILL is pending");
        assert!(is_ending('D', none | 4, 1, 0), "it waits while it ends");
        assert!(
            is_ending('t', none | 0x400, 1, 0),
            "a tracer holds it up before its end"
        );
        assert!(is_ending('Z', none | 4, 2, 0), "another thread lives on");
        assert!(!is_ending('Z', none | 4, 1, 0), "it has ended");
    }

    #[test]
    fn only_the_subcommand_and_the_container_of_a_runc_are_read() {
        let id = "0123456789abcdef".repeat(4);
        let command = |line: &str| RuncCommand::parse(&line.replace(' ', "\0"));
        let kill = command(&format!("runc --root /run/runc kill {id} 9")).unwrap();
        assert_eq!((&*kill.verb, kill.container), ("kill", Some(id)));
        assert!(
            command("runc --root /run/runc exec --process x 12")
                .unwrap()
                .is_session()
        );
        assert_eq!(command("runc --version"), None);
        assert_eq!(command(""), None);
    }

    #[test]
    fn a_pending_signal_and_the_tracer_are_read() {
        let status = |thread: u64, shared: u64, tracer: u32| {
            ProcessStatus::parse(&format!(
                "Uid:\t7\t0\nTracerPid:\t{tracer}\nSigPnd:\t{thread:016x}\nShdPnd:\t{shared:016x}\n"
            ))
        };
        for (thread, shared, expected) in [
            (0, 0, None),
            (1 << 16, 1, None),
            (0, 1 << 14, Some(EndSignal::Term)),
            (1 << 8, 1 << 14, Some(EndSignal::Kill)),
            (0, 1 << 8, Some(EndSignal::Kill)),
        ] {
            assert_eq!(status(thread, shared, 0).pending, expected);
        }
        assert_eq!(status(0, 0, 0).tracer, None);
        assert_eq!(status(0, 0, 77).tracer, Some(77));
        assert_eq!(status(0, 0, 0).uid, Some(0));
        assert_eq!(ProcessStatus::parse(""), ProcessStatus::default());
    }
}
