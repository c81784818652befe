//! Removes the prefixes that journald, syslog, `talosctl` or a container's log added to a line.
//!
//! ```
//! let line = b"Oct  8 16:29:51 worker9 containerd[812]: starting";
//! let carried = analyze::line::prefix::split(line);
//! assert_eq!((carried.ident, carried.pid), (&b"containerd"[..], &b"812"[..]));
//! assert_eq!(carried.body, b"starting");
//! ```

use super::stamp::{self, Stamp};

/// A line without its prefixes, and what the prefixes say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Carried<'a> {
    /// The time in the prefix.
    pub time: Option<Stamp>,
    /// The name of the node.
    pub host: &'a [u8],
    /// The program that wrote the line: `kubelet`, `systemd`.
    pub ident: &'a [u8],
    /// The writer's process id.
    pub pid: &'a [u8],
    /// The line without its prefixes.
    pub body: &'a [u8],
    /// Whether `dmesg -T` printed the line.
    pub is_of_dmesg: bool,
}

/// The maximum number of nested prefixes.
const MAX_LAYERS: usize = 6;

/// Removes all prefixes.
pub fn split(line: &[u8]) -> Carried<'_> {
    let mut carried = Carried::default();
    let mut rest = line;
    for _ in 0..MAX_LAYERS {
        let trimmed = rest.trim_ascii_start();
        let Some(next) = layer(trimmed, &mut carried) else {
            break;
        };
        rest = next;
    }
    carried.body = rest;
    carried
}

fn layer<'a>(line: &'a [u8], carried: &mut Carried<'a>) -> Option<&'a [u8]> {
    match *line.first()? {
        b'<' => priority(line),
        b'[' => bracketed(line, carried),
        b'0'..=b'9' => stamped(line, carried).or_else(|| addressed(line, carried)),
        b'A'..=b'Z' if !super::klog::begins(line) => {
            stamped(line, carried).or_else(|| named(line, carried))
        }
        b's' if line.starts_with(b"stderr ") || line.starts_with(b"stdout ") => {
            // The kubelet's own log format for containers: `stderr F text`.
            matches!(line.get(7..9)?, b"F " | b"P ").then(|| &line[9..])
        }
        b'a'..=b'z' => stamped(line, carried).or_else(|| named(line, carried)),
        0x80.. => stamped(line, carried),
        b'_' | b'(' => named(line, carried),
        _ => None,
    }
}

/// The priority of syslog: `<30>`.
fn priority(line: &[u8]) -> Option<&[u8]> {
    let end = line.iter().take(5).position(|byte| *byte == b'>')?;
    let number = &line[1..end];
    (!number.is_empty() && number.iter().all(u8::is_ascii_digit)).then(|| &line[end + 1..])
}

/// `[Mon May  5 13:59:56 2017] ` from `dmesg -T`, `[2021-11-10T10:09:37Z]: ` from Talos,
/// `[pod/calico-node-x/calico-node] ` from kubectl.
fn bracketed<'a>(line: &'a [u8], carried: &mut Carried<'a>) -> Option<&'a [u8]> {
    if line.starts_with(b"[pod/") {
        let end = memchr::memchr(b']', &line[..line.len().min(400)])?;
        return Some(&line[end + 1..]);
    }
    if let Some((time, rest)) = stamp::take(&line[1..])
        && let Some(rest) = rest.strip_prefix(b"]")
    {
        carried.time = carried.time.or(Some(time));
        carried.is_of_dmesg = line.get(1).is_some_and(u8::is_ascii_alphabetic);
        return Some(rest.strip_prefix(b":").unwrap_or(rest));
    }
    let end = memchr::memchr(b']', &line[..line.len().min(48)])?;
    if !is_local_time(&line[1..end]) {
        return None;
    }
    carried.is_of_dmesg = true;
    Some(&line[end + 1..])
}

/// `Di Mär 16 04:12:37 2021`, as `dmesg -T` prints it in any language.
fn is_local_time(text: &[u8]) -> bool {
    let mut words = text.split(|byte| *byte == b' ');
    let is_clock = |word: &[u8]| {
        word.len() == 8 && word[2] == b':' && word[5] == b':' && word[0].is_ascii_digit()
    };
    // `Jun 3 22:08`, as `dmesg -H` prints it once a minute; `UTC Jun 14 02:11:08` is monit's.
    let is_minute = text.len() >= 10 && text[0].is_ascii_uppercase() && {
        let clock = &text[text.len() - 6..];
        clock[0] == b' ' && clock[3] == b':' && clock[5].is_ascii_digit()
    };
    if is_minute {
        return true;
    }
    let is_year = text.len() > 4 && text[text.len() - 4..].iter().all(u8::is_ascii_digit);
    is_year && words.any(is_clock)
}

