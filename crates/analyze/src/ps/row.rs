//! Parses lines into rows, with or without a header.

use serde::Deserialize;

use super::columns::{by_columns, guessed, is_command, is_header};

/// The minimum age of a process, as a listing shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Age {
    /// The age is not known.
    #[default]
    #[serde(skip)]
    Unknown,
    /// More than a minute.
    Minutes,
    /// More than an hour.
    Hours,
}

impl Age {
    /// The minimum age in seconds.
    pub(super) fn seconds(self) -> Option<f64> {
        match self {
            Self::Unknown => None,
            Self::Minutes => Some(60.0),
            Self::Hours => Some(3600.0),
        }
    }
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The process id.
    pub pid: u32,
    /// The parent's process id; in a tree (`ps f`) it is derived from the indentation.
    pub ppid: Option<u32>,
    /// The state with its flags: `S`, `D`, `Ssl`.
    pub state: Option<String>,
    /// The kernel function that the process waits in, possibly truncated.
    pub wchan: Option<String>,
    /// The use of a processor over the whole life of the process, in percent, as `ps` prints it.
    pub cpu: Option<f32>,
    /// The use of a processor in the last interval, in percent, as `top` and `pidstat` print it.
    pub busy: Option<f32>,
    /// The resident memory in KiB.
    pub memory_kib: Option<u64>,
    /// The minimum age of the process.
    pub age: Age,
    /// The command with its arguments.
    pub command: String,
    /// The number of the line in the input.
    pub line: u64,
}

/// Reads rows line by line.
#[derive(Debug, Default)]
pub struct PsReader {
    columns: Option<Vec<String>>,
    /// The last process at each depth of the tree.
    branch: Vec<(usize, u32)>,
    rows: Vec<Row>,
}

const MAX_ROWS: usize = 8000;

impl PsReader {
    /// Parses a line; returns whether it belongs to a listing.
    pub fn line(&mut self, line: &str, number: u64) -> bool {
        if self.columns.is_none() && !may_be_row(line) {
            return false;
        }
        let words: Vec<&str> = line.split_ascii_whitespace().take(40).collect();
        if is_header(&words) {
            self.columns = Some(words.iter().map(|word| word.to_ascii_uppercase()).collect());
            self.branch.clear();
            return true;
        }
        let columns = self.columns.as_deref();
        let by_name = columns.and_then(|columns| by_columns(columns, line));
        let Some(mut row) = by_name.or_else(|| guessed(&words, line)) else {
            return false;
        };
        row.line = number;
        self.place_in_tree(&mut row);
        if row.state.is_none() && row.command.ends_with("<defunct>") {
            row.state = Some("Z".to_owned());
        }
        // Rows beyond the limit count as unread.
        let fits = self.rows.len() < MAX_ROWS;
        if fits {
            self.rows.push(row);
        }
        fits
    }

    /// Reads the command that prints the next rows, which may have no header:
    /// `ps -eo pid,stat,args | grep D`.
    pub fn asked(&mut self, command: &str) {
        let mut words = command
            .split_ascii_whitespace()
            .skip_while(|word| *word != "ps");
        let is_option =
            |word: &&str| word.trim_start_matches('-').ends_with('o') && word.len() <= 4;
        let format = words.find(is_option).and_then(|_| words.next());
        let name = |column: &str| column.split([':', '=']).next().map(str::to_ascii_uppercase);
        let columns = format.unwrap_or_default().split(',');
        let columns: Vec<String> = columns.filter_map(name).collect();
        let has = |name: &str| columns.iter().any(|column| column == name);
        let is_usable = has("PID") && columns.last().is_some_and(|last| is_command(last));
        if is_usable {
            self.columns = Some(columns);
            self.branch.clear();
        }
    }

    /// The last row, if it is of the line with this number.
    pub fn row_of(&self, number: u64) -> Option<&Row> {
        self.rows.last().filter(|row| row.line == number)
    }

    /// All rows.
    pub fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    fn place_in_tree(&mut self, row: &mut Row) {
        let depth = row.command.find("\\_ ").map_or(0, |at| at + 1);
        match depth {
            // A wide column may precede the command.
            0 => row.command = row.command.trim_start().to_owned(),
            _ => drop(row.command.drain(..depth + 2)),
        }
        self.branch.retain(|(other, _)| *other < depth);
        if depth > 0 && row.ppid.is_none() {
            row.ppid = self.branch.last().map(|(_, pid)| *pid);
        }
        self.branch.push((depth, row.pid));
    }
}

