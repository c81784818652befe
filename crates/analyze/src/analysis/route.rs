//! Passes each line to its reader, by its form, with the cheapest checks first.

use std::borrow::Cow;

use super::input::{Input, Line};
use super::json::time_of_json;
use super::structured::begins_dump;
use crate::kind::{Kind, Writer};
use crate::line::forms::{
    ESCAPE, is_continuation, is_log_file_header, is_logrus_on_a_terminal, is_of_kernel,
    is_of_klog_message, is_uptime, without_colours,
};
use crate::line::pasted::NO_BREAK;
use crate::line::prefix::{Carried, split};
use crate::line::{after, bare, klog, lossy, until};
use crate::output;
use crate::rules::{Found, Interest, LineSearch, Rules};

/// How deeply logs may be nested in other logs.
const MAX_DEPTH: u8 = 2;

/// The maximum length of a line that is taken for a part of a wrapped line.
const MAX_WRAPPED: usize = 200;

impl Input {
    /// Reads the next line, which was wrapped into `of` lines.
    pub(super) fn lines(&mut self, line: &[u8], of: u64, cut: bool) {
        self.line(line, cut);
        self.lines += of - 1;
    }

    fn line(&mut self, raw: &[u8], cut: bool) {
        self.lines += 1;
        self.first = self.first.or(self.last);
        // A shortcut for most lines of a dump, which have no prefix.
        if !cut && self.stacks.seen_header() && self.line_of_dump(raw) {
            return;
        }
        // One search for both bytes: nearly all lines have neither.
        let odd = memchr::memchr2(ESCAPE, NO_BREAK[0], raw);
        let plain = match odd.and_then(|at| memchr::memchr(ESCAPE, &raw[at..])) {
            Some(_) => Cow::Owned(without_colours(raw)),
            None => Cow::Borrowed(raw),
        };
        let line = self.pasted.clean(bare(&plain), odd.is_some());
        // A crash may leave a line of NUL bytes only.
        if line.is_empty() && raw.contains(&0) {
            self.unread += 1;
            return;
        }
        self.plain_line(&line, cut);
    }

    fn plain_line(&mut self, line: &[u8], cut: bool) {
        if !cut && self.line_of_dump(line) {
            return;
        }
        let found = LineSearch::active().find(line);
        if !cut
            && found.is_nothing_at_all()
            && let Some(writer) = self.heads.writer_of(line)
        {
            self.irrelevant_line(writer);
            return;
        }
        if found.is(Interest::RuncVersion) {
            self.results.runc_is(runc_version(line));
        }
        self.read_last_head();
        let unread_before = self.unread;
        self.before = self.last;
        self.layer(line, &found, None, 0);
        if cut && self.unread == unread_before {
            self.unread += 1;
        }
    }

    /// Reads the time of the last line that was only counted.
    pub(super) fn read_last_head(&mut self) {
        let Some(head) = self.heads.take_unread() else {
            return;
        };
        let mut carried = split(&head);
        carried.body = carried.body.trim_ascii_start();
        let inner = klog::begins(carried.body).then_some(carried.body);
        if let Some(time) = &carried.time {
            self.calendar.learn(time);
        }
        if carried.body.starts_with(b"{") {
            carried.time = time_of_json(carried.body).or(carried.time);
        }
        self.learn_time(&carried, inner);
    }

    /// Adds the head of a line that no rule matches. The head ends where `rest` begins.
    pub(super) fn note_head(&mut self, line: &Line<'_>, rest: &[u8], writer: Writer) {
        let is_plain = line.found.is_nothing_at_all() && !self.output.is_inside();
        let knows_time = writer != Writer::Runtime || self.knows_year();
        if is_plain && knows_time {
            let head = &line.text[..line.text.len() - rest.len()];
            self.heads.add(head, writer);
        }
    }

