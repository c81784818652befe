//! The relevant lines of the kernel's log.

use std::io::{ErrorKind, Read};
use std::path::Path;

use analyze::kind::Writer;
use analyze::rules::{LineSearch, Rules};

use super::Host;
use super::file::printable;
use crate::collect::helper::open_without_waiting;
use crate::facts::Fact;
use crate::facts::host::KernelLine;
use crate::limits::MAX_KERNEL_LINES;

/// A record of `/dev/kmsg` is shorter.
const MAX_RECORD_BYTES: usize = 8192;
/// The kernel's log buffer is smaller.
const MAX_LOG_BYTES: usize = 32 << 20;

pub(super) fn read(host: &Host) -> Fact<Vec<KernelLine>> {
    let path = host.dev.join("kmsg");
    let lines = records(&path).map(|records| relevant(&records));
    Fact::of(lines, path.display().to_string())
}

/// All records. Each read of the device returns one record, or an error if the next one was overwritten.
fn records(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut device = open_without_waiting(path)?;
    let mut all = Vec::new();
    let mut record = [0; MAX_RECORD_BYTES];
    while all.len() < MAX_LOG_BYTES {
        match device.read(&mut record) {
            Ok(0) => break,
            Ok(length) => all.extend_from_slice(&record[..length]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => break,
                ErrorKind::BrokenPipe | ErrorKind::Interrupted => {}
                _ => return Err(error),
            },
        }
    }
    Ok(all)
}

/// The records that match a rule about the kernel's log or report a blocked task. In a record such as
/// `6,339,5140900,-;text`, the third field is the time since boot in microseconds.
fn relevant(records: &[u8]) -> Vec<KernelLine> {
    let (search, rules) = (LineSearch::active(), Rules::active());
    let mut kept = Vec::new();
    for record in records.split(|byte| *byte == b'\n') {
        let found = search.find(record);
        let of_kernel = |index: &usize| rules.lines[*index].rule.writer == Writer::Kernel;
        let is_relevant = found.rules.iter().any(of_kernel)
            || memchr::memmem::find(record, b" blocked for more than ").is_some();
        if !is_relevant {
            continue;
        }
        let record = String::from_utf8_lossy(record);
        let Some((prefix, text)) = record.split_once(';') else {
            continue;
        };
        let micros = prefix.split(',').nth(2).and_then(|time| time.parse().ok());
        kept.push(KernelLine {
            seconds: micros.unwrap_or(0.0) / 1e6,
            text: printable(text),
        });
    }
    // The newest lines show the current state.
    kept.split_off(kept.len().saturating_sub(MAX_KERNEL_LINES))
}
