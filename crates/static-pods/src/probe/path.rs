//! The request target for the path of a manifest or of a redirect, as a kubelet sends it.
//!
//! A kubelet parses the path with Go's `url.Parse`, formats it with `URL.String` and sends the
//! result of `URL.RequestURI` (`pkg/probe/http/request.go`, `net/url/url.go`). Characters that a
//! URL cannot contain are escaped. A path that cannot be parsed is escaped as a whole.

use std::fmt::Write;

/// The request target for a path and its query, both of them escaped.
pub(super) fn request_target(text: &str) -> String {
    parsed(text).unwrap_or_else(|| escaped(text.as_bytes(), is_plain))
}

/// The request target; `None` if `url.Parse` refuses the path.
fn parsed(text: &str) -> Option<String> {
    let (text, fragment) = text.split_once('#').unwrap_or((text, ""));
    unescaped(fragment)?;
    if text.bytes().any(|byte| byte.is_ascii_control()) {
        return None;
    }
    let (path, query) = match text.split_once('?') {
        Some((path, query)) => (path, Some(query)),
        None => (text, None),
    };
    // For Go, two slashes begin a host, which the probe's host then replaces.
    let path = match path.strip_prefix("//") {
        Some(rest) if !rest.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => path,
    };
    let bytes = unescaped(path)?;
    let is_valid = |byte| is_plain(byte) || b"!'()*[]%".contains(&byte);
    let mut target = match path.bytes().all(is_valid) {
        true => path.to_owned(),
        false => escaped(&bytes, is_plain),
    };
    if let Some(query) = query {
        // Go does not escape a query, but these characters would break the request.
        let is_sent = |byte: u8| byte.is_ascii_graphic() && !b"\"<>".contains(&byte);
        target.push('?');
        target.push_str(&escaped(query.as_bytes(), is_sent));
    }
    Some(target)
}

/// Whether Go does not escape this byte of a path (`shouldEscape` in mode `encodePath`).
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-_.~$&+,/:;=@".contains(&byte)
}

fn escaped(bytes: &[u8], is_kept: impl Fn(u8) -> bool) -> String {
    let mut text = String::with_capacity(bytes.len());
    for byte in bytes {
        match is_kept(*byte) {
            true => text.push(char::from(*byte)),
            // Writing to a string cannot fail.
            false => {
                let _ = write!(text, "%{byte:02X}");
            }
        }
    }
    text
}

/// The unescaped bytes; `None` if a `%` is not followed by two hexadecimal digits.
fn unescaped(text: &str) -> Option<Vec<u8>> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let digits = part.get(..2)?;
        let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
        bytes.push(u8::from_str_radix(digits, 16).ok().filter(|_| is_number)?);
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The results of Go 1.24 for `url.Parse(path)` with scheme and host set, then `String`, parsed
    /// again, then `RequestURI`. The exceptions are `"`, `<`, `>` and space in a query, which Go
    /// does not escape.
    #[test]
    fn a_path_is_sent_as_a_kubelet_sends_it() {
        for (path, sent) in [
            ("/healthz", "/healthz"),
            ("/a b", "/a%20b"),
            ("/a<b>", "/a%3Cb%3E"),
            ("/a\"b`{c}|d\\e^f", "/a%22b%60%7Bc%7D%7Cd%5Ce%5Ef"),
            ("/größe", "/gr%C3%B6%C3%9Fe"),
            ("/a%20b", "/a%20b"),
            ("/a%2Fb", "/a%2Fb"),
            ("/a%2Fb c", "/a/b%20c"),
            ("/a+b,c;d=e@f:g&h$i~", "/a+b,c;d=e@f:g&h$i~"),
            ("/a(b)*!'[c]", "/a(b)*!'[c]"),
            ("/a(b) c", "/a%28b%29%20c"),
            ("/a?b=c&d=/e", "/a?b=c&d=/e"),
            ("/a?b=c d<e", "/a?b=c%20d%3Ce"),
            ("/a?b?c", "/a?b?c"),
            ("/a?", "/a?"),
            ("/a#b", "/a"),
            ("/a%zz", "/a%25zz"),
            ("/a%2", "/a%252"),
            ("/a%zz?b#c", "/a%25zz%3Fb%23c"),
            ("/a#%zz", "/a%23%25zz"),
            ("/a\tb", "/a%09b"),
            ("//host/a b", "/a%20b"),
            ("//host", "/"),
            ("///a", "///a"),
        ] {
            assert_eq!(request_target(path), sent, "{path}");
            let uri = sent.parse::<hyper::Uri>();
            assert!(uri.is_ok(), "{sent}: {uri:?}");
        }
    }
}
