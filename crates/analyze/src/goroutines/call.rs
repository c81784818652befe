//! Parses a call in a stack: `pkg.(*T).Method(0xc42069ea20, ...)`.

/// A function, and its first argument if that is an address whose digits are certain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'a> {
    /// The name of the function, with its import path.
    pub function: &'a str,
    /// The first argument, which is the receiver if the function is a method.
    pub first: Option<u64>,
}

/// The calls of a stack, from the innermost outwards. A dump has hundreds of thousands of calls, so the
/// names of one stack share one string.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Calls {
    names: String,
    /// For each call, where its name ends in `names`, and its first argument.
    ends: Vec<(usize, Option<u64>)>,
}

impl Calls {
    /// An empty list, with room for the calls of most stacks.
    pub(super) fn with_room() -> Self {
        Self {
            names: String::with_capacity(1024),
            ends: Vec::with_capacity(16),
        }
    }

    /// Adds a call, unless there are already more than Go prints.
    pub(super) fn push(&mut self, call: Call<'_>) {
        if self.ends.len() < MAX_CALLS {
            self.names.push_str(call.function);
            self.ends.push((self.names.len(), call.first));
        }
    }

    /// The number of calls.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no calls.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The call at this index.
    pub fn get(&self, at: usize) -> Option<Call<'_>> {
        let (end, first) = *self.ends.get(at)?;
        let begin = at.checked_sub(1).map_or(0, |before| self.ends[before].0);
        let function = &self.names[begin..end];
        Some(Call { function, first })
    }

    /// All calls.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = Call<'_>> + Clone {
        (0..self.ends.len()).filter_map(|at| self.get(at))
    }

    /// The names of all functions in one text, by which stacks are distinguished.
    pub(super) fn names(&self) -> &str {
        &self.names
    }

    pub(super) fn are_like(&self, other: &Self) -> bool {
        let (one, other_ends) = (self.ends.iter(), other.ends.iter());
        let is_same = one.map(|(end, _)| end).eq(other_ends.map(|(end, _)| end));
        is_same && self.names == other.names
    }
}

/// The maximum length of a function's name. A longer one is cut.
const MAX_NAME_BYTES: usize = 400;

/// Go prints at most a hundred frames.
const MAX_CALLS: usize = 128;

impl<'a> Call<'a> {
    /// Parses a call at the start of the text, and returns the rest.
    pub fn take(text: &'a str) -> Option<(Self, &'a str)> {
        let (function, inside, rest) = parts(text)?;
        Some((Self::new(function, inside), rest))
    }

    fn new(function: &'a str, inside: &'a str) -> Self {
        let end = memchr::memchr2(b',', b')', inside.as_bytes());
        let first = &inside[..end.unwrap_or(inside.len())];
        Self {
            function: shortened(function),
            first: address(first.trim_ascii()),
        }
    }

    /// Parses a line that is a call and can be nothing else: it contains no prefix, link, entity or
    /// colour.
    pub fn of_frame(line: &'a [u8]) -> Option<Self> {
        let is_odd = |byte: &u8| {
            !byte.is_ascii() || byte.is_ascii_control() || matches!(byte, b':' | b'&' | b'`')
        };
        // Without a branch per byte, the compiler can vectorise the loop.
        if line.iter().fold(false, |odd, byte| odd | is_odd(byte)) {
            return None;
        }
        let (call, rest) = Self::take(std::str::from_utf8(line).ok()?)?;
        rest.is_empty().then_some(call)
    }

    /// Parses a call outside of a known stack: the arguments must also look like those in a stack,
    /// and nothing may follow them.
    pub fn take_strictly(text: &'a str) -> Option<(Self, &'a str)> {
        let (function, inside, rest) = parts(text)?;
        let mut words = inside.split([',', '{', '}']).map(str::trim);
        let is_real = function.contains('.') && words.all(is_argument);
        is_real.then(|| (Self::new(function, inside), rest))
    }
}