    /// Reads a line at this depth of nested logs; `outer` is the line that carries it, if any.
    pub(super) fn layer(&mut self, line: &[u8], found: &Found, outer: Option<&Carried>, depth: u8) {
        let mut carried = split(line);
        carried.body = carried.body.trim_ascii_start();
        if let Some(outer) = outer {
            inherit(&mut carried, outer);
        }
        if carried.body.is_empty() {
            self.heads.forget();
            if carried.ident.is_empty() {
                if depth == 0
                    && let output::LineClass::Yes(kind) = self.output.line("", self.lines)
                {
                    self.read_as(kind);
                }
                self.stacks.line("", self.lines, "");
                self.kernel.finish();
                self.drain();
            }
            return;
        }
        if let Some(time) = &carried.time {
            self.calendar.learn(time);
            self.last = Some(*time);
        }
        let body = carried.body;
        let line = Line {
            text: line,
            carried,
            found,
        };
        if klog::begins(body) {
            self.end_stack();
            self.in_klog = true;
            let is_other = found.is(Interest::OtherProgram) && klog::is_of_another_program(body);
            let writer = (!is_other).then_some(Writer::Kubelet);
            if writer.is_none() {
                // node-problem-detector quotes the kernel's log.
                self.kernel.line(&lossy(body), self.lines);
                self.drain();
            }
            self.log(&line, writer);
            // Errors are all counted, so each of them has to be read.
            if depth == 0
                && !matches!(body[0], b'E' | b'F')
                && let Some(rest) = body.get(klog::TIMED..)
            {
                self.note_head(&line, rest, Writer::Kubelet);
            }
            return;
        }
        match body[0] {
            b'{' if depth < MAX_DEPTH && self.json(line, depth) => return,
            b't' if body.starts_with(b"time=") => {
                if found.is(Interest::Dump) {
                    self.quoted_dump(&carried);
                }
                // k3s writes its own lines in this form, among those of the kubelet.
                let writer = match Writer::of_ident(carried.ident) {
                    Some(Writer::Kubelet) => Writer::Kubelet,
                    _ => Writer::Runtime,
                };
                self.log(&line, Some(writer));
                if depth == 0 {
                    self.note_head(&line, &body[b"time=".len()..], writer);
                }
                return;
            }
            b'I' | b'W' | b'E' | b'F' | b'D' if is_logrus_on_a_terminal(body) => {
                self.log(&line, Some(Writer::Runtime));
                return;
            }
            b'[' if is_uptime(body) => {
                self.heads.forget();
                self.kernel_line(&line);
                return;
            }
            _ => {}
        }
        self.heads.forget();
        if carried.is_of_dmesg {
            self.kernel_line(&line);
            return;
        }
        if depth == 0 && self.output_line(&line) {
            return;
        }
        let writer = Writer::of_ident(carried.ident);
        if writer == Some(Writer::Kernel) {
            self.kernel_line(&line);
            return;
        }
        // A line of the journal is part of a dump only after the dump has begun.
        let carried_line =
            carried.time.is_some_and(|time| time.day.is_some()) && !carried.ident.is_empty();
        let in_dump = self.stacks.is_inside() || self.stacks.seen_header() || begins_dump(body);
        let is_log = carried_line && !in_dump;
        if !is_log && self.structured(&carried) {
            // The line before a dump shows why there is one.
            let shows_why = body.starts_with(b"panic: ") || body.starts_with(b"fatal error: ");
            if shows_why && !found.rules.is_empty() {
                self.relevant(&line, None);
            } else if let Some(failure) = found.failure {
                self.failed(failure);
            }
            return;
        }
        let of_klog = || is_of_klog_message(body) || klog::find(body).is_some();
        let known = writer.or_else(|| match found.rules.first() {
            Some(_) if of_klog() => Some(Writer::Kubelet),
            first => first.map(|index| Rules::active().lines[*index].rule.writer),
        });
        let pleg = found.is(Interest::Pleg).then_some(Writer::Kubelet);
        match known.or(pleg) {
            Some(writer) => self.log(&line, Some(writer)),
            None if carried_line && found.is_nothing() || body.starts_with(b"Log line format") => {
                self.read_as(Kind::Unknown)
            }
            None if found.is_nothing() && !is_log_file_header(body) => match klog::find(body) {
                Some(_) => self.log(&line, Some(Writer::Kubelet)),
                None if self.in_klog && is_continuation(line.text) => self.read_as(Kind::Unknown),
                None => {
                    self.in_klog = false;
                    if is_of_kernel(body) {
                        self.output.kernel_line(&lossy(body));
                        self.read_as(Kind::KernelLog);
                    } else if self.services.clock(body) {
                        self.read_as(Kind::Unknown);
                    } else if !self.blocked_task(&lossy(body)) {
                        self.unread += 1;
                        self.wrapped(body);
                    }
                }
            },
            None => {
                let writer = klog::find(body).map(|_| Writer::Kubelet);
                self.log(&line, writer);
            }
        }
    }

    /// Joins an unrecognised line with the previous one, if that was not recognised either: a line may have
    /// been wrapped where it was pasted.
    fn wrapped(&mut self, body: &[u8]) {
        let before = self.unread_line.take();
        if body.len() > MAX_WRAPPED {
            return;
        }
        if let Some((_, before)) = before.filter(|(number, _)| number + 1 == self.lines) {
            let joined = [before.trim_ascii_end(), b" ", body].concat();
            let found = LineSearch::active().find(&joined);
            if !found.rules.is_empty() {
                let line = Line {
                    text: &joined,
                    carried: split(&joined),
                    found: &found,
                };
                return self.relevant(&line, None);
            }
        }
        self.unread_line = Some((self.lines, body.to_vec()));
    }
}

/// The version in `runc version 1.1.12`; `docker info` adds a colon after `version`.
fn runc_version(line: &[u8]) -> String {
    let behind = after(line, "runc version").unwrap_or_default();
    let behind = behind.strip_prefix(b":").unwrap_or(behind);
    lossy(until(behind.trim_ascii_start(), b" ,\"\\")).into_owned()
}

/// Takes what the line lacks from its carrier.
fn inherit<'a>(carried: &mut Carried<'a>, outer: &Carried<'a>) {
    carried.time = carried.time.or(outer.time);
    for (inner, outer) in [
        (&mut carried.host, outer.host),
        (&mut carried.ident, outer.ident),
        (&mut carried.pid, outer.pid),
    ] {
        if inner.is_empty() {
            *inner = outer;
        }
    }
}
