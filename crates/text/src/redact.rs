//! Removes credentials from text that is quoted or saved, because others may read it.
//!
//! ```text
//!   password=hunter2   "token": "abc"   --api-key abc   --> the key stays, the value is [redacted]
//!   Authorization: Bearer abc                           --> the scheme stays
//!   https://user:abc@host    eyJhbGci…    AKIA…         --> only the credential is removed
//!   token expired    secret "a" not found    key=a      --> unchanged
//! ```
//!
//! The text is read once. The end of a word decides whether it is a key (`DB_PASSWORD`); the
//! characters after it decide whether a value follows. An error message can follow a colon as well, so
//! after a colon and a space, a plain word is a value only at the end of its line or in a list.

use std::borrow::Cow;
use std::ops::Range;

use words::{
    LINE_SCHEMES, ONE_WORD_SCHEMES, PLAIN_VALUES, ends_with, is_blank, is_credential, is_key,
    is_mount_key, is_quote, is_token, is_word,
};

mod words;

/// The text that replaces a credential.
pub const REDACTED: &str = "[redacted]";

const KEY_BEGIN: &str = "-----BEGIN ";
const KEY_HEADER_END: &str = "PRIVATE KEY-----";
const KEY_END: &str = "-----END ";

/// The longest first line of a private key.
const MAX_KEY_HEADER_BYTES: usize = 80;

/// The text with each credential replaced by `[redacted]`.
pub fn redact(text: &str) -> Cow<'_, str> {
    let mut redaction = Redaction {
        text,
        bytes: text.as_bytes(),
        at: 0,
        copied: 0,
        redacted: String::new(),
    };
    redaction.run();
    if redaction.copied == 0 {
        return text.into();
    }
    redaction.redacted.push_str(&text[redaction.copied..]);
    redaction.redacted.into()
}

/// Like [`redact`], for an owned text.
pub fn redacted(text: String) -> String {
    let redacted = match redact(&text) {
        Cow::Owned(redacted) => Some(redacted),
        Cow::Borrowed(_) => None,
    };
    redacted.unwrap_or(text)
}

struct Redaction<'a> {
    text: &'a str,
    bytes: &'a [u8],
    /// Everything before this index has been read.
    at: usize,
    /// Everything before this index is in `redacted`.
    copied: usize,
    redacted: String,
}