/// The function, the text in its parentheses, and the rest of the text.
fn parts(text: &str) -> Option<(&str, &str, &str)> {
    let open = arguments(text)?;
    let function = &text[..open];
    if !is_function(function) {
        return None;
    }
    Some(match closing(&text[open..]) {
        Some(close) => {
            let close = open + close;
            (function, &text[open + 1..close], &text[close + 1..])
        }
        // The line was cut off.
        None => (function, &text[open + 1..], ""),
    })
}

/// The start of the arguments: the first parenthesis that does not belong to a receiver.
fn arguments(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut at = 0;
    loop {
        at += memchr::memchr3(b'(', b' ', b'\t', &bytes[at..])?;
        if bytes[at] != b'(' {
            return None;
        }
        if at == 0 || bytes[at - 1] != b'.' {
            return (at > 0).then_some(at);
        }
        at += closing(&text[at..])? + 1;
    }
}

/// The maximum length of the arguments of a call.
const MAX_ARGUMENTS_BYTES: usize = 4096;

fn closing(text: &str) -> Option<usize> {
    let mut depth = 0usize;
    let near = &text.as_bytes()[..text.len().min(MAX_ARGUMENTS_BYTES)];
    for at in memchr::memchr2_iter(b'(', b')', near) {
        if near[at] == b'(' {
            depth += 1;
            continue;
        }
        depth = depth.checked_sub(1)?;
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn is_function(name: &str) -> bool {
    let bytes = name.as_bytes();
    let known =
        memchr::memchr(b'.', bytes).is_some() || matches!(name, "panic" | "main" | "_cgoexp");
    known
        && matches!(bytes.first(), Some(b'a'..=b'z' | b'A'..=b'Z' | b'_'))
        && is_plain(name)
        // A URL is no function name.
        && !(bytes.contains(&b':') && name.contains("://"))
}

/// Whether all characters may occur in a function name. Nearly all names are ASCII.
fn is_plain(name: &str) -> bool {
    let other = |c: char| !c.is_ascii() && (c.is_alphanumeric() || c == '·');
    let plain = |c: char| other(c) || u8::try_from(c).is_ok_and(is_of_names);
    name.bytes().fold(true, |all, byte| all & is_of_names(byte)) || name.chars().all(plain)
}

/// Whether this ASCII byte may occur in a function name.
fn is_of_names(byte: u8) -> bool {
    // A table is several times as fast as the ranges, and every frame of a dump has a name.
    const OF_NAMES: [bool; 256] = {
        let mut table = [false; 256];
        let mut byte = 0;
        while byte < 128 {
            table[byte] = matches!(
                byte as u8,
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'$' | b'%' | b'(' ..= b'/' | b':' | b'@'
                    | b'[' | b']' | b'_' | b'~'
            );
            byte += 1;
        }
        table
    };
    OF_NAMES[usize::from(byte)]
}

/// Whether the word is of a form that Go prints for an argument.
fn is_argument(word: &str) -> bool {
    let word = word.strip_suffix('?').unwrap_or(word);
    let hex = word.strip_prefix("0x");
    word.is_empty()
        || word == "..."
        || word == "_"
        || hex.is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
        || word.bytes().all(|byte| byte.is_ascii_digit())
}

fn address(word: &str) -> Option<u64> {
    let address = u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()?;
    (address > 0xffff).then_some(address)
}

fn shortened(name: &str) -> &str {
    let mut end = name.len().min(MAX_NAME_BYTES);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The type of a method: `network.(*PluginManager).SetUpPod` -> `network.(*PluginManager)`.
pub(super) fn receiver_type(function: &str) -> Option<&str> {
    if let Some(at) = function.find(".(") {
        let end = closing(&function[at + 1..])?;
        return Some(&function[..at + 1 + end + 1]);
    }
    // pkg.Type.Method
    let file = function.rfind('/').map_or(0, |at| at + 1);
    let mut dots = function[file..].match_indices('.').map(|(at, _)| file + at);
    let (_, second) = (dots.next()?, dots.next()?);
    let method = function[..second].rsplit('.').next()?;
    (!method.starts_with("func")).then(|| &function[..second])
}

/// The import path: `k8s.io/kubernetes/pkg/kubelet/pleg.(*GenericPLEG).relist` -> `k8s.io/…/pleg`.
pub(super) fn package(function: &str) -> &str {
    let upto = function.find(".(").unwrap_or(function.len());
    let file = function[..upto].rfind('/').map_or(0, |at| at + 1);
    let dot = function[file..upto].find('.').map_or(upto, |at| file + at);
    &function[..dot]
}

/// Whether the function belongs to Go's standard library or a similar one. Such a function shows how a
/// goroutine waits, but not for what.
pub(super) fn is_library(function: &str) -> bool {
    let package = package(function);
    let first = package.split('/').next().unwrap_or_default();
    let own = !first.contains('.') && first != "main" && !package.contains("/vendor/");
    own || package.ends_with("golang.org/x/sys/unix")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn function(text: &str) -> &str {
        Call::take(text)
            .unwrap_or_else(|| panic!("{text}"))
            .0
            .function
    }

    #[test]
    fn functions_end_where_the_arguments_begin() {
        assert_eq!(function("main.main()"), "main.main");
        assert_eq!(function("sync.(*Mutex).Lock(...)"), "sync.(*Mutex).Lock");
        assert_eq!(
            function("k8s.io/k/pleg.(*GenericPLEG).(k8s.io/k/pleg.relist)-fm()"),
            "k8s.io/k/pleg.(*GenericPLEG).(k8s.io/k/pleg.relist)-fm"
        );
        assert_eq!(
            function("a.toCRIContainer({{{0xc0, 0x40}, ...}, ...})"),
            "a.toCRIContainer"
        );
        assert_eq!(function("a.F[...](0x1, 0x2"), "a.F[...]");
        assert_eq!(function("panic(0x1, 0x2)"), "panic");
    }

    #[test]
    fn an_uncertain_receiver_is_none() {
        let first = |text| Call::take(text).unwrap().0.first;
        assert_eq!(
            first("sync.(*Mutex).lockSlow(0xc0045c7bd0)"),
            Some(0xc0_045c_7bd0)
        );
        assert_eq!(first("sync.(*RWMutex).Lock(0x556e4b5976a0?)"), None);
        assert_eq!(first("sync.(*Mutex).Lock(...)"), None);
        assert_eq!(first("a.F(0x4, 0xc420d3e000)"), None);
        assert_eq!(first("a.F(0xffffffffffffffffffffff)"), None);
    }

    #[test]
    fn prose_and_source_code_are_no_calls() {
        for text in [
            "Healthy()",
            "g.clock.Since(relistTime)",
            "see (below)",
            "",
            "a.b",
            "(x)",
        ] {
            assert_eq!(Call::take_strictly(text), None, "{text}");
        }
    }

    #[test]
    fn types_and_packages_are_parsed() {
        let method = "k8s.io/k/network.(*PluginManager).SetUpPod";
        assert_eq!(
            receiver_type(method),
            Some("k8s.io/k/network.(*PluginManager)")
        );
        assert_eq!(
            receiver_type("k8s.io/k/kuberuntime.service.Status"),
            Some("k8s.io/k/kuberuntime.service")
        );
        assert_eq!(
            receiver_type("a/daemon.setup.func1"),
            Some("a/daemon.setup")
        );
        assert_eq!(receiver_type("a/daemon.setup"), None);
        assert_eq!(package(method), "k8s.io/k/network");
        assert_eq!(package("main.main"), "main");
        assert!(is_library("sync.(*Mutex).Lock") && is_library("os/exec.(*Cmd).Wait"));
        assert!(is_library("a.com/t/vendor/golang.org/x/sys/unix.recvfrom"));
        assert!(!is_library("main.cmdDel") && !is_library("github.com/a/b.F"));
    }
}
