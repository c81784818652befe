//! Recognises the form of a line before it is parsed, and removes what is not part of its text.

use causes::facts::facts;

use super::lossy;
use super::stamp::Stamp;
use crate::kind::Writer;

/// The first byte of a terminal's control sequences.
pub(crate) const ESCAPE: u8 = 0x1b;

/// Whether the line begins as logrus writes it to a terminal: `INFO[2019-11-06T10:41:22.114820771+08:00] `
pub(crate) fn is_logrus_on_a_terminal(body: &[u8]) -> bool {
    let levels: [&[u8]; 5] = [b"INFO[", b"WARN[", b"ERRO[", b"FATA[", b"DEBU["];
    levels.iter().any(|level| body.starts_with(level))
        && body
            .get(5..9)
            .is_some_and(|year| year.iter().all(u8::is_ascii_digit))
        && body.get(9) == Some(&b'-')
}

/// Whether the text is one of the kernel's messages about a lack of memory.
pub(crate) fn is_of_kernel(body: &[u8]) -> bool {
    facts().begins("kernel", body)
}

/// Whether the line begins like an error of this writer's commands. Its daemon does not log such lines.
pub(crate) fn is_of_command(writer: Writer, body: &[u8]) -> bool {
    let begins = |kind| facts().begins(kind, body);
    match writer {
        Writer::Kernel => false,
        Writer::Kubelet => begins("kubeadm"),
        Writer::Runtime => begins("runtime-commands") || begins("kubeadm"),
        Writer::Systemd => begins("systemd-commands"),
    }
}

/// Whether a build server wrote the line, for a command that it ran: `[Step 3/4] `.
pub(crate) fn is_of_build(body: &[u8]) -> bool {
    let Some(inside) = body.strip_prefix(b"[Step ") else {
        return false;
    };
    inside.first().is_some_and(u8::is_ascii_digit)
}

/// Whether the line is the message of an event of the kubelet, without the other columns. In a log, such a
/// message would have a prefix.
pub(crate) fn is_event_message(body: &[u8]) -> bool {
    // The key of the message in YAML.
    let body = body.strip_prefix(b"message: ").unwrap_or(body);
    let body = body.strip_prefix(b"\"").unwrap_or(body);
    facts().begins("event-messages", body)
}

/// Whether the line is a message of klog whose header is missing: `"Failed" err="x"`.
pub(crate) fn is_of_klog_message(body: &[u8]) -> bool {
    let text = body.strip_prefix(b"\"").unwrap_or_default();
    let behind = super::after(text, "\" ").unwrap_or_default();
    let end = behind.iter().position(|byte| !byte.is_ascii_alphanumeric());
    end.is_some_and(|end| end > 0 && behind[end] == b'=')
}

/// The line without the escape sequences for colours.
pub(crate) fn without_colours(line: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = memchr::memchr(ESCAPE, rest) {
        plain.extend_from_slice(&rest[..at]);
        rest = &rest[at + 1..];
        let sequence = rest.strip_prefix(b"[").and_then(|inside| {
            let end = inside.iter().position(u8::is_ascii_alphabetic)?;
            let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b';';
            inside[..end].iter().all(is_part).then_some(end + 2)
        });
        rest = &rest[sequence.unwrap_or(0)..];
    }
    plain.extend_from_slice(rest);
    plain
}

/// Whether the line continues a message of several lines: indented, or the end of a structure.
pub(crate) fn is_continuation(line: &[u8]) -> bool {
    line.starts_with(b"  ") || line.starts_with(b"\t") || line.starts_with(b"}")
}

/// Whether the line begins with the uptime, as in the kernel's log: `[450528.013688] `, `[  +0.000016] `.
/// An IP address has more dots.
pub(crate) fn is_uptime(body: &[u8]) -> bool {
    let inside = body[1..].trim_ascii_start();
    let inside = inside.strip_prefix(b"+").unwrap_or(inside);
    let digits = inside.iter().take_while(|byte| byte.is_ascii_digit());
    let digits = digits.count();
    let end = memchr::memchr(b']', &inside[..inside.len().min(20)]);
    digits > 0
        && inside.get(digits) == Some(&b'.')
        && end.is_some_and(|end| memchr::memrchr(b'.', &inside[..end]) == Some(digits))
}

/// The text after `[    T1]`, the thread or processor that the kernel may print.
pub(crate) fn without_caller(body: &[u8]) -> &[u8] {
    let Some(inside) = body.strip_prefix(b"[") else {
        return body;
    };
    let Some(end) = memchr::memchr(b']', &inside[..inside.len().min(12)]) else {
        return body;
    };
    match inside[..end].trim_ascii_start() {
        [b'T' | b'C', digits @ ..] if digits.iter().all(u8::is_ascii_digit) => &inside[end + 1..],
        _ => body,
    }
}

/// Whether the line belongs to the header that glog writes at the top of a file.
pub(crate) fn is_log_file_header(body: &[u8]) -> bool {
    facts().begins("log-file-headers", body)
}

/// Milliseconds since 1970 with a fraction, as in klog's JSON; seconds are accepted, too.
pub(crate) fn milliseconds(text: &[u8]) -> Option<Stamp> {
    let end = memchr::memchr2(b',', b'}', text);
    let text = lossy(&text[..end.unwrap_or(text.len())]);
    let text = text.trim().trim_matches('"');
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let whole: i64 = whole.parse().ok()?;
    let is_milli = whole > 100_000_000_000;
    let digits = if is_milli { 6 } else { 9 };
    let unit = 10i64.pow(digits);
    // A float of this size is only accurate to a tenth of a microsecond, so digits are parsed.
    let padded = fraction
        .bytes()
        .chain(std::iter::repeat(b'0'))
        .take(digits as usize);
    let parts = padded.map(|digit| i64::from(digit.saturating_sub(b'0')).min(9));
    let part = parts.fold(0, |number, digit| number * 10 + digit);
    Stamp::of_unix_nanos(whole.checked_mul(unit)?.checked_add(part)?)
}
