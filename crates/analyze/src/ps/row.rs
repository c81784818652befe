//! Parses lines into rows, with or without a header.

use serde::Deserialize;

/// What a listing shows of the age of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Age {
    /// Nothing.
    #[default]
    #[serde(skip)]
    Unknown,
    /// More than a minute.
    Minutes,
    /// More than an hour.
    Hours,
}

/// A process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    /// The process id.
    pub pid: u32,
    /// The parent's process id; in a tree (`ps f`) it is derived from the indentation.
    pub ppid: Option<u32>,
    /// `S`, `D`, `Ssl`.
    pub state: Option<String>,
    /// The kernel function that it waits in, possibly truncated.
    pub wchan: Option<String>,
    /// Percent of a processor that it took, in all its life as `ps` prints it.
    pub cpu: Option<f32>,
    /// Its resident memory in KiB.
    pub memory_kib: Option<u64>,
    /// How old it is at least.
    pub age: Age,
    /// The command with its arguments.
    pub command: String,
    /// Its line in the input.
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
const MAX_COMMAND_CHARS: usize = 300;

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
        let by_name = self
            .columns
            .as_deref()
            .and_then(|columns| by_columns(columns, line));
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

    /// The command that prints the next rows, which may have no header: `ps -eo pid,stat,args | grep D`.
    pub fn asked(&mut self, command: &str) {
        let mut words = command
            .split_ascii_whitespace()
            .skip_while(|word| *word != "ps");
        let is_option =
            |word: &&str| word.trim_start_matches('-').ends_with('o') && word.len() <= 4;
        let format = words.find(is_option).and_then(|_| words.next());
        let columns = format.unwrap_or_default().split(',');
        let columns: Vec<String> = columns
            .map(|column| {
                column
                    .split([':', '='])
                    .next()
                    .unwrap_or_default()
                    .to_ascii_uppercase()
            })
            .collect();
        let has = |name: &str| columns.iter().any(|column| column == name);
        let is_usable = has("PID") && columns.last().is_some_and(|last| is_command(last));
        if is_usable {
            self.columns = Some(columns);
            self.branch.clear();
        }
    }

    /// All rows.
    pub fn take_rows(&mut self) -> Vec<Row> {
        std::mem::take(&mut self.rows)
    }

    fn place_in_tree(&mut self, row: &mut Row) {
        let depth = row.command.find("\\_ ").map_or(0, |at| at + 1);
        match depth {
            // A wide column before it.
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

fn is_header(words: &[&str]) -> bool {
    words.contains(&"PID") && words.iter().any(|word| is_command(word))
}

fn is_command(column: &str) -> bool {
    matches!(column, "COMMAND" | "CMD" | "COMM" | "ARGS")
}

/// `Tue Mar 12 22:01:40 2019`.
const LSTART_WORDS: usize = 5;

/// The first `words` words, and what is behind them.
fn behind(text: &str, words: usize) -> Option<(&str, &str)> {
    let rest = behind_words(text, words)?;
    let end = text.len() - rest.len();
    Some((text[..end].trim_end(), rest))
}

/// How many words these columns have at the end of a row: `lstart` is `STARTED` in a header.
fn words_of(columns: &[impl AsRef<str>], row: &str) -> usize {
    let is_year = |word: &str| word.len() == 4 && word.starts_with("20");
    let ends_with_year = row.split_ascii_whitespace().last().is_some_and(is_year);
    let words = columns.iter().map(|column| match column.as_ref() {
        "LSTART" => LSTART_WORDS,
        "STARTED" if ends_with_year => LSTART_WORDS,
        _ => 1,
    });
    words.sum()
}

/// What is before the last `words` words, and they.
fn before(text: &str, words: usize) -> Option<(&str, &str)> {
    let mut end = text.trim_end().len();
    for _ in 0..words {
        end = text[..end].rfind(' ')?;
        end = text[..end].trim_end().len();
    }
    Some(text.split_at(end))
}

/// Parses a row by its header; the last column takes the rest of the line.
fn by_columns(columns: &[impl AsRef<str>], line: &str) -> Option<Row> {
    let mut row = Row::default();
    let mut rest = line;
    for (at, name) in columns.iter().map(AsRef::as_ref).enumerate() {
        let trimmed = rest.trim_start();
        let last = at + 1 == columns.len();
        let word_and_rest = match name {
            "LSTART" => behind(trimmed, LSTART_WORDS),
            // Its arguments stand in front of the columns behind it.
            name if is_command(name) => before(trimmed, words_of(&columns[at + 1..], trimmed)),
            _ => trimmed.split_once(' '),
        };
        let (word, after) = match word_and_rest {
            // The indentation of a tree is part of the command.
            _ if last && is_command(name) => (rest.strip_prefix(' ').unwrap_or(rest), ""),
            Some(split) => split,
            None => (trimmed.trim_end(), ""),
        };
        rest = after;
        match name {
            "PID" => row.pid = word.parse().ok()?,
            "PPID" => row.ppid = Some(word.parse().ok()?),
            "S" | "STAT" | "STATE" => row.state = Some(shortened(word)),
            "WCHAN" => row.wchan = wchan(word),
            // `top` prints that of its last interval.
            "%CPU" | "PCPU" if !columns.iter().any(|name| name.as_ref() == "TIME+") => {
                row.cpu = word.parse().ok();
            }
            "RSS" | "RES" => row.memory_kib = kib(word),
            "STIME" | "START" | "STARTED" => row.age = row.age.max(since(word)),
            "ELAPSED" | "ETIME" => row.age = row.age.max(elapsed(word)),
            "ETIMES" => row.age = row.age.max(of_seconds(word.parse().unwrap_or(0))),
            "COMMAND" | "CMD" | "COMM" | "ARGS" => row.command = shortened(word),
            _ => {}
        }
    }
    (row.pid > 0 && !row.command.is_empty()).then_some(row)
}

/// An amount of memory in KiB; `top` writes `39.6g`.
fn kib(word: &str) -> Option<u64> {
    let number = word.trim_end_matches(['k', 'm', 'g', 't']);
    let factor = match &word[number.len()..] {
        "" | "k" => 1,
        "m" => 1 << 10,
        "g" => 1 << 20,
        "t" => 1 << 30,
        _ => return None,
    };
    Some((number.parse::<f64>().ok()? * f64::from(factor)) as u64)
}

/// The columns of rows without a header: of `ps aux`, `-elf`, `-el`, `axl`, `ax` and `-ef`.
const LAYOUTS: [&[&str]; 6] = [
    &[
        "USER", "PID", "%CPU", "%MEM", "VSZ", "RSS", "TTY", "STAT", "START", "TIME", "COMMAND",
    ],
    &[
        "F", "S", "UID", "PID", "PPID", "C", "PRI", "NI", "ADDR", "SZ", "WCHAN", "STIME", "TTY",
        "TIME", "CMD",
    ],
    &[
        "F", "S", "UID", "PID", "PPID", "C", "PRI", "NI", "ADDR", "SZ", "WCHAN", "TTY", "TIME",
        "CMD",
    ],
    &[
        "F", "UID", "PID", "PPID", "PRI", "NI", "VSZ", "RSS", "WCHAN", "STAT", "TTY", "TIME",
        "COMMAND",
    ],
    &["PID", "TTY", "STAT", "TIME", "COMMAND"],
    &["UID", "PID", "PPID", "C", "STIME", "TTY", "TIME", "CMD"],
];

/// Parses a row without a header.
fn guessed(words: &[&str], line: &str) -> Option<Row> {
    let fits = |layout: &&&[&str]| {
        words.len() >= layout.len()
            && layout
                .iter()
                .zip(words)
                .all(|(name, word)| may_be(name, word))
    };
    by_columns(LAYOUTS.iter().find(fits)?, line)
}

/// Whether a word may be in this column.
fn may_be(column: &str, word: &str) -> bool {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    match column {
        "%CPU" | "%MEM" => word.contains('.') && word.parse::<f32>().is_ok(),
        "PID" | "PPID" | "VSZ" | "RSS" | "F" | "C" => is_number(word),
        "S" => word.len() == 1 && is_state(word),
        "STAT" => is_state(word),
        "TTY" => word == "?" || word.starts_with("pts/") || word.starts_with("tty"),
        "TIME" => word.contains(':'),
        _ => true,
    }
}

/// The rest of the line after this many words, with the indentation of a tree.
fn behind_words(line: &str, count: usize) -> Option<&str> {
    let mut rest = line.trim_start();
    for _ in 0..count {
        rest = rest.trim_start();
        rest = &rest[rest.find(' ')?..];
    }
    let rest = rest.strip_prefix(' ').unwrap_or(rest);
    (!rest.trim().is_empty()).then_some(rest)
}

fn is_state(word: &str) -> bool {
    let first = word.starts_with(['D', 'R', 'S', 'T', 't', 'W', 'X', 'Z', 'I']);
    first
        && word.len() <= 6
        && word
            .chars()
            .all(|c| c.is_ascii_alphabetic() || c == '<' || c == '+')
}

/// `ps` shows the time of a start within the last day, and the date of an earlier one.
fn since(word: &str) -> Age {
    match !word.contains(':') && word.chars().any(|c| c.is_ascii_digit()) {
        true => Age::Hours,
        false => Age::Unknown,
    }
}

/// `02-03:04:05`, `03:04:05` or `11:44`, which is minutes and seconds; or seconds alone, of `etimes`.
fn elapsed(word: &str) -> Age {
    if let Ok(seconds) = word.parse() {
        return of_seconds(seconds);
    }
    if word.contains('-') || word.matches(':').count() > 1 {
        return Age::Hours;
    }
    let minutes = word
        .split_once(':')
        .and_then(|(minutes, _)| minutes.parse::<u64>().ok());
    of_seconds(minutes.unwrap_or(0) * 60)
}

fn of_seconds(seconds: u64) -> Age {
    match seconds {
        3601.. => Age::Hours,
        60.. => Age::Minutes,
        _ => Age::Unknown,
    }
}

fn wchan(word: &str) -> Option<String> {
    (!matches!(word, "-" | "0" | "*" | "?")).then(|| shortened(word))
}

fn shortened(text: &str) -> String {
    text.trim_end().chars().take(MAX_COMMAND_CHARS).collect()
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
