//! What could not be read for lack of permission, and what grants the permission. Files that do not exist,
//! and files whose read does not return, are not included.

use pleg::out::words::counted;
use serde::Serialize;

use crate::facts::host::{FdUse, HostFacts};
use crate::facts::{Fact, Missing, NodeFacts};

/// Something that could not be read for lack of permission.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotPermitted {
    /// Where it would have been read.
    pub source: String,
    /// The system's error message.
    pub why: String,
    /// What grants the permission: a capability, or being root.
    pub needs: &'static str,
}

/// A capability, with its number.
#[derive(Clone, Copy)]
enum Capability {
    /// Allows reading the files of other users.
    DacReadSearch = 2,
    /// Allows sending a signal.
    Kill = 5,
    /// Allows following the links in `/proc/PID/fd`, and seeing where other processes wait.
    SysPtrace = 19,
    /// Allows reading kernel stacks.
    SysAdmin = 21,
    /// Allows reading the kernel's log where `kernel.dmesg_restrict` is set.
    Syslog = 34,
}

use Capability::{DacReadSearch, Kill, SysAdmin, SysPtrace, Syslog};

impl Capability {
    fn name(self) -> &'static str {
        match self {
            DacReadSearch => "CAP_DAC_READ_SEARCH",
            Kill => "CAP_KILL",
            SysPtrace => "CAP_SYS_PTRACE",
            SysAdmin => "CAP_SYS_ADMIN",
            Syslog => "CAP_SYSLOG",
        }
    }
}

/// All that could not be read for lack of permission: one entry for each capability and kind of file.
pub(crate) fn not_permitted(facts: &NodeFacts) -> Vec<NotPermitted> {
    let NodeFacts { probes, host, .. } = facts;
    let mut found = Found {
        as_root: probes.as_root,
        held: host.capabilities.value().copied().unwrap_or_default(),
        all: Vec::new(),
    };
    found.processes(host);
    found.fact(&host.kernel_log, Syslog);
    found.fact(&probes.stacks, Kill);
    found.fact(&probes.tasks, DacReadSearch);
    found.fact(&host.processes, DacReadSearch);
    found.fact(&host.fanotify, DacReadSearch);
    found.fact(&host.sockets, DacReadSearch);
    found.fact(&host.cgroups.frozen, DacReadSearch);
    found.fact(&host.cgroups.pids, DacReadSearch);
    found.fact(&host.cgroups.memory, DacReadSearch);
    found.fact(&host.pressure.cpu, DacReadSearch);
    found.fact(&host.pressure.io, DacReadSearch);
    found.fact(&host.pressure.memory, DacReadSearch);
    found.fact(&host.mounts, DacReadSearch);
    found.fact(&host.fuse, DacReadSearch);
    for filesystem in &host.filesystems {
        found.fact(filesystem, DacReadSearch);
    }
    found.fact(&host.bus.reach, DacReadSearch);
    found.fact(&host.versions.packages, DacReadSearch);
    found.fact(&host.versions.runc, DacReadSearch);
    found.fact(&host.cni, DacReadSearch);
    found.all
}

/// What has been found so far.
struct Found {
    as_root: bool,
    /// The doctor's own capabilities, as bits.
    held: u64,
    all: Vec<NotPermitted>,
}

impl Found {
    fn fact<T>(&mut self, fact: &Fact<T>, needs: Capability) {
        if let Some(why) = fact.why() {
            self.add(fact.source(), why, needs);
        }
    }

    fn processes(&mut self, host: &HostFacts) {
        let processes = host.all_processes();
        let is_hidden = |fds: &Fact<FdUse>| match fds {
            Fact::Known { value, .. } => value.hidden > 0,
            Fact::Missing { why, .. } => why.is_forbidden(),
        };
        let hidden = processes.iter().filter(|one| is_hidden(&one.fds)).count();
        if hidden > 0 {
            let source = format!(
                "/proc/PID/wchan and /proc/PID/fd of {}",
                counted(hidden, "process")
            );
            self.add(&source, &denied(), SysPtrace);
        }
        let threads = processes.iter().flat_map(|process| &process.threads);
        let reasons = threads.filter_map(|thread| thread.no_stack.as_ref());
        let stacks = reasons.filter(|why| why.is_forbidden()).count();
        if stacks > 0 {
            let source = format!("/proc/PID/stack of {}", counted(stacks, "blocked thread"));
            self.add(&source, &denied(), SysAdmin);
        }
    }

