//! Which versions have which fault, by the tables in `facts.yaml`.
//!
//! ```
//! use causes::versions::{Fault, SerialOverflow, has_fault, serial_overflow};
//!
//! assert_eq!(has_fault(Fault::ShortExec, "1.3.4"), Some(true));
//! assert_eq!(has_fault(Fault::ShortExec, "1.3.6"), Some(false));
//! assert_eq!(serial_overflow("219", None), SerialOverflow::Unknown);
//! assert_eq!(serial_overflow("252", None), SerialOverflow::Repaired);
//! ```

mod number;

use serde::Deserialize;

use crate::facts::facts;
pub use number::Version;

/// Versions of a program from `first` on, before `fixed`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    first: Version,
    fixed: Version,
}

/// Whether a version is older than a release; also if either is no version.
pub fn is_older(version: &str, release: &str) -> bool {
    let versions = Version::parse(version).zip(Version::parse(release));
    versions.is_none_or(|(version, release)| version < release)
}

/// A fault of some versions of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// runc waits forever on its own seccomp pipe.
    SeccompPipe,
    /// `runc exec` of a process that exits quickly does not return.
    ShortExec,
    /// Each `runc exec` mounts and unmounts its own program, and systemd reads all mounts each time.
    MountsForExec,
    /// The kernel never frees some memory control groups.
    MemoryCgroupLeak,
}

/// Whether a version of runc, or for [`Fault::MemoryCgroupLeak`] a release of the kernel, has a fault;
/// `None` if it is not a version.
pub fn has_fault(fault: Fault, version: &str) -> Option<bool> {
    if fault == Fault::MemoryCgroupLeak {
        return Some(leaks_memory_cgroups(version));
    }
    let version = Version::parse(version)?;
    let has = |range: &Range| range.first <= version && version < range.fixed;
    Some(facts().runc[&fault].iter().any(has))
}

/// Which versions of systemd start their serial numbers again at half of them.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SystemdSerials {
    /// All from this one on.
    fixed: u64,
    backports: Vec<Backport>,
}

/// A package of an older systemd that has the fix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backport {
    /// The upstream version that it is built from.
    upstream: u64,
    /// What its release contains: the distribution.
    distribution: String,
    fixed: String,
}

impl Backport {
    /// Whether a package of this distribution has it.
    fn is_in(&self, release: &str) -> Option<bool> {
        let (mine, my_update) = release.split_once(&self.distribution)?;
        let (fixed, fixed_update) = self.fixed.split_once(&self.distribution)?;
        let (mut mine, fixed) = (number::words(mine), number::words(fixed));
        // A rebuild adds numbers of its own: Oracle's 219-62.0.4.el7_6.9.
        mine.truncate(fixed.len());
        let updates = [my_update, fixed_update].map(number::words);
        Some(mine.cmp(&fixed).then(updates[0].cmp(&updates[1])).is_ge())
    }
}

/// Whether a systemd survives the end of its serial numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialOverflow {
    /// It starts again at half of them.
    Repaired,
    /// It answers no call any more.
    Affected,
    /// Its version alone does not show it.
    Unknown,
}

/// By what the running systemd says of itself (`219`, `systemd 252 (252.39-1~deb12u1)`) and
/// by its package.
pub fn serial_overflow(running: &str, package: Option<&str>) -> SerialOverflow {
    let Some(upstream) = number::first_number(running) else {
        return SerialOverflow::Unknown;
    };
    let serials = &facts().systemd_serials;
    if upstream >= serials.fixed {
        return SerialOverflow::Repaired;
    }
    // The package of another version says nothing about the one that runs.
    let package = package.map(number::without_epoch);
    let package = package.filter(|package| number::first_number(package) == Some(upstream));
    let release = package.unwrap_or(running);
    let mut backports = serials.backports.iter();
    let repaired = backports
        .find(|backport| backport.upstream == upstream && release.contains(&backport.distribution))
        .and_then(|backport| backport.is_in(release));
    match repaired {
        Some(true) => SerialOverflow::Repaired,
        Some(false) => SerialOverflow::Affected,
        None => SerialOverflow::Unknown,
    }
}

/// A fault of some kernels.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KernelFault {
    /// The part of a release that shows the distribution; empty for upstream.
    #[serde(default)]
    flavour: String,
    first: String,
    /// The first release that does not have it any more; `None` where that is not established.
    pub fixed: Option<String>,
    /// What it is.
    pub what: String,
    /// Beginnings of functions: a task in uninterruptible sleep, or a CPU without progress, has one of
    /// them in its stack. `None`: `runc` and its `runc init` sleep side by side, and no task is blocked
    /// in the kernel.
    #[serde(rename = "in")]
    functions: Option<Vec<String>>,
}

impl KernelFault {
    /// Whether it loses wake-ups, which no stack shows.
    pub fn loses_wakeups(&self) -> bool {
        self.functions.is_none()
    }

    /// Whether a stack with these functions shows the fault.
    pub fn is_in<'a>(&self, mut functions: impl Iterator<Item = &'a str>) -> bool {
        let shown = self.functions.as_deref().unwrap_or_default();
        functions.any(|name| shown.iter().any(|function| name.starts_with(function)))
    }
}

/// The faults of this release.
pub fn kernel_faults(release: &str) -> Vec<&'static KernelFault> {
    let numbers = number::words(release);
    let is_named = |flavour: &str| !flavour.is_empty() && release.contains(flavour);
    // A distribution counts its kernels its own way: upstream's ranges say nothing of them.
    let named = facts().kernels.iter().any(|fault| is_named(&fault.flavour));
    let has = |fault: &&KernelFault| {
        let first = number::words(&fault.first);
        let before = |fixed: &String| numbers < number::words(fixed);
        let mine = is_named(&fault.flavour) || fault.flavour.is_empty() && !named;
        mine && numbers.get(..2) == first.get(..2)
            && first <= numbers
            && fault.fixed.as_ref().is_none_or(before)
    };
    facts().kernels.iter().filter(has).collect()
}

fn leaks_memory_cgroups(release: &str) -> bool {
    release.starts_with("3.10.0-")
        && number::words(release) < number::words(&facts().memory_cgroups_fixed)
}

#[cfg(test)]
mod tests;
