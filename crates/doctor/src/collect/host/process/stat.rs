//! `/proc/PID/stat` and `status`.

use std::path::Path;

use base::host::ProcessStat;

use crate::collect::helper::Reads;
use crate::collect::host::Host;
use crate::collect::host::file::{fact, printable, rest_of_line, text};
use crate::facts::{Fact, Missing};

/// The fields of `stat`, read in this thread.
pub(in crate::collect) fn read_stat(folder: &Path) -> Option<ProcessStat> {
    parse(&text(&folder.join("stat")).ok()?)
}

/// The fields of `stat`, read by a worker that is abandoned if the read does not return.
pub(super) fn stat_by_worker(reads: &Reads, folder: &Path) -> Result<ProcessStat, Missing> {
    let text = reads.text(&folder.join("stat"))?;
    parse(&text).ok_or_else(|| Missing::System("the expected field is missing".to_owned()))
}

fn parse(text: &str) -> Option<ProcessStat> {
    let stat = ProcessStat::parse(text)?;
    Some(ProcessStat {
        comm: printable(&stat.comm),
        ..stat
    })
}

/// The doctor's own effective capabilities, from a line such as `CapEff: 000001ffffffffff`.
pub(in crate::collect::host) fn capabilities(host: &Host) -> Fact<u64> {
    fact(&host.proc.join("self/status"), |status| {
        u64::from_str_radix(rest_of_line(status, "CapEff:")?.trim(), 16).ok()
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
}
