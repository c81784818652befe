//! A shell's prompt, and the command after it.

use causes::facts::facts;

use super::Seen;
use super::cgroups::Cgroups;
use super::form::Form;
use super::io::Io;
use super::load::Load;
use super::memory::Memory;
use super::pressure::Pressure;
use super::{counts, freezer};
use crate::table::TableRow;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) text: String,
    line: u64,
}

/// Commands that run another command.
const WRAPPERS: [&str; 6] = ["sudo", "time", "watch", "nohup", "microk8s", "k3s"];

const MAX_LENGTH: usize = 300;

/// What `timeout` exits with when it ends a command.
const TIMED_OUT_CODE: &str = "124";

impl Command {
    /// The command of a line that begins with a prompt.
    pub(super) fn at_prompt(text: &str, line: u64) -> Option<Self> {
        let at = ["$ ", "# ", "% ", "❯ ", "➜ ", "> "]
            .into_iter()
            .filter_map(|mark| Some((text.find(mark)?, mark)))
            .min()?;
        let (before, command) = (&text[..at.0], &text[at.0 + at.1.len()..]);
        let command = without_prefixes(command);
        let first = program(command)?;
        let is_loop = first == "for" && command.contains("; do ");
        let is_known = facts().shell_commands.iter().any(|known| known == first) || is_loop;
        let is_prompt = match before.is_empty() {
            true => is_known || at.1 == "❯ ",
            false if is_user_and_host(before) => is_known || is_program(first),
            false => is_known && at.1 == "$ " && before.len() < 32,
        };
        is_prompt.then(|| Self {
            text: command.chars().take(MAX_LENGTH).collect(),
            line,
        })
    }

    fn words(&self) -> Vec<&str> {
        self.text.split_ascii_whitespace().collect()
    }

    /// The form of the command's output; `None` if it prints a log or a listing of processes.
    pub(super) fn form(&self) -> Option<Form> {
        let words = self.words();
        let (_, rest) = words.split_first()?;
        let name = program(&self.text)?;
        let has = |word: &str| rest.contains(&word);
        match name {
            "kubectl" | "k" | "oc" if has("describe") => Some(Form::Describe),
            "kubectl" | "k" | "oc" if has("events") || has("event") || has("ev") => {
                Some(Form::Events)
            }
            _ if has("logs") || has("log") || has("dmesg") => None,
            "kubectl" | "k" | "oc" | "talosctl" => Some(Form::Cluster),
            "crictl" | "ctr" | "docker" | "nerdctl" | "podman" | "runc" => Some(Form::Runtime),
            "systemctl" | "service" => Some(Form::Unit),
            "top" | "pidstat" => Some(Form::Load(Load::default())),
            "iostat" | "vmstat" | "sar" | "iotop" | "mpstat" => Some(Form::Io(Io::default())),
            "df" => Some(Form::Disk),
            "free" => Some(Form::Memory(Memory::default())),
            "cat" if self.text.contains("/proc/") && self.text.contains("/status") => {
                Some(Form::Process)
            }
            "cat" | "head" | "tail" if Pressure::named(&self.text).is_some() => {
                Pressure::named(&self.text).map(Form::Pressure)
            }
            "cat" if freezer::prints_events(&self.text) => Some(Form::Freezer),
            "busctl" | "dbus-send" | "dbus-monitor" if self.is_of_a_session() => {
                Some(Form::SessionBus)
            }
            "busctl" | "dbus-send" | "dbus-monitor" => Some(Form::Bus),
            "curl" if self.text.contains("healthz") => Some(Form::Cluster),
            "dockerd" | "containerd" | "kubelet" | "crio" | "curl" | "cat" | "journalctl"
            | "dmesg" | "tail" | "head" | "less" | "grep" | "ps" | "pstree" | "gstack" => None,
            _ => Some(Form::Other),
        }
    }

    /// Whether the command uses the bus of a user.
    fn is_of_a_session(&self) -> bool {
        let words = self.words();
        words.contains(&"--session") || words.contains(&"--user")
    }

    pub(super) fn interrupted(&self, seen: &mut Seen) {
        self.slow("was interrupted before it printed anything", None, seen);
    }

    fn slow(&self, how: &str, minutes: Option<u32>, seen: &mut Seen) {
        let arguments: Vec<&str> = self.words().into_iter().skip(1).collect();
        let row = TableRow::new("slow-commands", self.line).text("command", &*self.text);
        let row = row.text("program", program(&self.text));
        let row = row.text("arguments", &*format!(" {} ", arguments.join(" ")));
        let row = row.text("how", how).text("container", self.id());
        seen.row(row.number("minutes", minutes.map(f64::from)));
    }

