//! Which versions have which fault, according to the tables in `facts.yaml`.
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
use number::{first_number, numbers, without_epoch};

/// Versions of a program: `first` and later, but before `fixed`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Range {
    first: Version,
    fixed: Version,
}

/// Whether a version is older than a release; also true if either cannot be parsed.
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
/// `None` if the text is not a version.
pub fn has_fault(fault: Fault, version: &str) -> Option<bool> {
    if fault == Fault::MemoryCgroupLeak {
        let fixed = numbers(&facts().memory_cgroups_fixed);
        return Some(version.starts_with("3.10.0-") && numbers(version) < fixed);
    }
    let version = Version::parse(version)?;
    let has = |range: &Range| range.first <= version && version < range.fixed;
    Some(facts().runc[&fault].iter().any(has))
}

/// Which versions of systemd continue at half of the range after their last serial number.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct SystemdSerials {
    /// The first upstream version with the fix.
    fixed: u64,
    backports: Vec<Backport>,
}

/// A package of an older systemd that has the fix.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Backport {
    /// The upstream version that it is built from.
    upstream: u64,
    /// The part of a package's version that shows the distribution.
    distribution: String,
    fixed: String,
}

impl Backport {
    /// Whether this package has the fix; `None` if it is not of this distribution.
    fn is_in(&self, release: &str) -> Option<bool> {
        let (mine, my_update) = release.split_once(&self.distribution)?;
        let (fixed, fixed_update) = self.fixed.split_once(&self.distribution)?;
        let (mut mine, fixed) = (numbers(mine), numbers(fixed));
        // A rebuild adds numbers: Oracle's 219-62.0.4.el7_6.9.
        mine.truncate(fixed.len());
        let updates = [my_update, fixed_update].map(numbers);
        Some(mine.cmp(&fixed).then(updates[0].cmp(&updates[1])).is_ge())
    }
}

/// Whether a systemd survives its last serial number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialOverflow {
    /// systemd continues at half of the range.
    Repaired,
    /// systemd no longer answers calls.
    Affected,
    /// The version alone does not show whether systemd survives.
    Unknown,
}

/// Whether a systemd survives its last serial number, from the version that the running one reports (`219`,
/// `systemd 252 (252.39-1~deb12u1)`) and from its package.
pub fn serial_overflow(running: &str, package: Option<&str>) -> SerialOverflow {
    let Some(upstream) = first_number(running) else {
        return SerialOverflow::Unknown;
    };
    let serials = &facts().systemd_serials;
    if upstream >= serials.fixed {
        return SerialOverflow::Repaired;
    }
    // The package of another version says nothing about the one that runs.
    let package = package.map(without_epoch);
    let package = package.filter(|package| first_number(package) == Some(upstream));
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
    /// The first release without the fault; `None` if that is not known.
    pub fixed: Option<String>,
    /// What goes wrong.
    pub what: String,
    /// Beginnings of function names. An affected task in uninterruptible sleep, or a CPU without progress,
    /// has such a function in its stack. `None` if no task is blocked in the kernel: `runc` and its
    /// `runc init` are both asleep.
    #[serde(rename = "in")]
    functions: Option<Vec<String>>,
}

impl KernelFault {
    /// Whether the kernel loses wake-ups, which no stack shows.
    pub fn loses_wakeups(&self) -> bool {
        self.functions.is_none()
    }

    /// Whether a stack with these functions shows the fault.
    pub fn is_in<'a>(&self, mut functions: impl Iterator<Item = &'a str>) -> bool {
        let shown = self.functions.as_deref().unwrap_or_default();
        functions.any(|name| shown.iter().any(|function| name.starts_with(function)))
    }
}

/// The known faults of a release of the kernel.
pub fn kernel_faults(release: &str) -> Vec<&'static KernelFault> {
    let release_numbers = numbers(release);
    let is_named = |flavour: &str| !flavour.is_empty() && release.contains(flavour);
    // A distribution numbers its kernels in its own way, so upstream's ranges do not apply to them.
    let named = facts().kernels.iter().any(|fault| is_named(&fault.flavour));
    let has = |fault: &&KernelFault| {
        let first = numbers(&fault.first);
        let before = |fixed: &String| release_numbers < numbers(fixed);
        let mine = is_named(&fault.flavour) || fault.flavour.is_empty() && !named;
        mine && release_numbers.get(..2) == first.get(..2)
            && first <= release_numbers
            && fault.fixed.as_ref().is_none_or(before)
    };
    facts().kernels.iter().filter(has).collect()
}

#[cfg(test)]
mod tests;