    fn add(&mut self, source: &str, why: &Missing, needs: Capability) {
        // If the capability is held, a security module or a namespace denies access, and no capability
        // would help.
        let is_held = self.held & (1 << needs as u64) != 0;
        if is_held || !why.is_forbidden() {
            return;
        }
        let one = NotPermitted {
            source: source.to_owned(),
            why: why.to_string(),
            // No capability lets a user other than root connect to the runtime.
            needs: if self.as_root { needs.name() } else { "root" },
        };
        if !self.all.contains(&one) {
            self.all.push(one);
        }
    }
}

/// The kernel's error for files in `/proc` to which it denies access.
fn denied() -> Missing {
    Missing::Forbidden("permission denied".to_owned())
}

impl NotPermitted {
    /// Where it would have been read, and why it was not.
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.source, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::host::{Process, Thread};
    use crate::node::node;

    fn forbidden<T>(source: &str) -> Fact<T> {
        Fact::missing(Missing::Forbidden("operation not permitted".into()), source)
    }

    fn process(pid: u32, hidden: u64, no_stack: Option<Missing>) -> Process {
        let fds = FdUse {
            open: 7,
            hidden,
            ..FdUse::default()
        };
        let thread = Thread {
            no_stack,
            ..Thread::default()
        };
        Process {
            pid,
            fds: Fact::known(fds, format!("/proc/{pid}/fd")),
            threads: vec![thread],
            ..Process::default()
        }
    }

    fn lines(facts: &NodeFacts) -> Vec<String> {
        let all = not_permitted(facts);
        let line = |one: &NotPermitted| format!("{}; {}", one.sentence(), one.needs);
        all.iter().map(line).collect()
    }

    #[test]
    fn each_permission_that_root_lacks_is_one_line_with_what_grants_it() {
        let mut facts = node("containerd", "2.1.4").facts();
        facts.probes.as_root = true;
        assert_eq!(lines(&facts), [""; 0]);
        facts.host.kernel_log = forbidden("/dev/kmsg");
        let refused = Some(Missing::Forbidden("permission denied".into()));
        let processes = vec![
            process(1, 7, refused.clone()),
            process(2, 0, None),
            process(3, 1, refused),
        ];
        facts.host.processes = Fact::known(processes, "/proc");
        let expected = [
            "/proc/PID/wchan and /proc/PID/fd of 2 processes: permission denied; CAP_SYS_PTRACE",
            "/proc/PID/stack of 2 blocked threads: permission denied; CAP_SYS_ADMIN",
            "/dev/kmsg: operation not permitted; CAP_SYSLOG",
        ];
        assert_eq!(lines(&facts), expected);
        // A capability that is held is not the one that is missing.
        facts.host.capabilities = Fact::known(1 << 19 | 1 << 34, "/proc/self/status");
        assert_eq!(lines(&facts), expected[1..2]);
        facts.host.capabilities = Fact::default();
        facts.probes.as_root = false;
        assert!(lines(&facts).iter().all(|line| line.ends_with("; root")));
    }

    #[test]
    fn a_file_that_does_not_exist_or_does_not_respond_is_not_reported_as_forbidden() {
        let mut facts = node("containerd", "2.1.4").facts();
        for why in [
            Missing::NotThere("no such file or directory".into()),
            Missing::blocked(std::time::Duration::from_secs(1)),
            Missing::System("no such device".into()),
        ] {
            facts.host.kernel_log = Fact::missing(&why, "/dev/kmsg");
            facts.host.fuse = Fact::missing(&why, "/sys/fs/fuse/connections");
            facts.host.processes = Fact::known(vec![process(1, 0, Some(why))], "/proc");
            assert_eq!(lines(&facts), [""; 0]);
        }
    }
}
