//! Lines that fit a terminal of 80 columns.

use std::borrow::Cow;

use textwrap::Options;

/// The columns that a terminal has at least.
const COLUMNS: usize = 80;

/// Adds `text` to the page: `first` before its first line, and as many spaces before the
/// others. Style the text after it was wrapped: escape sequences would count as columns.
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

/// Texts with line breaks of their own are wrapped as a whole.
fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words.join(" ")
}
