//! The columns of a row: by the names in a header, or by the form of their words.

use causes::facts::facts;

use super::row::{Age, Row};

const MAX_COMMAND_CHARS: usize = 300;

pub(super) fn is_header(words: &[&str]) -> bool {
    // pidstat does not write it in capital letters.
    let is_name = |word: &&str| is_command(word) || *word == "Command";
    words.contains(&"PID") && words.iter().any(is_name)
}

pub(super) fn is_command(column: &str) -> bool {
    matches!(column, "COMMAND" | "CMD" | "COMM" | "ARGS")
}

/// `Tue Mar 12 22:01:40 2019`.
const LSTART_WORDS: usize = 5;

/// The first `words` words, and the text after them.
fn behind(text: &str, words: usize) -> Option<(&str, &str)> {
    let mut rest = text;
    for _ in 0..words {
        rest = rest.trim_start();
        rest = &rest[rest.find(' ')?..];
    }
    Some(text.split_at(text.len() - rest.len()))
}

/// How many words these columns have at the end of a row: `lstart` is `STARTED` in a header.
fn words_of(columns: &[String], row: &str) -> usize {
    let is_year = |word: &str| word.len() == 4 && word.starts_with("20");
    let ends_with_year = row.split_ascii_whitespace().last().is_some_and(is_year);
    let words = columns.iter().map(|column| match column.as_str() {
        "LSTART" => LSTART_WORDS,
        "STARTED" if ends_with_year => LSTART_WORDS,
        _ => 1,
    });
    words.sum()
}

/// The text before the last `words` words, and these words.
fn before(text: &str, words: usize) -> Option<(&str, &str)> {
    let mut end = text.trim_end().len();
    for _ in 0..words {
        end = text[..end].rfind(' ')?;
        end = text[..end].trim_end().len();
    }
    Some(text.split_at(end))
}

/// Parses a row by its header; the last column takes the rest of the line.
pub(super) fn by_columns(columns: &[String], line: &str) -> Option<Row> {
    let mut row = Row::default();
    let mut rest = line;
    for (at, name) in columns.iter().map(String::as_str).enumerate() {
        let trimmed = rest.trim_start();
        let last = at + 1 == columns.len();
        let word_and_rest = match name {
            "LSTART" => behind(trimmed, LSTART_WORDS),
            // The arguments extend up to the columns after them.
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
            "%CPU" if columns.iter().any(|it| it == "TIME+" || it == "%SYSTEM") => {
                row.busy = word.parse().ok();
            }
            "%CPU" | "PCPU" => row.cpu = word.parse().ok(),
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

pub(super) fn guessed(words: &[&str], line: &str) -> Option<Row> {
    let fits = |layout: &&Vec<String>| {
        let mut pairs = layout.iter().zip(words);
        words.len() >= layout.len() && pairs.all(|(name, word)| may_be(name, word))
    };
    by_columns(facts().ps_layouts.iter().find(fits)?, line)
}

fn may_be(column: &str, word: &str) -> bool {
    let is_number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    match column {
        "%CPU" | "%MEM" => word.contains('.') && word.parse::<f32>().is_ok(),
        "PID" | "PPID" | "VSZ" | "RSS" | "F" | "C" => is_number(word),
        "S" => word.len() == 1 && is_state(word),
        "STAT" => is_state(word),
        "TTY" => word == "?" || word.starts_with("pts/") || word.starts_with("tty"),
        "TIME" | "TIME+" => word.contains(':'),
        _ => true,
    }
}

fn is_state(word: &str) -> bool {
    let is_part = |c: char| c.is_ascii_alphabetic() || c == '<' || c == '+';
    word.starts_with(['D', 'R', 'S', 'T', 't', 'W', 'X', 'Z', 'I'])
        && word.len() <= 6
        && word.chars().all(is_part)
}

/// The age, from the start that `ps` shows: the time if it was within the last day, else the date.
fn since(word: &str) -> Age {
    match !word.contains(':') && word.chars().any(|c| c.is_ascii_digit()) {
        true => Age::Hours,
        false => Age::Unknown,
    }
}

/// The age, from `02-03:04:05`, `03:04:05`, `11:44` (minutes and seconds), or the seconds of `etimes`.
fn elapsed(word: &str) -> Age {
    if let Ok(seconds) = word.parse() {
        return of_seconds(seconds);
    }
    if word.contains('-') || word.matches(':').count() > 1 {
        return Age::Hours;
    }
    let minutes = word.split(':').next().unwrap_or_default();
    of_seconds(minutes.parse::<u64>().unwrap_or(0) * 60)
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
