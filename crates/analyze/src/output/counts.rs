//! How many processes have each name: `ps -e -o comm | sort | uniq -c`.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::Seen;
use crate::proof::Proof;
use crate::ps::is_plugin_name;

/// A plugin runs for about a second; so many at once wait for one another.
const MANY: u64 = 100;

/// Reads `   5108 host-local`.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let Some((count, name)) = text.trim().split_once(' ') else {
        return;
    };
    let (Ok(count), name) = (count.parse::<u64>(), name.trim()) else {
        return;
    };
    let file = name.rsplit('/').next().unwrap_or(name);
    if count >= MANY && is_plugin_name(file) {
        let says = format!("{count} processes of the CNI plugin {file}");
        let culprit = Culprit {
            process: Some(file.to_owned()),
            ..Culprit::default()
        };
        let cause = Cause::CniPluginHang;
        seen.proof(Proof::new(cause, Confidence::High, line, says).of(culprit));
    }
}
