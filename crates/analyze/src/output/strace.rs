//! `strace`: the calls of a process that hangs.

use causes::Cause;
use causes::finding::Confidence;

use super::{Seen, has_any};
use crate::proof::Proof;

/// What the calls until now did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Strace {
    freezing: u32,
    on_the_bus: bool,
    /// It has connected to a runtime's socket.
    asks_runtime: bool,
    /// It reads the command line of a process.
    reads_cmdline: bool,
}

/// A process that reads it this often polls for a cgroup that does not freeze.
const MIN_POLLS: u32 = 3;

/// `16:03:12.118204 futex(0x12a0ff0, FUTEX_WAIT, …`, `[pid 4119] read(37, …`, `futex(0x…`.
pub(super) fn begins(text: &str) -> bool {
    call(text).is_some_and(|(name, arguments)| {
        CALLS.contains(&name) || SHORT_CALLS.contains(&name) && arguments.contains(" = ")
    })
}

/// People write of these, too, so their result is needed.
const SHORT_CALLS: [&str; 7] = [
    "close", "getpid", "mount", "prctl", "stat", "unshare", "write",
];

const CALLS: [&str; 24] = [
    "accept4",
    "clone",
    "connect",
    "epoll_pwait",
    "epoll_wait",
    "execve",
    "flock",
    "futex",
    "ioctl",
    "nanosleep",
    "newfstatat",
    "open",
    "openat",
    "poll",
    "ppoll",
    "read",
    "recvfrom",
    "recvmsg",
    "restart_syscall",
    "select",
    "statfs",
    "umount2",
    "wait4",
    "waitid",
];

const RUNTIME_SOCKETS: [&str; 4] = [
    "/docker.sock\"",
    "containerd.sock\"",
    "/crio.sock\"",
    "/dockershim.sock\"",
];

/// They ask the file system.
const FILE_CALLS: [&str; 9] = [
    "statfs",
    "fstatfs",
    "stat",
    "lstat",
    "newfstatat",
    "openat",
    "open",
    "umount2",
    "getdents64",
];

/// Where a kubelet mounts the volumes of pods.
const VOLUMES: [&str; 2] = ["/volumes/kubernetes.io~", "/globalmount"];

/// A client of a socket waits in one of these.
const WAITS: [&str; 6] = [
    "recvmsg",
    "ppoll",
    "poll",
    "read",
    "epoll_wait",
    "epoll_pwait",
];

/// For so long clients wait for an answer of the bus: what is left of 25 seconds.
const BUS_TIMEOUT: [&str; 5] = ["{24, ", "{25, ", "tv_sec=24,", "tv_sec=25,", ", 25000)"];

/// The system call of a line, and its arguments.
fn call(text: &str) -> Option<(&str, &str)> {
    let mut rest = text;
    // How many there are, where `uniq -c` has counted them.
    if let Some((count, behind)) = rest.split_once(" [pid ")
        && !count.is_empty()
        && count.bytes().all(|byte| byte.is_ascii_digit())
    {
        rest = &rest[rest.len() - behind.len() - "[pid ".len()..];
    }
    if let Some(behind) = rest.strip_prefix("[pid ") {
        rest = behind.split_once("] ")?.1;
    }
    let first = rest.split(' ').next()?;
    if first.contains(':')
        && first
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b":.".contains(&byte))
    {
        rest = rest.get(first.len() + 1..)?;
    }
    let (name, arguments) = rest.split_once('(')?;
    let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    (!name.is_empty() && name.bytes().all(plain)).then_some((name, arguments))
}

impl Strace {
    /// Reads a line.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        // In bold, where a person has marked it.
        let text = text.trim_matches('*');
        // The end of a call, which other threads' calls came between.
        if text.contains("<... read resumed> \"FREEZING") {
            self.freezes(line, seen);
        }
        let Some((name, arguments)) = call(text) else {
            return;
        };
        let is_unfinished = !arguments.contains(" = ");
        if arguments.contains("system_bus_socket") || arguments.contains("/run/systemd/private") {
            self.on_the_bus = true;
        }
        if name == "connect" && !is_unfinished && has_any(arguments, &RUNTIME_SOCKETS) {
            self.asks_runtime = arguments.ends_with("= 0");
        }
        // Go's threads wait for one another.
        let waits = WAITS.contains(&name);
        if self.asks_runtime && is_unfinished && (waits || name == "futex") {
            self.asks_runtime = false;
            let says = "a client is connected to the runtime's socket and waits for an answer";
            let cause = Cause::RuntimeUnresponsive;
            seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        }
        if name == "read" && arguments.contains("\"FREEZING") {
            self.freezes(line, seen);
        }
        if name == "write" && arguments.contains("init seccomp caused") {
            let says = "`runc init` was blocked in writing the reason why it cannot load its \
                        seccomp filter";
            let cause = Cause::RuncSeccompPipe;
            seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        }
        let in_vain = arguments.ends_with("= 0 (Timeout)") && has_any(arguments, &BUS_TIMEOUT);
        if self.on_the_bus && waits && (is_unfinished || in_vain) {
            self.on_the_bus = false;
            let says = "the process waits for a reply on the system bus";
            seen.proof(Proof::new(
                Cause::BusUnavailable,
                Confidence::Medium,
                line,
                says,
            ));
        }
        let is_cut = is_unfinished && !arguments.ends_with("<unfinished ...>");
        if name == "read" && is_cut && self.reads_cmdline {
            let says = "reading the command line of a process hangs: that process, or its memory, \
                        is blocked in the kernel";
            seen.trouble(line, says);
        }
        if name != "read" {
            self.reads_cmdline = name.starts_with("open") && arguments.contains("/cmdline\"");
        }
        if FILE_CALLS.contains(&name) && is_cut && has_any(arguments, &VOLUMES) {
            let says = format!("the process waits in {name} for a volume of a pod");
            let cause = Cause::StorageUnresponsive;
            seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        }
        if arguments.contains("/exec.fifo\"") && is_unfinished {
            let says = "`runc start` waits until `runc init` opens its end of exec.fifo";
            let cause = Cause::RuncInitFrozen;
            seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        }
        if name == "unshare" && arguments.contains("CLONE_NEWNET") && is_unfinished {
            let says = "the process waits for a new network namespace, which the kernel makes \
                        under the lock of all network namespaces";
            let cause = Cause::RtnlStuck;
            seen.proof(Proof::new(cause, Confidence::Medium, line, says));
        }
        if arguments.contains("xtables.lock") && name == "flock" && is_unfinished {
            let says = "the process waits for the iptables lock (xtables.lock)";
            seen.proof(Proof::new(
                Cause::CniPluginHang,
                Confidence::Medium,
                line,
                says,
            ));
        }
    }

    fn freezes(&mut self, line: u64, seen: &mut Seen) {
        self.freezing += 1;
        let found = match self.freezing {
            1 => Some((Confidence::Low, "a cgroup is in state FREEZING")),
            MIN_POLLS => Some((Confidence::Medium, "a cgroup stays in state FREEZING")),
            _ => None,
        };
        if let Some((confidence, says)) = found {
            seen.proof(Proof::new(Cause::RuncInitFrozen, confidence, line, says));
        }
    }
}
