//! `kubectl get`, and the kubelet's own health.

use super::Seen;

/// Whether only such output has this line.
pub(super) fn begins(text: &str, words: &[&str]) -> bool {
    text.starts_with("[+]")
        || text.starts_with("[-]")
        || words.starts_with(&["NAME", "STATUS", "ROLES"])
}

/// Reads a line.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    if let Some(check) = text.strip_prefix("[-]") {
        let check = check.split(' ').next().unwrap_or_default();
        return match check {
            "syncloop" => seen.trouble(
                line,
                "the kubelet's sync loop has made no progress for minutes: it skips its work or \
                 is blocked in a call",
            ),
            _ => seen.trouble(line, format!("the kubelet's health check {check} failed")),
        };
    }
    let mut words = text.split_ascii_whitespace();
    if let (Some(node), Some(status)) = (words.next(), words.next())
        && (status == "NotReady" || status.starts_with("NotReady,"))
    {
        seen.trouble(line, format!("node {node} is NotReady"));
    }
}
