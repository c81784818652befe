//! What could not be read for lack of a right, and what grants it. What does not exist on this
//! machine, or did not answer, is no matter of rights.

use pleg::out::words::counted;
use serde::Serialize;

use crate::facts::host::{FdUse, HostFacts, Thread};
use crate::facts::{Fact, Missing, NodeFacts};

/// Something that could not be read for lack of a right.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotPermitted {
    /// Where it would have been read.
    pub source: String,
    /// The system's words.
    pub why: String,
    /// What grants the right: a capability, or to be root.
    pub needs: &'static str,
}

/// To follow the links in `/proc/PID/fd`, and to see where others wait.
const PTRACE: &str = "CAP_SYS_PTRACE";
/// To read the kernel's log, where `kernel.dmesg_restrict` is set.
const SYSLOG: &str = "CAP_SYSLOG";
/// To read kernel stacks.
const ADMIN: &str = "CAP_SYS_ADMIN";
/// To read files that belong to others.
const READ: &str = "CAP_DAC_READ_SEARCH";
/// To send a signal.
const KILL: &str = "CAP_KILL";

/// All of it, one entry for each right and kind of file.
pub(crate) fn not_permitted(facts: &NodeFacts) -> Vec<NotPermitted> {
    let NodeFacts { probes, host, .. } = facts;
    let mut found = Found {
        as_root: probes.as_root,
        all: Vec::new(),
    };
    found.processes(host);
    found.fact(&host.kernel_log, SYSLOG);
    found.fact(&probes.stacks, KILL);
    found.fact(&probes.tasks, READ);
    found.fact(&host.processes, READ);
    found.fact(&host.fanotify, READ);
    found.fact(&host.sockets, READ);
    found.fact(&host.cgroups.frozen, READ);
    found.fact(&host.cgroups.pids, READ);
    found.fact(&host.cgroups.memory, READ);
    found.fact(&host.pressure.cpu, READ);
    found.fact(&host.pressure.io, READ);
    found.fact(&host.pressure.memory, READ);
    found.fact(&host.mounts, READ);
    found.fact(&host.fuse, READ);
    for filesystem in &host.filesystems {
        found.fact(filesystem, READ);
    }
    found.fact(&host.bus.reach, READ);
    found.fact(&host.versions.packages, READ);
    found.fact(&host.versions.runc, READ);
    found.fact(&host.cni, READ);
    found.all
}

struct Found {
    as_root: bool,
    all: Vec<NotPermitted>,
}

impl Found {
    fn fact<T>(&mut self, fact: &Fact<T>, needs: &'static str) {
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
            self.add(&source, &denied(), PTRACE);
        }
        let threads = processes.iter().flat_map(|process| &process.threads);
        let is_forbidden =
            |thread: &&Thread| thread.no_stack.as_ref().is_some_and(Missing::is_forbidden);
        let stacks = threads.filter(is_forbidden).count();
        if stacks > 0 {
            let source = format!("/proc/PID/stack of {}", counted(stacks, "blocked thread"));
            self.add(&source, &denied(), ADMIN);
        }
    }

    fn add(&mut self, source: &str, why: &Missing, needs: &'static str) {
        if !why.is_forbidden() {
            return;
        }
        let one = NotPermitted {
            source: source.to_owned(),
            why: why.to_string(),
            // Capabilities are of no use to somebody else, who cannot connect to the runtime.
            needs: if self.as_root { needs } else { "root" },
        };
        if !self.all.contains(&one) {
            self.all.push(one);
        }
    }
}

/// As the kernel has it for all of these.
fn denied() -> Missing {
    Missing::Forbidden("permission denied".to_owned())
}

impl NotPermitted {
    /// Where and why, as a cause that needs it says it.
    pub fn sentence(&self) -> String {
        format!("{}: {}", self.source, self.why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::host::Process;
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
    fn each_right_that_root_lacks_is_one_line_with_what_grants_it() {
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
        facts.probes.as_root = false;
        assert!(lines(&facts).iter().all(|line| line.ends_with("; root")));
    }

    #[test]
    fn what_is_not_there_or_does_not_answer_lacks_no_right() {
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
