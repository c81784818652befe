//! `/proc/PID/stat` and `status`.

use std::path::Path;

use base::host::ProcessStat;
use rustix::process::Signal;

use super::read_text::read_text;
use crate::collect::helper::Reads;
use crate::collect::host::Host;
use crate::collect::host::file::{fact, printable, text};
use crate::facts::host::EndSignal;
use crate::facts::{Fact, Missing};

/// The fields of `stat`, read at once.
pub(in crate::collect) fn read_stat(folder: &Path) -> Option<ProcessStat> {
    parse(&text(&folder.join("stat")).ok()?)
}

/// The same, by a worker that is polled.
pub(super) fn poll_stat(reads: &Reads, folder: &Path) -> Result<ProcessStat, Missing> {
    let text = read_text(reads, &folder.join("stat"))?;
    parse(&text).ok_or_else(|| Missing::System("the expected field is missing".to_owned()))
}

fn parse(text: &str) -> Option<ProcessStat> {
    let stat = ProcessStat::parse(text)?;
    Some(ProcessStat {
        comm: printable(&stat.comm),
        ..stat
    })
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
}
