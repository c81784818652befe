//! Which versions have which fault: tables, to be read and added to.
//!
//! ```
//! use causes::versions::{RUNC_SHORT_EXEC, SerialOverflow, runc_has, serial_overflow};
//!
//! assert_eq!(runc_has(RUNC_SHORT_EXEC, "1.3.4"), Some(true));
//! assert_eq!(runc_has(RUNC_SHORT_EXEC, "1.3.6"), Some(false));
//! assert_eq!(serial_overflow("219", None), SerialOverflow::Unknown);
//! assert_eq!(serial_overflow("252", None), SerialOverflow::Repaired);
//! ```

mod number;

pub use number::Version;

/// Versions of a program from `first` on, before `fixed`.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The first that has it.
    pub first: &'static str,
    /// The first that does not have it any more.
    pub fixed: &'static str,
}

impl Range {
    /// Whether this version has it.
    pub fn has(&self, version: &Version) -> bool {
        let bound = |text| Version::parse(text);
        bound(self.first).is_some_and(|first| first <= *version)
            && bound(self.fixed).is_some_and(|fixed| *version < fixed)
    }
}

/// Whether a version is not older than any of these releases, each the first of its series with a
/// fix: 1.7.2 is newer than 1.6.25, but lacks what 1.7.8 brought.
pub fn is_not_older(version: &str, releases: &[&str]) -> bool {
    let Some(version) = Version::parse(version) else {
        return false;
    };
    let mut releases = releases.iter().map(|release| Version::parse(release));
    releases.all(|release| release.is_some_and(|release| release <= version))
}

/// runc waits for ever on its own seccomp pipe.
pub const RUNC_SECCOMP_PIPE: &[Range] = &[Range {
    first: "1.0.0-rc93",
    fixed: "1.0.0-rc94",
}];

/// `runc exec` of a process that ends quickly does not return.
pub const RUNC_SHORT_EXEC: &[Range] = &[
    Range {
        first: "1.3.0",
        fixed: "1.3.6",
    },
    Range {
        first: "1.4.0",
        fixed: "1.4.2",
    },
    Range {
        first: "1.5.0-rc1",
        fixed: "1.5.0-rc2",
    },
];

/// Each `runc exec` mounts and unmounts its own program, which systemd must take note of.
pub const RUNC_MOUNTS_FOR_EXEC: &[Range] = &[Range {
    first: "1.0.0-rc7",
    fixed: "1.1.15",
}];

/// Whether a version of runc is in one of the ranges; `None` where it is not understood.
pub fn runc_has(ranges: &[Range], version: &str) -> Option<bool> {
    let version = Version::parse(version)?;
    Some(ranges.iter().any(|range| range.has(&version)))
}

/// From this version on systemd starts its serial numbers again at half of them.
const SERIAL_FIXED: u64 = 242;

/// A package of a systemd before that into which the repair was taken over.
struct Backport {
    /// The upstream version that it is built from.
    upstream: u64,
    /// What its release contains: the distribution.
    distribution: &'static str,
    /// The first repaired package.
    fixed: &'static str,
}

impl Backport {
    /// Whether a package of this distribution has it.
    fn is_in(&self, release: &str) -> Option<bool> {
        let (mine, my_update) = release.split_once(self.distribution)?;
        let (fixed, fixed_update) = self.fixed.split_once(self.distribution)?;
        let (mut mine, fixed) = (number::words(mine), number::words(fixed));
        // Who builds it once more adds numbers of his own: Oracle's 219-62.0.4.el7_6.9.
        mine.truncate(fixed.len());
        let updates = [my_update, fixed_update].map(number::words);
        Some(mine.cmp(&fixed).then(updates[0].cmp(&updates[1])).is_ge())
    }
}

const SERIAL_BACKPORTS: [Backport; 4] = [
    Backport {
        upstream: 219,
        distribution: ".el7_6",
        fixed: "219-62.el7_6.8",
    },
    Backport {
        upstream: 219,
        distribution: ".el7",
        fixed: "219-67.el7",
    },
    Backport {
        upstream: 239,
        distribution: ".el8",
        fixed: "239-16.el8",
    },
    Backport {
        upstream: 237,
        distribution: "ubuntu",
        fixed: "237-3ubuntu10.41",
    },
];

/// Whether a systemd survives the end of its serial numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SerialOverflow {
    /// It starts again at half of them.
    Repaired,
    /// It answers nobody any more.
    Affected,
    /// Its version alone does not tell.
    Unknown,
}

/// By what the running systemd says of itself (`219`, `systemd 252 (252.39-1~deb12u1)`) and
/// by its package.
pub fn serial_overflow(running: &str, package: Option<&str>) -> SerialOverflow {
    let Some(upstream) = number::first_number(running) else {
        return SerialOverflow::Unknown;
    };
    if upstream >= SERIAL_FIXED {
        return SerialOverflow::Repaired;
    }
    // The package of another version does not tell about the one that runs.
    let package = package.map(number::without_epoch);
    let package = package.filter(|package| number::first_number(package) == Some(upstream));
    let release = package.unwrap_or(running);
    let mut backports = SERIAL_BACKPORTS.iter();
    let repaired = backports
        .find(|backport| backport.upstream == upstream && release.contains(backport.distribution))
        .and_then(|backport| backport.is_in(release));
    match repaired {
        Some(true) => SerialOverflow::Repaired,
        Some(false) => SerialOverflow::Affected,
        None => SerialOverflow::Unknown,
    }
}

