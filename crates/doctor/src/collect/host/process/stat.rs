//! `/proc/PID/stat` and `status`.

use std::path::Path;

use rustix::process::Signal;

use super::read_text::read_text;
use crate::collect::helper::Reads;
use crate::collect::host::Host;
use crate::collect::host::file::{fact, printable, text};
use crate::facts::host::EndSignal;
use crate::facts::{Fact, Missing};

/// What of `stat` is of use.
pub(in crate::collect) struct Stat {
    pub(in crate::collect) comm: String,
    pub(in crate::collect) state: char,
    pub(super) ppid: u32,
    pub(super) flags: u64,
    /// Ticks in user mode and in the kernel.
    pub(super) ticks: u64,
    pub(super) threads: u32,
    /// Ticks from the start of the machine to its own.
    pub(super) start: u64,
    /// Pages that are resident.
    pub(super) resident: Option<u64>,
}

impl Stat {
    pub(in crate::collect) fn read(folder: &Path) -> Option<Self> {
        Self::parse(&text(&folder.join("stat")).ok()?)
    }

    /// The same, by a worker that is polled.
    pub(super) fn of(reads: &Reads, folder: &Path) -> Result<Self, Missing> {
        let text = read_text(reads, &folder.join("stat"))?;
        let nonsense = || Missing::System("the expected field is missing".to_owned());
        Self::parse(&text).ok_or_else(nonsense)
    }

    /// `1 (systemd) S 0 1 1 0 -1 4194560 …`; the name may contain anything, even `) S 1`.
    fn parse(text: &str) -> Option<Self> {
        let (front, back) = text.rsplit_once(") ")?;
        let (_, comm) = front.split_once(" (")?;
        let fields: Vec<&str> = back.split_ascii_whitespace().collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(Self {
            comm: printable(comm),
            state: fields.first()?.chars().next()?,
            ppid: number(1)? as u32,
            flags: number(6)?,
            ticks: number(11)? + number(12)?,
            threads: number(17)? as u32,
            start: number(19)?,
            resident: number(21),
        })
    }
}

/// The effective user.
pub(super) fn uid(status: &str) -> Option<u32> {
    let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    line.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// A signal that is to end it and is pending for its first thread or for all.
pub(super) fn pending(status: &str) -> Option<EndSignal> {
    let sets = ["SigPnd:", "ShdPnd:"].into_iter().filter_map(|name| {
        let line = status.lines().find_map(|line| line.strip_prefix(name))?;
        u64::from_str_radix(line.trim(), 16).ok()
    });
    let set = sets.fold(0, |all, set| all | set);
    let is_in = |signal: Signal| set & 1 << (signal.as_raw() - 1) != 0;
    match (is_in(Signal::KILL), is_in(Signal::TERM)) {
        (true, _) => Some(EndSignal::Kill),
        (false, true) => Some(EndSignal::Term),
        (false, false) => None,
    }
}

/// The process that traces it; that of another PID namespace is not known.
pub(super) fn tracer(status: &str) -> Option<u32> {
    let mut lines = status.lines();
    let line = lines.find_map(|line| line.strip_prefix("TracerPid:"))?;
    line.trim().parse().ok().filter(|pid| *pid != 0)
}

/// Our own effective capabilities: `CapEff: 000001ffffffffff`.
pub(in crate::collect::host) fn capabilities(host: &Host) -> Fact<u64> {
    fact(&host.proc.join("self/status"), |status| {
        let mut lines = status.lines();
        let bits = lines.find_map(|line| line.strip_prefix("CapEff:"))?;
        u64::from_str_radix(bits.trim(), 16).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_are_read_as_bits() {
        let folder = tempfile::tempdir().expect("a folder");
        let host = Host::at(folder.path());
        assert!(capabilities(&host).why().is_some());
        let own = host.proc.join("self");
        std::fs::create_dir_all(&own).expect("a folder");
        let status = "CapPrm:\t0000000000000003\nCapEff:\t0000000400080001\n";
        std::fs::write(own.join("status"), status).expect("to write");
        let expected = 1 << 34 | 1 << 19 | 1;
        assert_eq!(capabilities(&host).value(), Some(&expected));
    }

    #[test]
    fn a_signal_that_is_to_end_a_process_and_its_tracer_are_read() {
        let status = |thread: u64, shared: u64, tracer: u32| {
            format!(
                "Uid:\t0\t0\nTracerPid:\t{tracer}\nSigPnd:\t{thread:016x}\nShdPnd:\t{shared:016x}\n"
            )
        };
        for (thread, shared, expected) in [
            (0, 0, None),
            (1 << 16, 1, None),
            (0, 1 << 14, Some(EndSignal::Term)),
            (1 << 8, 1 << 14, Some(EndSignal::Kill)),
            (0, 1 << 8, Some(EndSignal::Kill)),
        ] {
            assert_eq!(pending(&status(thread, shared, 0)), expected);
        }
        assert_eq!(tracer(&status(0, 0, 0)), None);
        assert_eq!(tracer(&status(0, 0, 77)), Some(77));
    }

    #[test]
    fn a_name_that_looks_like_fields_does_not_mislead() {
        let text = "77 (a) R 1 (b)) S 12 77 77 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 3 0 9900 1 250";
        let stat = Stat::parse(text).expect("fields");
        assert_eq!(stat.comm, "a) R 1 (b)");
        assert_eq!((stat.state, stat.ppid, stat.ticks), ('S', 12, 110));
        assert_eq!((stat.threads, stat.start), (3, 9900));
        assert_eq!(stat.resident, Some(250));
    }
}
