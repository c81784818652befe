//! Quoted texts: Go's and JSON's escapes, key=value pairs, and the HTML entities of web pages.
//!
//! ```
//! use analyze::line::quoted;
//!
//! let line = br#"level=error msg="cannot read \"config.json\"" id=61ac"#;
//! assert_eq!(quoted::value(line, "msg").as_deref(), Some(&br#"cannot read "config.json""#[..]));
//! assert_eq!(quoted::value(line, "id").as_deref(), Some(&b"61ac"[..]));
//! ```

use std::borrow::Cow;

/// The value of `key="…"` or `key=word`, unescaped.
pub fn value<'a>(line: &'a [u8], key: &str) -> Option<Cow<'a, [u8]>> {
    let mut rest = line;
    loop {
        let at = memchr::memmem::find(rest, key.as_bytes())?;
        let before = at.checked_sub(1).map(|at| rest[at]);
        let behind = &rest[at + key.len()..];
        rest = behind;
        if before.is_some_and(|byte| byte.is_ascii_alphanumeric()) {
            continue;
        }
        match behind {
            [b'=', b'"', text @ ..] => return Some(unescape(inside(text))),
            [b'=', b'\\', b'"', text @ ..] => {
                let end = memchr::memmem::find(text, b"\\\"").unwrap_or(text.len());
                return Some(Cow::Borrowed(&text[..end]));
            }
            [b'=', text @ ..] => return Some(Cow::Borrowed(super::until(text, b" ,"))),
            _ => {}
        }
    }
}

/// The text up to the closing quotation mark, or all of it if it was cut off.
fn inside(text: &[u8]) -> &[u8] {
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'\\' => at += 2,
            b'"' => return &text[..at],
            _ => at += 1,
        }
    }
    text
}

/// Replaces the escapes `\n`, `\t`, `\"`, `\\` and `\/`, and removes `\r`; other escapes are kept.
pub fn unescape(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memchr(b'\\', text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut plain = Vec::with_capacity(text.len());
    let mut bytes = text.iter();
    while let Some(&byte) = bytes.next() {
        if byte != b'\\' {
            plain.push(byte);
            continue;
        }
        match bytes.next() {
            Some(b'n') => plain.push(b'\n'),
            Some(b't') => plain.push(b'\t'),
            Some(b'r') => {}
            Some(&other @ (b'"' | b'\\' | b'/')) => plain.push(other),
            Some(&other) => plain.extend([b'\\', other]),
            None => plain.push(b'\\'),
        }
    }
    Cow::Owned(plain)
}

/// Replaces HTML entities.
pub fn without_entities(line: &[u8]) -> Cow<'_, [u8]> {
    const ENTITIES: [(&[u8], u8); 8] = [
        (b"&lt;", b'<'),
        (b"&gt;", b'>'),
        (b"&amp;", b'&'),
        (b"&quot;", b'"'),
        (b"&#34;", b'"'),
        (b"&#39;", b'\''),
        (b"&#43;", b'+'),
        (b"&nbsp;", b' '),
    ];
    let entity = |text: &[u8]| ENTITIES.iter().find(|(entity, _)| text.starts_with(entity));
    if !memchr::memchr_iter(b'&', line).any(|at| entity(&line[at..]).is_some()) {
        return Cow::Borrowed(line);
    }
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(first) = rest.first() {
        let entity = entity(rest);
        let (byte, length) = entity.map_or((*first, 1), |(entity, byte)| (*byte, entity.len()));
        plain.push(byte);
        rest = &rest[length..];
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_keys() {
        let line =
            br#"time="2021-01-01" level=error msg="get state for \"x\"" error="context deadline"#;
        let get =
            |key| value(line, key).map(|value| String::from_utf8(value.into_owned()).unwrap());
        assert_eq!(get("level").as_deref(), Some("error"));
        assert_eq!(get("msg").as_deref(), Some("get state for \"x\""));
        assert_eq!(get("error").as_deref(), Some("context deadline"));
        assert_eq!(get("sg"), None);
    }

    #[test]
    fn escapes_and_entities_are_undone() {
        assert_eq!(&*unescape(br#"a\n\tb\"\q\"#), b"a\n\tb\"\\q\\");
        assert_eq!(
            &*without_entities(b"map[string]string&#34;x&quot; &lt;nil&gt; & &unknown;"),
            b"map[string]string\"x\" <nil> & &unknown;"
        );
    }
}