/// What a kernel's fault looks like; a release in the table alone is not a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Symptom {
    /// `runc` and its `runc init` sleep side by side, and no task is blocked in the kernel.
    LostWakeup,
    /// Tasks in uninterruptible sleep, or CPUs without progress, whose stacks have a function
    /// that begins like one of these.
    In(&'static [&'static str]),
}

/// A fault of some kernels.
#[derive(Clone, Copy, Debug)]
pub struct KernelFault {
    /// Where it is: the beginnings of releases and the part behind that tell a distribution.
    pub flavour: &'static str,
    /// The first release that has it.
    pub first: &'static str,
    /// The first that does not have it any more; `None` where that is not established.
    pub fixed: Option<&'static str>,
    /// What it is.
    pub what: &'static str,
    /// What it looks like.
    pub symptom: Symptom,
}

impl KernelFault {
    /// Whether a stack with these functions shows the fault.
    pub fn is_in<'a>(&self, mut functions: impl Iterator<Item = &'a str>) -> bool {
        let Symptom::In(shown) = self.symptom else {
            return false;
        };
        functions.any(|name| shown.iter().any(|function| name.starts_with(function)))
    }
}

/// Functions of io_uring; `io_schedule` is not one of them.
const IO_URING: &[&str] = &[
    "io_uring_",
    "__io_uring_",
    "__do_sys_io_uring_",
    "__x64_sys_io_uring_",
    "io_ring_",
    "io_cqring_",
    "io_poll_",
    "io_wq_",
];

/// Kernels with faults that stop containers.
pub const KERNELS: &[KernelFault] = &[
    KernelFault {
        flavour: "-generic",
        first: "5.4.0-132",
        fixed: Some("5.4.0-135"),
        what: "epoll wake-ups are lost (Ubuntu, LP 1996678)",
        symptom: Symptom::LostWakeup,
    },
    KernelFault {
        flavour: ".amzn2.",
        first: "5.4.214-120.368",
        fixed: Some("5.4.219-126.411"),
        what: "epoll wake-ups are lost (Amazon Linux 2)",
        symptom: Symptom::LostWakeup,
    },
    KernelFault {
        flavour: "",
        first: "5.4.210",
        // By the threads; which release completed the repair nobody has said.
        fixed: Some("5.4.224"),
        what: "epoll wake-ups are lost (stable 5.4 of late 2022)",
        symptom: Symptom::LostWakeup,
    },
    KernelFault {
        flavour: ".amzn2023.",
        first: "6.1.112",
        fixed: Some("6.1.119-129.201"),
        what: "processes that use io_uring are blocked in the kernel (Amazon Linux 2023)",
        symptom: Symptom::In(IO_URING),
    },
    KernelFault {
        flavour: "-flatcar",
        first: "5.15.61",
        fixed: None,
        what: "ext4 waits forever for a cache entry (Flatcar 3227.2.2)",
        symptom: Symptom::In(&["mb_cache_"]),
    },
    KernelFault {
        flavour: ".amzn2.",
        first: "4.14.0",
        fixed: Some("4.14.198"),
        what: "many writes through overlayfs lock up a CPU (Amazon Linux 2)",
        symptom: Symptom::In(&["move_expired_inodes", "queue_io", "wb_writeback", "ovl_"]),
    },
];

/// The faults of this release.
pub fn kernel_faults(release: &str) -> Vec<&'static KernelFault> {
    let numbers = number::words(release);
    let is_named = |flavour: &str| !flavour.is_empty() && release.contains(flavour);
    // A distribution counts its kernels its own way: upstream's ranges say nothing of them.
    let named = KERNELS.iter().any(|fault| is_named(fault.flavour));
    let has = |fault: &&KernelFault| {
        let first = number::words(fault.first);
        let before = |fixed| numbers < number::words(fixed);
        let mine = is_named(fault.flavour) || fault.flavour.is_empty() && !named;
        mine && numbers.get(..2) == first.get(..2)
            && first <= numbers
            && fault.fixed.is_none_or(before)
    };
    KERNELS.iter().filter(has).collect()
}

/// From this release of RHEL's and CentOS' 3.10 on, accounting of kernel memory leaks no
/// more control groups.
pub const MEMORY_CGROUPS_FIXED: &str = "3.10.0-1075";

/// Whether this kernel leaks control groups of memory.
pub fn leaks_memory_cgroups(release: &str) -> bool {
    release.starts_with("3.10.0-") && number::words(release) < number::words(MEMORY_CGROUPS_FIXED)
}

#[cfg(test)]
mod tests;
