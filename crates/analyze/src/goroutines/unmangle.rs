//! Removes the markup that issue trackers add to stacks: links around paths, and emphasis.

use std::borrow::Cow;

/// `[text](http://text)` becomes `text`, and markup around a line is removed.
pub fn plain(line: &str) -> Cow<'_, str> {
    let mut line = line.trim();
    if line.starts_with('`') || line.ends_with('`') {
        line = line.trim_matches('`').trim();
    }
    if memchr::memchr(b']', line.as_bytes()).is_none() || !line.contains("](http") {
        return Cow::Borrowed(line);
    }
    let mut plain = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("](http") {
        let text = &rest[..at];
        match text.rfind('[') {
            Some(open) => {
                plain.push_str(&text[..open]);
                plain.push_str(&text[open + 1..]);
            }
            None => plain.push_str(text),
        }
        // URLs may contain parentheses, but neither spaces nor commas.
        let address = &rest[at + 2..];
        let end = address.find([' ', ',']).unwrap_or(address.len());
        rest = &address[end..];
    }
    plain.push_str(rest);
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_replaced_with_their_texts() {
        assert_eq!(
            plain("[a.com/c.(*s).Get(0xc0)](http://a.com/c.(*s).Get(0xc0)) --> Needs Read Lock"),
            "a.com/c.(*s).Get(0xc0) --> Needs Read Lock"
        );
        assert_eq!(
            plain("[a.com/s.to({{{0xc0](http://a.com/s.to(%7B%7B%7B0xc0), 0x40}, ...})"),
            "a.com/s.to({{{0xc0, 0x40}, ...})"
        );
        assert_eq!(
            plain("  `sync.(*Mutex).Lock(...)`"),
            "sync.(*Mutex).Lock(...)"
        );
    }
}