impl Redaction<'_> {
    fn run(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at) {
            if is_word(byte) {
                let start = self.at;
                self.at = self.end_of(start, is_word);
                self.word(start, self.at);
            } else if byte == b'/' && self.bytes.get(self.at + 1) == Some(&b'/') {
                self.authority();
            } else {
                self.at += 1;
            }
        }
    }

    fn get(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or(0)
    }

    /// The index of the first byte from `start` on for which `is_in` is false.
    fn end_of(&self, start: usize, is_in: impl Fn(u8) -> bool) -> usize {
        let rest = self.bytes.get(start..).unwrap_or_default();
        let length = rest.iter().position(|byte| !is_in(*byte));
        start + length.unwrap_or(rest.len())
    }

    /// Redacts a range. Both of its ends are at ASCII characters, or at an end of the text.
    fn replace(&mut self, start: usize, end: usize) {
        if start < end {
            self.redacted.push_str(&self.text[self.copied..start]);
            self.redacted.push_str(REDACTED);
            self.copied = end;
        }
        self.at = self.at.max(end);
    }

    fn word(&mut self, start: usize, end: usize) {
        let word = &self.bytes[start..end];
        if word.starts_with(b"-----BEGIN") {
            self.private_key(start);
        } else if is_credential(word) {
            let end = self.end_of(end, |byte| is_word(byte) || b"+/=".contains(&byte));
            self.replace(start, end);
        } else if ends_with(word, b"authorization") {
            self.authorization(end);
        } else if word.eq_ignore_ascii_case(b"bearer") {
            let value = self.end_of(end, |byte| byte == b' ');
            let stop = self.end_of(value, is_token);
            // A shorter word is part of a sentence.
            if value > end && stop - value >= 16 {
                self.replace(value, stop);
            }
        } else if is_key(word) {
            self.key(start, end);
        }
    }

    /// Redacts the value, if any, after a word that is the name of a credential.
    fn key(&mut self, start: usize, end: usize) {
        if let Some(value) = self.value_of(start, end) {
            let is_plain = |plain: &&[u8]| self.bytes[value.clone()].eq_ignore_ascii_case(plain);
            if self.text[value.start..].starts_with(REDACTED) {
                self.at = value.start + REDACTED.len();
            } else if !PLAIN_VALUES.iter().any(is_plain) {
                self.replace(value.start, value.end);
            }
        }
    }

    /// The value of the key at `start..end`, without its quotes.
    fn value_of(&self, start: usize, end: usize) -> Option<Range<usize>> {
        let is_flag = self.get(start) == b'-';
        let after = self.after_quote(end);
        let is_quoted = after > end;
        let separator = self.end_of(after, is_blank);
        let is_spaced = separator > after;
        let value = self.end_of(separator + 1, is_blank);
        match self.get(separator) {
            b'=' if self.get(separator + 1) != b'=' => {
                Some(self.value_at(if is_spaced { value } else { separator + 1 }))
            }
            b':' if is_quoted || !is_spaced => {
                let opens_quote = self.after_quote(value) > value;
                let is_apart = value > separator + 1;
                if opens_quote && (is_quoted || !is_apart) {
                    Some(self.value_at(value))
                } else if is_apart || is_quoted {
                    let found = self.value_at(value);
                    let is_mapping = self.is_mapping(start, end, is_quoted);
                    let is_value = is_mapping && (opens_quote || self.is_scalar(&found));
                    Some(found).filter(|found| is_value || self.is_random(found))
                } else {
                    // The tag of an image is not a value.
                    let is_value = start == 0 || self.get(start - 1) != b'/';
                    let is_value = is_value && !is_mount_key(&self.bytes[start..end]);
                    is_value.then(|| self.value_at(value))
                }
            }
            // A flag and its value may be two strings of a list.
            b',' if is_flag => {
                let is_list = is_quoted && self.after_quote(value) > value;
                let found = self.value_at(value);
                Some(found).filter(|found| is_list || self.is_random(found))
            }
            next if is_flag && is_spaced && !is_quoted && next != b'-' => {
                Some(self.value_at(separator))
            }
            _ => None,
        }
    }

    /// The end of a quote and the backslashes before it; `at` if there is no quote.
    fn after_quote(&self, at: usize) -> usize {
        let quote = self.end_of(at, |byte| byte == b'\\');
        match is_quote(self.get(quote)) {
            true => quote + 1,
            false => at,
        }
    }

    /// The value that begins at `at`, without its quotes.
    fn value_at(&self, at: usize) -> Range<usize> {
        let start = self.after_quote(at);
        if start == at {
            return at..self.end_of_bare(at);
        }
        // In a text that was quoted again, both quotes of the value have the same number of
        // backslashes.
        let (quote, depth) = (self.get(start - 1), start - 1 - at);
        let mut backslashes = 0;
        let mut end = self.bytes.len();
        for (at, byte) in self.bytes.iter().enumerate().skip(start) {
            match *byte {
                b'\\' => backslashes += 1,
                byte if byte == quote
                    && (backslashes <= depth || depth == 0 && backslashes % 2 == 0) =>
                {
                    end = at - backslashes.min(depth);
                    break;
                }
                _ => backslashes = 0,
            }
        }
        start..end.max(start)
    }

    /// The end of a value without quotes. In doubt, the later end is chosen, so that no part of a
    /// secret remains.
    fn end_of_bare(&self, start: usize) -> usize {
        let mut at = start;
        // The keys and values inside a list or mapping are read instead.
        if b"{[".contains(&self.get(at)) {
            return at;
        }
        while let Some(&byte) = self.bytes.get(at) {
            let next = at + 1;
            let is_end = match byte {
                b',' | b';' | b'"' | b'`' => true,
                b'\'' | b')' | b']' | b'}' | b'>' => !self.get(next).is_ascii_alphanumeric(),
                // The next parameter of a query.
                b'&' => {
                    let name = self.end_of(next, is_word);
                    name > next && self.get(name) == b'='
                }
                b'\\' => {
                    let run = self.end_of(at, |byte| byte == b'\\');
                    if !is_quote(self.get(run)) {
                        at = run;
                        continue;
                    }
                    true
                }
                byte => byte.is_ascii_whitespace(),
            };
            if is_end {
                break;
            }
            at = next;
        }
        at
    }

    /// Whether the colon after this key is that of a mapping. "failed to get token: EOF" and "secret
    /// "a-token": not found" are prose. After `password:`, a password is more likely than prose.
    fn is_mapping(&self, start: usize, end: usize, is_quoted: bool) -> bool {
        let word = &self.bytes[start..end];
        let is_prose = ends_with(word, b"token") || ends_with(word, b"secret");
        let is_hump = |pair: &[u8]| pair[0].is_ascii_lowercase() && pair[1].is_ascii_uppercase();
        let is_compound =
            word.iter().any(|byte| b"_-".contains(byte)) || word.windows(2).any(is_hump);
        if !is_quoted && (!is_prose || is_compound) {
            return !is_mount_key(word);
        }
        let before = self.text[..start].trim_end_matches([' ', '\t', '"', '\'', '\\']);
        matches!(
            before.bytes().last(),
            None | Some(b'\n' | b'{' | b',' | b'-')
        )
    }

    /// Whether the text after a colon is a value, not the first word of a sentence: only another value
    /// follows it on its line, or it is not a plain word.
    fn is_scalar(&self, value: &Range<usize>) -> bool {
        let after = self.end_of(value.end, is_blank);
        let is_plain = |byte: &u8| byte.is_ascii_lowercase() || b"'-:".contains(byte);
        let is_last = matches!(self.get(after), 0 | b'\n' | b'\r');
        is_last
            || b",;}])\"'\\".contains(&self.get(value.end))
            || !self.bytes[value.clone()].iter().skip(1).all(is_plain)
    }

    /// Whether the value can be neither a word nor a number in a sentence.
    fn is_random(&self, value: &Range<usize>) -> bool {
        let value = &self.bytes[value.clone()];
        let has = |is_in: fn(&u8) -> bool| value.iter().any(is_in);
        value.len() >= 6
            && !value.ends_with(b":")
            && has(u8::is_ascii_digit)
            && has(u8::is_ascii_alphabetic)
    }

    fn authorization(&mut self, end: usize) {
        let after = self.after_quote(end);
        let separator = self.end_of(after, is_blank);
        if !matches!(self.get(separator), b':' | b'=') {
            return;
        }
        let opening = self.end_of(separator + 1, |byte| is_blank(byte) || byte == b'[');
        let start = self.after_quote(opening);
        let is_quoted = start > opening;
        let scheme = self.end_of(start, is_word);
        let credential = self.end_of(scheme, is_blank);
        let is_one_of = |schemes: &[&str]| {
            let word = &self.text[start..scheme];
            credential > scheme && schemes.iter().any(|it| word.eq_ignore_ascii_case(it))
        };
        let is_line = |byte| byte != b'\n' && byte != b'\r';
        if is_one_of(&ONE_WORD_SCHEMES) {
            self.replace(credential, self.end_of(credential, is_token));
        } else if is_one_of(&LINE_SCHEMES) {
            let stop = match is_quoted {
                true => self.value_at(opening).end,
                false => self.end_of(credential, is_line),
            };
            self.replace(credential, stop);
        } else if is_quoted && after > end {
            self.replace(start, self.value_at(opening).end);
        }
    }

    fn authority(&mut self) {
        let start = self.at + 2;
        let is_in =
            |byte: u8| !byte.is_ascii_whitespace() && !b"/?#\"'`<>()[]{}\\|".contains(&byte);
        let end = self.end_of(start, is_in);
        let authority = &self.bytes[start..end];
        let user = authority.iter().rposition(|byte| *byte == b'@');
        // Without a scheme, as for a mounted share, only a user with a password is a credential.
        let has_scheme = self.at > 0 && self.get(self.at - 1) == b':';
        self.at = start;
        if let Some(user) = user
            && (has_scheme || authority[..user].contains(&b':'))
        {
            self.replace(start, start + user);
        }
    }

    fn private_key(&mut self, start: usize) {
        let rest = &self.text[start..];
        let near = rest.len().min(MAX_KEY_HEADER_BYTES);
        let header = rest.as_bytes()[..near]
            .windows(KEY_HEADER_END.len())
            .position(|window| window == KEY_HEADER_END.as_bytes());
        if let Some(header) = header.filter(|_| rest.starts_with(KEY_BEGIN)) {
            let body = start + header + KEY_HEADER_END.len();
            let end = self.text[body..].find(KEY_END);
            self.replace(body, end.map_or(self.text.len(), |end| body + end));
        }
    }
}

#[cfg(test)]
mod tests;
