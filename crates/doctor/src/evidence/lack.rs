//! Why a judge has no opinion: which facts are missing, and their source.

use pleg::out::words::counted;

use crate::facts::host::{Gap, HostFacts};
use crate::facts::{Fact, Missing, ProbeFacts};

/// Why nothing is known about the runtime.
pub(crate) const NOT_PROBED: &str = "the runtime was not probed";

/// Why nothing is known about single containers.
pub(crate) const NOT_ANSWERED: &str = "the runtime does not answer";

/// Why a fact is missing, with its source.
pub(crate) fn lack<T>(fact: &Fact<T>) -> Option<String> {
    let why = fact.why()?;
    Some(match fact.source() {
        "" => why.to_string(),
        source => format!("{source}: {why}"),
    })
}

/// Why the containers in the runtime's state directories are not known.
pub(crate) fn lack_of_tasks(probes: &ProbeFacts) -> Option<String> {
    match probes.tasks.why()? {
        Missing::NotAsked => Some(NOT_PROBED.to_owned()),
        _ => lack(&probes.tasks),
    }
}

/// Why not all processes are known.
pub(crate) fn lack_of_processes(host: &HostFacts) -> Option<String> {
    let unread = || host.gaps.first_of("stat").map(unread);
    let not_in_time = || {
        let count = host.gaps.processes;
        (count > 0).then(|| format!("{} could not be read in time", counted(count, "process")))
    };
    lack(&host.processes).or_else(unread).or_else(not_in_time)
}

/// Why the control groups of some processes are not known.
pub(crate) fn lack_of_groups(host: &HostFacts) -> Option<String> {
    lack_of_processes(host).or_else(|| host.gaps.first_of("cgroup").map(unread))
}

fn unread(gap: &Gap) -> String {
    format!("{}: {}", gap.file, gap.why)
}
