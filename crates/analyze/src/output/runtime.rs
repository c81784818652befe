//! What crictl, ctr and docker print.

use causes::facts::facts;

use super::{Seen, has_any};

pub(super) fn begins(words: &[&str]) -> bool {
    facts().begins("runtime", words.join(" ").as_bytes())
        || matches!(words, ["Containers:", count] if count.parse::<u64>().is_ok())
}

/// How the docker command reports an error of the daemon.
const OF_DOCKER: &str = "Error response from daemon: ";

/// Errors of commands that were not run as root.
const NOT_ALLOWED: [&str; 3] = ["permission denied", "Permission denied", "are you root"];

pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    if text.contains("using default endpoints") {
        seen.tries_defaults = true;
    }
    let is_a_try = seen.tries_defaults && text.contains("dockershim.sock");
    if is_a_try || has_any(text, &NOT_ALLOWED) {
        return;
    }
    if let Some(count) = text.strip_prefix("Containers: ") {
        return seen.figure("containers", count, line);
    }
    if seen.command_line("runtime", text, line) {
        return;
    }
    let is_error = text.starts_with("FATA[") || text.starts_with("ctr: ");
    if is_error && !text.contains("not found") {
        let says: String = text.chars().take(160).collect();
        seen.trouble(line, format!("a command failed: {says}"));
    } else if is_error || text.starts_with("ERRO[") || text.starts_with(OF_DOCKER) {
        seen.error(line, text);
    }
}
