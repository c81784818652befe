//! How much there is of something, and the most that there may be: they stand in two files, or in the
//! output of two commands.
//!
//! ```text
//!   # cat pids.current pids.max       --> 4915, 4915
//!   $ cat /proc/loadavg               --> … 12/32761 …
//!   $ sysctl kernel.pid_max           --> kernel.pid_max = 32768
//!        |
//!        v
//!   both are known: is nearly all of it used?
//! ```

use std::collections::{BTreeMap, VecDeque};

use causes::Cause;
use causes::facts::facts;
use causes::finding::Confidence;

use crate::proof::Proof;

/// Further ones are not told apart.
const MAX_PAIRS: usize = 64;

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// The processes and threads of a control group.
    Tasks,
    /// Those of the node.
    Threads,
    /// The files that a process has open.
    OpenFiles,
    /// What is watched by inotify, and by how many who watch.
    InotifyInstances,
    InotifyWatches,
}

/// Which of both numbers it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Used,
    Most,
}

/// What a number in a file, or of a count, is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Number {
    what: What,
    side: Side,
    /// The control group, or the process; empty for the node.
    of: String,
}

#[derive(Clone, Copy, Debug, Default)]
struct Pair {
    used: Option<u64>,
    most: Option<u64>,
}

/// The numbers that were read, until their other half is.
#[derive(Debug, Default)]
pub(super) struct Limits {
    /// What the command that was typed prints, a number in each line.
    expected: VecDeque<Number>,
    /// The process that it asks about, as it was typed.
    process: String,
    pairs: BTreeMap<(What, String), Pair>,
}

impl Limits {
    /// A command was typed.
    pub(super) fn typed(&mut self, command: &str) {
        self.process = process(command).unwrap_or_default().to_owned();
        self.expected = match count(command) {
            // Of all processes together.
            Some(What::OpenFiles) if self.process.is_empty() || self.process.contains('*') => {
                VecDeque::new()
            }
            Some(what) => VecDeque::from([Number {
                what,
                side: Side::Used,
                of: match what {
                    What::OpenFiles => self.process.clone(),
                    _ => String::new(),
                },
            }]),
            None if command.split([' ', ';', '&']).any(|word| word == "cat") => {
                let words = command.split([' ', ';', '&']);
                words.filter_map(file).collect()
            }
            None => VecDeque::new(),
        };
    }

    /// Reads a line that a command has printed; says whether it is such a number, and what that
    /// proves.
    pub(super) fn line(&mut self, text: &str, line: u64) -> (bool, Option<Proof>) {
        let Some((number, value)) = self.number(text) else {
            return (false, None);
        };
        (true, self.learn(number, value, line))
    }

    fn number(&mut self, text: &str) -> Option<(Number, u64)> {
        if let Some(number) = text.strip_prefix("Max open files") {
            let soft = number.split_ascii_whitespace().next()?.parse().ok()?;
            let of = self.process.clone();
            let most = Number {
                of,
                ..of_node(What::OpenFiles, Side::Most)
            };
            return Some((most, soft));
        }
        // There is no limit, or no file.
        if text == "max" || text.ends_with("No such file or directory") {
            self.expected.pop_front();
            return None;
        }
        if let Some(value) = text.split(' ').next().and_then(|word| word.parse().ok())
            && let Some(number) = self.expected.pop_front()
        {
            return Some((number, value));
        }
        // 812.11 790.20 640.01 12/32761 32760
        if let [_, _, _, running, _] = text.splitn(6, ' ').collect::<Vec<_>>()[..]
            && let Some((running, all)) = running.split_once('/')
            && running.parse::<u64>().is_ok()
        {
            return Some((of_node(What::Threads, Side::Used), all.parse().ok()?));
        }
        let (name, value) = text.split_once([':', '='])?;
        Some((file(name.trim())?, value.trim().parse().ok()?))
    }

    fn learn(&mut self, number: Number, value: u64, line: u64) -> Option<Proof> {
        let key = (number.what, number.of);
        if self.pairs.len() >= MAX_PAIRS && !self.pairs.contains_key(&key) {
            return None;
        }
        // A limit that stands alone is that of whatever is counted next.
        let alone = match key.0 {
            What::OpenFiles => self.pairs.get(&(key.0, String::new())),
            _ => None,
        };
        let alone = alone.and_then(|pair| pair.most);
        let pair = self.pairs.entry(key.clone()).or_default();
        match number.side {
            Side::Used => pair.used = Some(value),
            Side::Most => pair.most = Some(value),
        }
        let (used, most) = pair.used.zip(pair.most.or(alone))?;
        // Each number is compared once, and a limit with all that come.
        pair.used = None;
        // Of what is limited there is no more: then something else was counted.
        let share = used as f64 / most as f64;
        let used_up = facts().limits.used_up_share;
        let is_reached = most > 0 && (used_up..=2.0 - used_up).contains(&share);
        is_reached.then(|| reached(key.0, &key.1, used, most, line))
    }
}

fn of_node(what: What, side: Side) -> Number {
    Number {
        what,
        side,
        of: String::new(),
    }
}

/// What a file contains, or a setting of the kernel, by its path or name.
fn file(path: &str) -> Option<Number> {
    use Side::{Most, Used};
    let (directory, name) = path.rsplit_once(['/', '.']).unwrap_or(("", path));
    // pids.current has a dot in itself.
    let (what, side) = match name {
        "current" | "max" => {
            let (group, kind) = directory.rsplit_once('/').unwrap_or(("", directory));
            let side = if name == "max" { Most } else { Used };
            return (kind == "pids").then(|| Number {
                what: What::Tasks,
                side,
                of: group.to_owned(),
            });
        }
        "pid_max" | "threads-max" => (What::Threads, Most),
        "max_user_instances" => (What::InotifyInstances, Most),
        "max_user_watches" => (What::InotifyWatches, Most),
        _ => return None,
    };
    Some(of_node(what, side))
}