/// A time, perhaps followed by the host and the writer.
fn stamped<'a>(line: &'a [u8], carried: &mut Carried<'a>) -> Option<&'a [u8]> {
    let (time, rest) = stamp::take(line)?;
    let rest = match rest {
        [] => rest,
        [b' ' | b'\t', rest @ ..] => rest,
        [b':', b' ', rest @ ..] => rest,
        _ => return None,
    };
    if carried.time.is_none_or(|known| known.day.is_none()) {
        carried.time = Some(time);
    }
    Some(writer(rest, carried).unwrap_or(rest))
}

/// First words of kernel messages, which are no writers. `dmesg --time-format iso` does not name a writer.
const KERNEL_WORDS: [&[u8]; 3] = [b"INFO", b"BUG", b"WARNING"];

/// `host ident[pid]: ` or `ident[pid]: `; the host may be empty.
fn writer<'a>(line: &'a [u8], carried: &mut Carried<'a>) -> Option<&'a [u8]> {
    let inside = super::colon(&line[..line.len().min(320)]);
    // `kubelet[12]:` at the end of the line.
    let at_end = || line.strip_suffix(b":").map(<[u8]>::len);
    let colon = inside.or_else(at_end)?;
    let mut words = line[..colon]
        .split(|byte| *byte == b' ')
        .filter(|word| !word.is_empty());
    let (first, second, third) = (words.next()?, words.next(), words.next());
    let (host, ident) = match (second, third) {
        (None, _) if inside.is_some() => (&line[..0], first),
        (Some(ident), None) => (first, ident),
        _ => return None,
    };
    let is_of_kernel = host.is_empty() && KERNEL_WORDS.contains(&ident);
    if !is_ident(ident) || is_of_kernel {
        return None;
    }
    carried.host = host;
    (carried.ident, carried.pid) = ident_and_pid(ident);
    Some(line.get(colon + 2..).unwrap_or_default())
}

/// `kubelet[3694]: ` without a time, or `kubelet: ` for a known writer.
fn named<'a>(line: &'a [u8], carried: &mut Carried<'a>) -> Option<&'a [u8]> {
    if !carried.ident.is_empty() {
        return None;
    }
    let near = &line[..line.len().min(80)];
    let colon = super::colon(near)?;
    let word = &line[..colon];
    let rest = &line[colon + 2..];
    if let Some(rest) = of_facility(line, carried) {
        return Some(rest);
    }
    // `worker-2.internal: {"msg":`, as talosctl prints it for a node that has a name.
    if rest.starts_with(b"{\"") && carried.host.is_empty() && is_ident(word) {
        carried.host = word;
        return Some(rest);
    }
    if carried.host.is_empty()
        && is_ident(word)
        && let Some(rest) = of_facility(rest, carried)
    {
        carried.host = word;
        return Some(rest);
    }
    let (ident, pid) = ident_and_pid(word);
    if !is_ident(word) || pid.is_empty() && crate::kind::Writer::of_ident(ident).is_none() {
        return None;
    }
    (carried.ident, carried.pid) = (ident, pid);
    Some(rest)
}

/// Facilities in the output of `talosctl dmesg`; the init process of Talos writes as `user`.
const FACILITIES: [&[u8]; 3] = [b"kern:", b"user:", b"daemon:"];

/// `10.200.1.3: ` from talosctl, also before `kern:    info: `.
fn addressed<'a>(line: &'a [u8], carried: &mut Carried<'a>) -> Option<&'a [u8]> {
    let colon = super::colon(&line[..line.len().min(50)])?;
    let address = &line[..colon];
    let is_part = |byte: &u8| byte.is_ascii_digit() || *byte == b'.';
    let dots = address.iter().filter(|byte| **byte == b'.').count();
    if dots != 3 || !address.iter().all(is_part) {
        return None;
    }
    carried.host = address;
    let rest = &line[colon + 2..];
    Some(of_facility(rest, carried).unwrap_or(rest))
}

