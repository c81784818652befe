//! Lines that show that something failed, and do not show why.
//!
//! They speak for none of the causes. Where nothing else does either, they are what keeps the
//! answer from being that nothing is wrong.

mod containers;
mod kernel;
mod kubelet;
mod network;
mod storage;
pub(super) mod units;

/// A text that tells of a failure without its cause.
#[derive(Clone, Copy, Debug)]
pub struct Failure {
    /// What to look for.
    pub text: &'static str,
    /// One of these must be in the line, too; empty is no condition.
    pub(super) with: &'static [&'static str],
    /// None of these may be in the line.
    pub(super) without: &'static [&'static str],
    /// What failed, in a sentence without a full stop.
    pub says: &'static str,
    /// The number of lines that are needed: a single one is usual.
    pub lines: u64,
    /// Which lines count.
    pub counted: Counted,
}

/// systemd counts on for as long as nobody starts the unit himself.
const MANY_STARTS: u64 = 20;

/// Which lines of a failure count as one and the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// All of them.
    Together,
    /// All of them, and each tells how many there have been.
    Numbered,
    /// Those about one container: one line about each of many containers is usual.
    PerContainer,
    /// Those that were not followed by the end of it: a daemon repeats such a line until then.
    UntilOver,
}

/// The units without which a node is not Ready.
pub(super) const UNITS: &[&str] = &[
    "kubelet.service",
    "containerd.service",
    "docker.service",
    "crio.service",
    "k3s.service",
    "k3s-agent.service",
    "rke2-server.service",
    "rke2-agent.service",
    "k0scontroller.service",
    "k0sworker.service",
    "daemon-kubelite.service",
    "origin-node.service",
];

pub(super) const fn failure(text: &'static str, says: &'static str) -> Failure {
    Failure {
        text,
        with: &[],
        without: &[],
        says,
        lines: 1,
        counted: Counted::Together,
    }
}

/// All of them, by what they are about.
pub(super) const FAILURES: [&[Failure]; 6] = [
    kubelet::KUBELET,
    containers::CONTAINERS,
    network::NETWORK,
    storage::STORAGE,
    kernel::KERNEL,
    units::OF_UNITS,
];

/// The kubelet ends with a fatal error.
pub(crate) const FATAL: Failure = failure(
    "",
    "the kubelet, or another program that logs in the same way, exited with a fatal error",
);

impl Failure {
    /// For how many lines this one counts.
    pub(crate) fn lines_of(&self, line: &[u8]) -> u64 {
        let number = || {
            let at = memchr::memmem::find(line, self.text.as_bytes())?;
            let rest = &line[at + self.text.len()..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit());
            std::str::from_utf8(&rest[..digits.count()])
                .ok()?
                .parse()
                .ok()
        };
        match self.counted {
            Counted::Numbered if number().is_some_and(|number: u64| number >= MANY_STARTS) => {
                self.lines
            }
            _ => 1,
        }
    }
}