/// What a command counts.
fn count(command: &str) -> Option<What> {
    let has = |text: &str| command.contains(text);
    if !has("wc -l") && !has("grep -c") {
        return None;
    }
    match () {
        () if has("anon_inode") && has("inotify") => Some(What::InotifyInstances),
        () if has("/fdinfo") && has("inotify") => Some(What::InotifyWatches),
        () if has("/fd") && !has("grep") => Some(What::OpenFiles),
        () if command.starts_with("ps -eL") || command.starts_with("ps -eT") => Some(What::Threads),
        () => None,
    }
}

fn reached(what: What, of: &str, used: u64, most: u64, line: u64) -> Proof {
    use Confidence::{High, Low, Medium};
    let (cause, confidence, says) = match what {
        What::Tasks => {
            let confidence = match of {
                "" => Medium,
                of if is_of_all_pods(of) || of.contains("system.slice") => High,
                // As a limit of a pod's own.
                _ => Low,
            };
            let group = if of.is_empty() { "a control group" } else { of };
            let says = format!("{group} has {used} of at most {most} tasks");
            (Cause::PidsExhausted, confidence, says)
        }
        What::Threads => {
            let says = format!("the node has {used} of at most {most} processes and threads");
            (Cause::PidsExhausted, High, says)
        }
        What::OpenFiles => {
            let says = format!("a process has {used} of at most {most} files open");
            (Cause::FdOrInotifyExhausted, High, says)
        }
        What::InotifyInstances => {
            let says = format!("{used} of at most {most} inotify instances of a user are in use");
            (Cause::FdOrInotifyExhausted, Medium, says)
        }
        What::InotifyWatches => {
            let says = format!("{used} of at most {most} inotify watches of a user are in use");
            (Cause::FdOrInotifyExhausted, Medium, says)
        }
    };
    Proof::new(cause, confidence, line, says)
}

/// `12` or `$(pidof containerd)` of `/proc/$(pidof containerd)/fd`.
fn process(command: &str) -> Option<&str> {
    let (_, rest) = command.split_once("/proc/")?;
    rest.split('/').next()
}

fn is_of_all_pods(group: &str) -> bool {
    let name = group.rsplit('/').next().unwrap_or_default();
    matches!(name, "kubepods" | "kubepods.slice")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What these lines prove; commands stand behind a prompt.
    fn proved(lines: &[&str]) -> Vec<(Cause, Confidence)> {
        let mut limits = Limits::default();
        let mut proofs = Vec::new();
        for line in lines {
            match line.strip_prefix("# ") {
                Some(command) => limits.typed(command),
                None => proofs.extend(limits.line(line, 1).1),
            }
        }
        let proofs = proofs.into_iter();
        proofs
            .map(|proof| (proof.cause, proof.confidence))
            .collect()
    }

    #[test]
    fn what_is_used_is_compared_with_its_limit() {
        let tasks = |used: &str, most: &str| {
            let path = "/sys/fs/cgroup/system.slice/containerd.service/pids";
            let cat = format!("# cat {path}.current {path}.max");
            proved(&[&cat, used, most])
        };
        assert_eq!(
            tasks("4915", "4915"),
            [(Cause::PidsExhausted, Confidence::High)]
        );
        assert_eq!(tasks("37", "4915"), []);
        assert_eq!(tasks("4915", "max"), [], "without a limit");
        let grep = [
            "# grep . /sys/fs/cgroup/kubepods/pod9/pids.*",
            "/sys/fs/cgroup/kubepods/pod9/pids.current:100",
            "/sys/fs/cgroup/kubepods/pod9/pids.max:100",
        ];
        assert_eq!(proved(&grep), [(Cause::PidsExhausted, Confidence::Low)]);
        let of_all = [
            "# cd kubepods; cat pids.current; cat pids.max",
            "900",
            "900",
        ];
        assert_eq!(
            proved(&of_all),
            [(Cause::PidsExhausted, Confidence::Medium)]
        );
        let threads = [
            "# cat /proc/loadavg",
            "812.11 790.20 640.01 12/32761 32760",
            "# sysctl kernel.pid_max",
            "kernel.pid_max = 32768",
        ];
        assert_eq!(proved(&threads), [(Cause::PidsExhausted, Confidence::High)]);
        let files = [
            "# ls /proc/12/fd | wc -l",
            "1024",
            "# grep files /proc/12/limits",
            "Max open files            1024                 524288               files",
        ];
        assert_eq!(
            proved(&files),
            [(Cause::FdOrInotifyExhausted, Confidence::High)]
        );
        let instances = [
            "# find /proc/[0-9]*/fd -lname 'anon_inode:inotify' | wc -l",
            "128",
            "# cat /proc/sys/fs/inotify/max_user_instances",
            "128",
        ];
        assert_eq!(
            proved(&instances),
            [(Cause::FdOrInotifyExhausted, Confidence::Medium)]
        );
    }

    #[test]
    fn a_number_alone_proves_nothing() {
        assert_eq!(proved(&["4915", "4915"]), []);
        assert_eq!(proved(&["# cat /proc/sys/kernel/pid_max", "32768"]), []);
        let most = "kernel.pid_max = 18446744073709551615";
        assert_eq!(proved(&[most, "0.1 0.1 0.1 1/300 9"]), []);
        assert_eq!(
            proved(&["# ls | wc -l", "1024", "Max open files 1024 1024 files"]),
            []
        );
    }
}
