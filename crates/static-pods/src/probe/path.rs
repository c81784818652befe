//! The request target of a path as a manifest or a server writes it: that which a kubelet would send.
//!
//! A kubelet parses the path by Go's `url.Parse`, writes it by `URL.String` and sends what
//! `URL.RequestURI` gives (`pkg/probe/http/request.go`, `net/url/url.go`): what may not stand in a URL
//! is escaped, and a path that no URL can have is sent with all of it escaped.

use std::fmt::Write;

/// What follows the method in a request: the path, escaped, with the query.
pub(super) fn request_target(text: &str) -> String {
    parsed(text).unwrap_or_else(|| escaped(text.as_bytes(), is_plain))
}

/// `None` for what `url.Parse` refuses.
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
    // What follows two slashes is a host, in whose place the probe's is used.
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
        // Go sends a query as it is; these characters would break the request.
        let is_sent = |byte: u8| byte.is_ascii_graphic() && !b"\"<>".contains(&byte);
        target.push('?');
        target.push_str(&escaped(query.as_bytes(), is_sent));
    }
    Some(target)
}

/// Whether Go leaves this byte of a path as it is (`shouldEscape` in mode `encodePath`).
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

/// `None` if a `%` is not followed by two digits.
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

    /// As Go 1.24 has it for `url.Parse(path)` with scheme and host set, `String`, parsed again,
    /// `RequestURI`; except for `"`, `<`, `>` and space in a query, which Go sends as they are.
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