/// `kern:    info: [2021-11-10T10:09:37.6Z]: `, up to the time.
fn of_facility<'a>(line: &'a [u8], carried: &mut Carried<'a>) -> Option<&'a [u8]> {
    let facility = FACILITIES.iter().find(|name| line.starts_with(name))?;
    let behind = &line[facility.len()..];
    let level = super::colon(&behind[..behind.len().min(20)])?;
    let rest = &behind[level + 2..];
    if !rest.starts_with(b"[") {
        return None;
    }
    if *facility == FACILITIES[0] {
        carried.ident = b"kernel";
    }
    Some(rest)
}

fn is_ident(word: &[u8]) -> bool {
    let (ident, _) = ident_and_pid(word);
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.()/@:\\".contains(byte);
    !ident.is_empty() && ident.len() < 100 && ident.iter().all(allowed)
}

/// Splits `kubelet[2858]`.
fn ident_and_pid(word: &[u8]) -> (&[u8], &[u8]) {
    let Some(inside) = word.strip_suffix(b"]") else {
        return (word, &[]);
    };
    match memchr::memchr(b'[', inside) {
        Some(at) if inside[at + 1..].iter().all(u8::is_ascii_digit) => {
            (&inside[..at], &inside[at + 1..])
        }
        _ => (word, &[]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(line: &str, host: &str, ident: &str, pid: &str, body: &str) {
        let carried = split(line.as_bytes());
        let read = [carried.host, carried.ident, carried.pid, carried.body];
        let read = read.map(|bytes| std::str::from_utf8(bytes).unwrap());
        assert_eq!(read, [host, ident, pid, body], "{line}");
    }

    #[test]
    fn every_prefix_is_removed() {
        check(
            "Oct  8 16:29:51 worker9 k3s[1636]: E1008 x",
            "worker9",
            "k3s",
            "1636",
            "E1008 x",
        );
        check(
            "<30>Apr 13 10:53:52 ip-10 kubelet: E0413 x",
            "ip-10",
            "kubelet",
            "",
            "E0413 x",
        );
        check(
            "Mar 13 16:02:43  kubelet[7]: I0313 x",
            "",
            "kubelet",
            "7",
            "I0313 x",
        );
        check(
            "2024-05-05T13:59:56+0000 n1 systemd[1]: Started x: y",
            "n1",
            "systemd",
            "1",
            "Started x: y",
        );
        check("10.200.1.3: {\"ts\":1}", "10.200.1.3", "", "", "{\"ts\":1}");
        check(
            "10.5.0.2: kern:    info: [2021-11-10T10:09:37.6Z]: eth0: up",
            "10.5.0.2",
            "kernel",
            "",
            " eth0: up",
        );
        for (prefix, host) in [("node3: ", "node3"), ("", "")] {
            let line = format!("{prefix}kern: warning: [2021-11-10T10:09:37.6Z]: eth0: up");
            check(&line, host, "kernel", "", " eth0: up");
        }
        check(
            "2024-05-05T13:59:56.1Z stderr F I0505 13:59:56.8 1 x.go:1] y",
            "",
            "",
            "",
            "I0505 13:59:56.8 1 x.go:1] y",
        );
        check(
            "worker-2.internal: {\"msg\":\"x\"}",
            "worker-2.internal",
            "",
            "",
            "{\"msg\":\"x\"}",
        );
        check("kubelet[3694]: I0220 x", "", "kubelet", "3694", "I0220 x");
        check(
            "kubelet: sync.(*Mutex).Lock()",
            "",
            "kubelet",
            "",
            "sync.(*Mutex).Lock()",
        );
        check(
            "[pod/felix-1/felix] goroutine 1 [idle]:",
            "",
            "",
            "",
            " goroutine 1 [idle]:",
        );
    }

    #[test]
    fn a_line_without_a_prefix_is_not_changed() {
        for line in [
            "goroutine 386 [chan send, 1140 minutes]:",
            "sync.(*Mutex).Lock(0xc428facb38)",
            "panic: something: went wrong",
            "[450528.013688] INFO: task dockerd:1810 blocked",
            "E1021 14:00:00.850972    2333 log.go:32] \"x: y\"",
            "",
        ] {
            check(line, "", "", "", line);
        }
    }
}
