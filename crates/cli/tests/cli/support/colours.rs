//! Colours are requested, so that only the escaping under test removes other escape sequences.

/// The text without colours.
pub fn without_colours(text: &str) -> String {
    let mut parts = text.split("\u{1b}[");
    let mut rest = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end = part.find(|c: char| !c.is_ascii_digit() && c != ';');
        match end.and_then(|end| part[end..].strip_prefix('m')) {
            Some(after) => rest.push_str(after),
            None => rest.push_str(&format!("\u{1b}[{part}")),
        }
    }
    rest
}
