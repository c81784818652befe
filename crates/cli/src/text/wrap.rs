//! Lines that fit a terminal of 80 columns.

use std::borrow::Cow;
use std::io::IsTerminal;

use textwrap::Options;

/// The minimum width of a terminal.
const COLUMNS: usize = 80;

/// The width of the terminal that standard output is, at least 80; `None` for a pipe or a file, whose
/// lines are not wrapped.
pub fn terminal_columns() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let (columns, _) = crossterm::terminal::size().unwrap_or_default();
    Some(COLUMNS.max(columns.into()))
}

/// Wraps each line that is wider than `columns`, and indents its other lines. Escape sequences do not
/// count as columns.
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
/// others.
pub fn wrap(page: &mut String, first: &str, text: &str) {
    let indent = " ".repeat(first.chars().count());
    let options = Options::new(COLUMNS)
        .initial_indent(first)
        .subsequent_indent(&indent);
    page.push_str(&textwrap::fill(&one_line(text), options));
    page.push('\n');
}

/// The lines of a text, none of them wider than the terminal.
pub fn lines(text: &str) -> Vec<String> {
    let text = one_line(text);
    let lines = textwrap::wrap(&text, COLUMNS).into_iter();
    lines.map(Cow::into_owned).collect()
}

/// Line breaks in the text are replaced by spaces.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words.join(" ")
}
