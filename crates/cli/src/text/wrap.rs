//! Lines that fit a terminal of 80 columns.

/// The columns that a terminal has at least.
const COLUMNS: usize = 80;

/// Adds `text` to the page: `first` before its first line, and as many spaces before the
/// others. Whoever styles the text does so after it was wrapped.
pub fn wrap(page: &mut String, first: &str, text: &str) {
    let indent = " ".repeat(first.chars().count());
    let width = COLUMNS.saturating_sub(indent.len()).max(20);
    let mut before = first;
    for line in lines(text, width) {
        page.push_str(before);
        page.push_str(&line);
        page.push('\n');
        before = &indent;
    }
}

/// The lines of a text, none of them wider than `width`.
pub fn lines(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_ascii_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        let needs = rest.len() + usize::from(used > 0);
        if used > 0 && used + needs > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        // A word that fits no line is broken.
        while rest.len() > width {
            let next = rest.split_off(width);
            lines.push(rest.into_iter().collect());
            rest = next;
        }
        used += rest.len();
        line.extend(rest);
    }
    if !line.is_empty() || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_is_wider_than_it_may_be_and_no_word_is_lost() {
        let text = format!("one two {} three", "x".repeat(50));
        let lines = lines(&text, 20);
        assert!(
            lines.iter().all(|line| line.chars().count() <= 20),
            "{lines:?}"
        );
        assert_eq!(lines[0], "one two");
        assert_eq!(lines.concat().matches('x').count(), 50);
        let mut page = String::new();
        wrap(&mut page, "  - ", &"word ".repeat(30));
        assert!(
            page.lines()
                .skip(1)
                .all(|line| line.starts_with("    word")),
            "{page}"
        );
    }
}