/// A cheap check for every line: the first or second word is a number, or it is a header.
fn may_be_row(line: &str) -> bool {
    let mut words = line.split_ascii_whitespace();
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    words.next().is_some_and(is_number)
        || words.next().is_some_and(is_number)
        || memchr::memmem::find(line.as_bytes(), b"PID").is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn row(lines: &[&str]) -> Row {
        let mut reader = PsReader::default();
        for line in lines {
            assert!(reader.line(line, 1), "{line}");
        }
        reader.take_rows().pop().unwrap()
    }

    #[test]
    fn the_columns_that_a_command_asks_for_need_no_header() {
        let mut reader = PsReader::default();
        reader.asked("# ps -eo pid,stat,wchan:30,args | grep '[k]ubelet '");
        assert!(reader.line(
            "  40277 Dsl  rpc_wait_bit_killable   /usr/bin/kubelet --v=4",
            2
        ));
        let row = reader.take_rows().pop().unwrap();
        assert_eq!((row.pid, row.state.as_deref()), (40277, Some("Dsl")));
        assert_eq!(row.wchan.as_deref(), Some("rpc_wait_bit_killable"));
        let mut reader = PsReader::default();
        reader.asked("ps -eo pid,stat,lstart,wchan:25,cmd");
        assert!(reader.line(
            "23511 D    Tue Mar 12 22:01:40 2019 rbd_dev_image_probe       rbd map pool/image",
            2
        ));
        let row = reader.take_rows().pop().unwrap();
        assert_eq!(row.wchan.as_deref(), Some("rbd_dev_image_probe"));
        assert_eq!(row.command.trim_start(), "rbd map pool/image");
        // Nothing shows which columns these are, or where the command begins.
        for command in ["ps -eo stat,args", "ps aux"] {
            let mut reader = PsReader::default();
            reader.asked(command);
            assert!(!reader.line("  40277 Dsl  rpc_wait_bit_killable   /usr/bin/kubelet", 2));
        }
    }

    #[test]
    fn rows_of_all_forms_are_read() {
        let long = row(&[
            "5 D root      14378  13862  0  80   0 - 269979 refrig Sep30 ?       00:00:00 /usr/local/bin/runc init",
        ]);
        assert_eq!(
            (long.pid, long.ppid, long.wchan.as_deref(), long.age),
            (14378, Some(13862), Some("refrig"), Age::Hours)
        );
        assert_eq!(long.command, "/usr/local/bin/runc init");
        let full = row(&["root         1     0  0 09:12 ?        00:01:02 /sbin/init splash"]);
        assert_eq!(
            (full.pid, full.ppid, full.age, &*full.command),
            (1, Some(0), Age::Unknown, "/sbin/init splash")
        );
        let of_l = row(&[
            "4     0 25517 11840  20   0      0     0 do_exi Z    ?          0:00  |   \\_ [runc] <defunct>",
        ]);
        assert_eq!(
            (of_l.pid, of_l.ppid, of_l.state.as_deref(), &*of_l.command),
            (25517, Some(11840), Some("Z"), "[runc] <defunct>")
        );
        let dead = row(&["root 4021 90415 0 Jan29 ? 00:00:00 [su] <defunct>"]);
        assert_eq!(dead.state.as_deref(), Some("Z"));
        let short = row(&["20117 ?        Zs     0:11      |   \\_ [sh] <defunct>"]);
        assert_eq!(
            (short.pid, short.state.as_deref(), &*short.command),
            (20117, Some("Zs"), "[sh] <defunct>")
        );
        let named = row(&[
            "  PID  PPID ELAPSED COMMAND",
            "  12   1  02-03:04:05 terway",
        ]);
        assert_eq!(
            (named.pid, named.ppid, named.age, &*named.command),
            (12, Some(1), Age::Hours, "terway")
        );
        let minutes = row(&["  PID  PPID ELAPSED COMMAND", "  12   1  11:44 calico"]);
        assert_eq!(minutes.age, Age::Minutes);
        let cut = row(&["USER PID %CPU COMMAND", "root 12 0.0 x"]);
        assert_eq!(cut.pid, 12);
    }

    #[test]
    fn columns_may_be_padded_and_the_command_need_not_be_the_last() {
        let stopped = row(&[
            "    PID STAT WCHAN                       COMMAND",
            "    911 Tsl  do_signal_stop              /usr/bin/containerd",
        ]);
        assert_eq!(&*stopped.command, "/usr/bin/containerd");
        let init = row(&[
            "    PID STAT WCHAN            COMMAND         ELAPSED",
            "  22112 Ssl  pipe_write       runc init           911",
        ]);
        assert_eq!((&*init.command, init.age), ("runc init", Age::Minutes));
        let plugin = row(&[
            "  PID ELAPSED COMMAND",
            "  12   5112 /opt/cni/bin/azure-vnet",
        ]);
        assert_eq!(plugin.age, Age::Hours);
    }

    #[test]
    fn a_drawn_tree_shows_the_parents() {
        let child = row(&[
            "root 10 0.0 0.0 712192 9488 ? Sl Nov26 0:07 /usr/bin/containerd-shim-runc-v2 -id x",
            "root 11 0.0 0.0 1230404 10940 ? Sl Nov26 0:00  \\_ runc create",
            "root 12 0.0 0.0 1083864 11244 ? Ssl Nov26 0:00      \\_ runc init",
        ]);
        assert_eq!(
            (child.pid, child.ppid, &*child.command),
            (12, Some(11), "runc init")
        );
    }

    #[test]
    fn prose_and_log_lines_are_no_rows() {
        let mut reader = PsReader::default();
        for line in [
            "",
            "the node has 3 containers",
            "1 D root x",
            "May 5 13:59:56 host kubelet[1]: x",
        ] {
            assert!(!reader.line(line, 1), "{line}");
        }
    }
}