    /// Reads how long the command took, as `time` prints it: `real    4m38.117s`.
    pub(super) fn took(&self, time: &str, seen: &mut Seen) {
        let minutes = time.split_once('m').map(|(minutes, _)| minutes.parse());
        if let Some(Ok(minutes @ 1u32..)) = minutes {
            self.slow(&format!("took {time}"), Some(minutes), seen);
        }
    }

    /// Reads the first line that the command printed. Returns whether the line has a meaning that only the
    /// command shows.
    pub(super) fn printed(&self, text: &str, line: u64, seen: &mut Seen) -> bool {
        match program(&self.text).unwrap_or_default() {
            _ if text == TIMED_OUT_CODE && self.text.ends_with("echo $?") => {
                self.slow("did not return in time", None, seen);
                true
            }
            "cat" | "grep" if self.text.contains("/proc/cgroups") && !text.starts_with('#') => {
                Cgroups::default().read(text, line, seen);
                true
            }
            "cat" if self.text.ends_with("/proc/sys/fs/file-nr") => {
                counts::read_open_files(text, line, seen)
            }
            "cat" | "head" => freezer::read_file(&self.text, text, line, seen),
            "curl" | "nerdctl" | "podman" => self.printed_line(text, line, seen),
            "docker" | "systemctl" if self.printed_line(text, line, seen) => true,
            "find" | "ls" | "ps" | "docker" | "crictl" | "systemctl" | "wc" => {
                counts::read_count(&self.text, text, line, seen)
            }
            _ => false,
        }
    }

    /// Reads a line that the command printed; returns whether a rule matches it.
    fn printed_line(&self, text: &str, line: u64, seen: &mut Seen) -> bool {
        let row = TableRow::new("command-lines", line).text("command", &*self.text);
        seen.row(row.text("text", text).text("container", self.id()))
    }

    fn id(&self) -> Option<&str> {
        let mut words = self.words().into_iter().skip(1);
        words.find(|word| is_id(word))
    }
}

/// Whether the word is an id: `e2b8d70f416c`, or longer.
fn is_id(word: &str) -> bool {
    word.len() >= 12 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The program of a command, without its path.
fn program(command: &str) -> Option<&str> {
    let first = command.split_ascii_whitespace().next()?;
    first.rsplit('/').next()
}

/// Removes `cd /proc;`, `sudo -E`, `time`, `VAR=value` and `timeout 10` from a command.
fn without_prefixes(mut command: &str) -> &str {
    loop {
        command = command.trim_start();
        if command.starts_with("cd ")
            && let Some(end) = command.find([';', '&'])
        {
            command = command[end..].trim_start_matches([';', '&']);
            continue;
        }
        let Some((word, rest)) = command.split_once(' ') else {
            return command;
        };
        let is_variable = word.contains('=') && !word.starts_with('-');
        if is_variable || WRAPPERS.contains(&word) || word.starts_with('-') {
            command = rest;
        } else if word == "timeout" {
            command = rest
                .trim_start()
                .split_once(' ')
                .map_or("", |(_, rest)| rest);
        } else {
            return command;
        }
    }
}

/// `root@node1:~`, `[root@node1 ~]`, `(base) me@host:/`, `10.0.0.1 root@node1:/`, `node1:~`,
/// `bash-4.2`.
fn is_user_and_host(before: &str) -> bool {
    let before = match before.strip_prefix('(') {
        Some(rest) => rest.split_once(") ").map_or(before, |(_, rest)| rest),
        None => before,
    };
    if before.len() > 80 || before.contains(": ") {
        return false;
    }
    let last = before.split_once(' ').map(|(_, last)| last);
    let before = last
        .filter(|last| !last.contains(' ') && last.contains('@') && last.contains(':'))
        .unwrap_or(before);
    let bracketed = before.starts_with('[') && before.trim_end().ends_with(']');
    let plain = !before.trim_end().contains(' ');
    bracketed && before.contains(['@', '~', '/'])
        || plain && (before.contains('@') || before.ends_with('~') || before.contains(":/"))
        || plain && before.starts_with("bash-")
        || plain && before.starts_with("sh-")
}

fn is_program(word: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./".contains(&byte);
    word.bytes().all(plain)
}
