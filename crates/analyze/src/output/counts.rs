//! Numbers that a command counted, and the three numbers of `file-nr`.

use super::{Seen, has_any, limits};

/// Reads the number that `command` counted; returns whether it is known what was counted.
pub(super) fn read_count(command: &str, text: &str, line: u64, seen: &mut Seen) -> bool {
    // `wc` names the file, if it was given one.
    let number = text.split(' ').next().unwrap_or(text);
    let is_count = has_any(command, &["wc -l", "grep -c"]) && number.parse::<u64>().is_ok();
    let counted = counted(command).filter(|_| is_count);
    if let Some(counted) = counted {
        seen.figure(counted, number, line);
    }
    counted.is_some()
}

fn counted(command: &str) -> Option<&'static str> {
    let is_grep = command.contains("grep");
    let is_ps = command.starts_with("ps ");
    let lists = command.contains("docker ps") || command.contains("crictl ps");
    let is_all = command.contains("/docker/containers")
        || lists && command.split_ascii_whitespace().any(is_option_for_all);
    match () {
        () if is_ps && command.contains("defunct") => Some("zombies"),
        () if is_ps && command.contains('L') && !is_grep => Some("threads"),
        () if command.contains("/fd") && !is_grep => Some("open-files"),
        () if has_any(command, &["mountinfo", "/mounts"]) => Some("mounts"),
        () if command.contains("list-units") => Some("kept-units"),
        () if is_all && !is_grep => Some("containers"),
        () if lists && !is_grep => Some("running-containers"),
        () => None,
    }
}

/// `-a`, `-aq`, `--all`.
fn is_option_for_all(word: &str) -> bool {
    word == "--all" || word.starts_with('-') && !word.starts_with("--") && word.contains('a')
}

/// Reads `1048576  0  1048576`: how many files are open, how many of these are free, and how many may
/// be open. Returns whether the line has this form.
pub(super) fn read_open_files(text: &str, line: u64, seen: &mut Seen) -> bool {
    let numbers = text.split_ascii_whitespace().map(str::parse);
    let numbers: Vec<u64> = numbers.collect::<Result<_, _>>().unwrap_or_default();
    let [open, _, most] = numbers[..] else {
        return false;
    };
    seen.row(limits::row("files", "", open, most, line));
    true
}
