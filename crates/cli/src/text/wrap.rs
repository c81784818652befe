//! Lines that fit a terminal of 80 columns. In reports, words and commands stay whole, so that they can be
//! copied.

use std::borrow::Cow;
use std::io::IsTerminal;

use textwrap::{Options, WordSplitter};

/// The width of reports, and the minimum width of a terminal.
const COLUMNS: usize = 80;

/// A space at which no line is broken.
const NO_BREAK: char = '\u{a0}';

/// The width of the terminal on standard output, but at least 80 columns. `None` for a pipe or a file,
/// whose lines are not wrapped.
pub fn terminal_columns() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = crossterm::terminal::size().unwrap_or_default();
    Some(COLUMNS.max(columns.into()))
}

/// Wraps each line that is wider than `columns`, and indents its continuation lines. Escape sequences
/// do not count as columns.
pub fn fit(page: &str, indent: usize, columns: Option<usize>) -> String {
    let Some(columns) = columns else {
        return page.to_owned();
    };
    let indent = " ".repeat(indent);
    let options = Options::new(columns).subsequent_indent(&indent);
    let lines = page.lines().map(|line| textwrap::fill(line, &options));
    lines.map(|line| line + "\n").collect()
}

/// Adds `text` to the page, wrapped: `first` before its first line, and as many spaces before the
/// others. A word or command that is wider than a line is not broken.
pub fn wrap(page: &mut String, first: &str, text: &str) {
    let indent = " ".repeat(first.chars().count());
    let options = options().initial_indent(first).subsequent_indent(&indent);
    let wrapped = textwrap::fill(&in_one_piece(&one_line(text)), options);
    page.push_str(&wrapped.replace(NO_BREAK, " "));
    page.push('\n');
}

/// The lines of a wrapped text. Only a single word or command can make a line wider than the terminal.
pub fn lines(text: &str) -> Vec<String> {
    let text = in_one_piece(&one_line(text));
    let lines = textwrap::wrap(&text, options()).into_iter();
    let lines = lines.map(Cow::into_owned);
    lines.map(|line| line.replace(NO_BREAK, " ")).collect()
}

/// Options with which lines are broken only at spaces.
fn options<'a>() -> Options<'a> {
    let options = Options::new(COLUMNS).break_words(false);
    options.word_splitter(WordSplitter::NoHyphenation)
}

/// Replaces line breaks and repeated spaces by single spaces.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words.join(" ")
}

/// Joins the words of each command, which is the text between two backticks.
fn in_one_piece(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let last = parts.len() - 1;
    let parts = parts.iter().enumerate().map(|(number, part)| {
        // The part after a backtick without a second one is not a command.
        match number % 2 == 1 && number < last {
            true => part.replace(' ', NO_BREAK.encode_utf8(&mut [0; 2])),
            false => (*part).to_owned(),
        }
    });
    parts.collect::<Vec<_>>().join("`")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> String {
        let mut page = String::new();
        wrap(&mut page, "  1. ", text);
        page
    }

    #[test]
    fn a_command_a_path_and_an_id_can_be_copied_from_one_line() {
        let file = format!(
            "/sys/fs/cgroup/freezer/kubepods/{}/freezer.state",
            "c6".repeat(32)
        );
        let commands = [
            format!("`echo THAWED > {file}`"),
            "`prlimit --pid 23873 --nofile=108:`".to_owned(),
            "`kubectl delete pod -n shop web`".to_owned(),
        ];
        let text = format!(
            "first {}, then {} or {}",
            commands[0], commands[1], commands[2]
        );
        let wrapped = page(&format!("raise it {text}; {file} is the file"));
        let lines: Vec<&str> = wrapped.lines().collect();
        for whole in commands.iter().chain([&file]) {
            assert!(lines.iter().any(|line| line.contains(whole)), "{wrapped}");
        }
        assert!(lines.len() > 4, "{wrapped}");
        assert!(
            super::lines(&text)
                .iter()
                .any(|line| line.contains(&commands[0]))
        );
    }

    #[test]
    fn all_other_text_fits_80_columns_even_after_a_single_backtick() {
        let quoted = "it's said: `".to_owned() + &"one and another ".repeat(20);
        for text in ["a word ".repeat(30), quoted] {
            let wrapped = page(&text);
            assert!(
                wrapped.lines().all(|line| line.chars().count() <= 80),
                "{wrapped}"
            );
            assert!(wrapped.lines().count() > 2, "{wrapped}");
        }
    }
}
