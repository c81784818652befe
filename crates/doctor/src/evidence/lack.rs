//! Why a judge cannot tell: which facts are missing, and where they would have been read.

use pleg::out::words::counted;

use crate::facts::Fact;
use crate::facts::host::{Gap, HostFacts};

/// Why a fact is not known, with where it would have been read.
pub(crate) fn lack<T>(fact: &Fact<T>) -> Option<String> {
    let why = fact.why()?;
    Some(match fact.source() {
        "" => why.to_string(),
        source => format!("{source}: {why}"),
    })
}

/// Why not everything that runs is known.
pub(crate) fn lack_of_processes(host: &HostFacts) -> Option<String> {
    let gaps = &host.gaps;
    let unread = || gaps.first_of("stat").map(unread);
    let unreached = || {
        (gaps.processes > 0).then(|| {
            let unread = counted(gaps.processes, "process");
            format!("before the time was over {unread} could not be read")
        })
    };
    lack(&host.processes).or_else(unread).or_else(unreached)
}

/// Why it is not known of everything that runs in which control group it is.
pub(crate) fn lack_of_groups(host: &HostFacts) -> Option<String> {
    lack_of_processes(host).or_else(|| host.gaps.first_of("cgroup").map(unread))
}

fn unread(gap: &Gap) -> String {
    format!("{}: {}", gap.file, gap.why)
}
