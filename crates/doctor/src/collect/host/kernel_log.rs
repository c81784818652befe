//! The kernel's log: only lines that tell of something are kept.

use std::io::{ErrorKind, Read};
use std::path::Path;

use analyze::kind::Writer;
use analyze::signs::Signs;

use super::Host;
use super::file::printable;
use crate::collect::helper::open_without_waiting;
use crate::facts::Fact;
use crate::facts::host::KernelLine;

/// A record of `/dev/kmsg` is shorter.
const RECORD: usize = 8192;
/// The ring is smaller.
const LONGEST: usize = 32 << 20;
const MOST: usize = 200;

pub(super) fn read(host: &Host) -> Fact<Vec<KernelLine>> {
    let path = host.dev.join("kmsg");
    let source = path.display().to_string();
    match records(&path) {
        Ok(records) => Fact::known(telling(&records), source),
        Err(error) => Fact::missing(error, source),
    }
}

/// Each read of the device returns one record, and an error where newer ones overtook us.
fn records(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut device = open_without_waiting(path)?;
    let mut all = Vec::new();
    let mut record = [0; RECORD];
    while all.len() < LONGEST {
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

/// `6,339,5140900,-;text`: microseconds since the machine started stand third.
fn telling(records: &[u8]) -> Vec<KernelLine> {
    let signs = Signs::new();
    let mut kept = Vec::new();
    for record in records.split(|byte| *byte == b'\n') {
        let found = signs.find(record);
        let of_kernel = |index: &usize| signs.sign(*index).writer == Writer::Kernel;
        let tells = found.signs.iter().any(of_kernel)
            || memchr::memmem::find(record, b" blocked for more than ").is_some();
        if !tells {
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
    // The newest say what is now.
    kept.split_off(kept.len().saturating_sub(MOST))
}
