//! Lines that belong together: dumps, profiles, stacks, listings, metrics and what commands print.

use causes::facts::facts;

use super::input::{Input, Line};
use super::{Quote, episodes};
use crate::goroutines::{Header, LineClass};
use crate::kernel;
use crate::kind::{Kind, Writer};
use crate::line::forms::{is_uptime, without_caller};
use crate::line::prefix::Carried;
use crate::line::{lossy, quoted};
use crate::output;

impl Input {
    /// Reads a line within a goroutine dump; returns whether the line belongs to the dump. Most lines do,
    /// and are not searched for anything else.
    pub(super) fn line_of_dump(&mut self, line: &[u8]) -> bool {
        if self.stacks.frame(line) {
            self.read_as(Kind::GoroutineDump);
            return true;
        }
        let is_between = self.stacks.seen_header()
            && !self.output.is_inside()
            && !self.profile.is_inside()
            && !self.kernel.is_inside();
        if !is_between {
            return false;
        }
        if line.is_empty() && self.stacks.is_inside() {
            self.stacks.line("", self.lines, "");
            self.drain();
            return true;
        }
        let is_header = self.stacks.header(line, self.lines);
        if is_header {
            self.read_last_head();
            self.heads.forget();
            self.drain();
            self.read_as(Kind::GoroutineDump);
        }
        is_header
    }

    /// Reads the kernel's report of a blocked task, after any prefix. Returns whether it contains one.
    pub(super) fn blocked_task(&mut self, text: &str) -> bool {
        let at = memchr::memmem::find(text.as_bytes(), b"INFO: task ");
        let Some(at) = at.filter(|_| text.contains(" blocked for more than ")) else {
            return false;
        };
        self.kernel.line(&text[at..], self.lines);
        true
    }

    /// Reads a line that a command printed, or the command's prompt. Returns false if the line is neither.
    pub(super) fn output_line(&mut self, line: &Line<'_>) -> bool {
        let carried = &line.carried;
        let is_logged = carried.time.is_some() && !carried.ident.is_empty();
        if is_logged || self.stacks.is_inside() {
            return false;
        }
        if begins_dump(carried.body) {
            self.output.ends();
            return false;
        }
        let text = lossy(line.text);
        match self.output.line(&text, self.lines) {
            output::LineClass::No => return false,
            output::LineClass::Around => {
                self.ps.asked(&text);
                self.read_as(Kind::Unknown);
            }
            output::LineClass::Yes(kind) => {
                self.read_as(kind);
                // node-problem-detector's events quote the kernel's log.
                self.blocked_task(&text);
                if self.output.lists_processes() && self.ps.line(&text, self.lines) {
                    let busy = self.ps.row_of(self.lines);
                    let busy = busy.filter(|row| row.busy.is_some());
                    busy.into_iter().for_each(|row| self.output.process(row));
                }
                if !line.found.is_nothing() {
                    self.relevant(line, None);
                }
            }
        }
        self.drain();
        true
    }

    /// Reads a line of a dump, a profile, a kernel stack, a listing or metrics. Returns whether it is one.
    pub(super) fn structured(&mut self, carried: &Carried) -> bool {
        let text = lossy(carried.body);
        let text = text.trim_end();
        if text.is_empty() {
            self.stacks.line("", self.lines, "");
            self.drain();
            return true;
        }
        let number = self.lines;
        let ident = lossy(carried.ident);
        // Within a stack, its next line is the most likely.
        let inside = self.stacks.is_inside();
        let mut kind = (!inside).then(|| self.profile_or_kernel(text)).flatten();
        if kind.is_none() {
            match self.stacks.line(text, number, &ident) {
                LineClass::Yes(earlier) => {
                    self.read_after_all(Kind::GoroutineDump, earlier);
                    kind = Some(Kind::GoroutineDump);
                }
                LineClass::Perhaps => {
                    self.unread += 1;
                    self.drain();
                    return true;
                }
                LineClass::No => {
                    self.drain();
                    let others = inside.then(|| self.profile_or_kernel(text));
                    kind = others
                        .flatten()
                        .or_else(|| self.metrics.line(text).then_some(Kind::Metrics))
                        .or_else(|| self.ps.line(text, number).then_some(Kind::Ps));
                }
            }
        }
        let Some(mut kind) = kind else {
            return false;
        };
        if kind == Kind::KernelStack {
            self.blocked(carried.body, text, carried);
            kind = self.kernel.kind();
        }
        self.read_as(kind);
        self.drain();
        true
    }

    fn profile_or_kernel(&mut self, text: &str) -> Option<Kind> {
        if self.profile.line(text, self.lines) {
            return Some(Kind::GoroutineProfile);
        }
        let is_kernel = self.kernel.line(text, self.lines);
        is_kernel.then_some(Kind::KernelStack)
    }

    /// Adds the episode of a task that the kernel reports as blocked, if the line has a time of day.
    fn blocked(&mut self, line: &[u8], text: &str, carried: &Carried) {
        let Some(task) = kernel::blocked_task(text) else {
            return;
        };
        let time = carried.time.and_then(|time| self.calendar.resolve(&time));
        let quote = Quote::new(&self.path, self.lines, time, line);
        if let Some(episode) = episodes::blocked(task, quote) {
            self.results.episodes.add(episode);
        }
    }

    pub(super) fn kernel_line(&mut self, line: &Line<'_>) {
        let carried = &line.carried;
        let body = match is_uptime(carried.body) {
            true => memchr::memchr(b']', carried.body)
                .map_or(carried.body, |end| &carried.body[end + 1..]),
            false => carried.body,
        };
        let body = without_caller(body);
        // Most lines of a kernel's log belong to no stack; those that do are cheap to recognise.
        let text = lossy(body);
        self.kernel.log_line(&text, self.lines);
        self.output.kernel_line(&text);
        self.drain();
        self.blocked(line.text, &text, carried);
        self.log(line, Some(Writer::Kernel));
    }

    pub(super) fn end_stack(&mut self) {
        if self.stacks.is_inside() {
            self.stacks.finish();
            self.drain();
        }
    }

    /// Reads a dump inside of one message, with escaped line breaks.
    pub(super) fn quoted_dump(&mut self, carried: &Carried) {
        let message = quoted::value(carried.body, "msg");
        let message = message.map_or_else(Vec::new, |message| message.into_owned());
        self.dump_of(&message, carried);
    }

    pub(super) fn dump_of(&mut self, message: &[u8], carried: &Carried) {
        let ident = lossy(carried.ident).into_owned();
        for line in message.split(|byte| *byte == b'\n') {
            self.stacks.line(&lossy(line), self.lines, &ident);
        }
        self.stacks.finish();
        self.drain();
        self.read_by_form_as(Kind::GoroutineDump);
        // The message is also a line of the program's log.
        self.read_as(Kind::GoroutineDump);
    }
}

/// Whether this line begins a dump, or precedes one.
pub(super) fn begins_dump(body: &[u8]) -> bool {
    let begins = facts().begins("dumps", body);
    let profile = body.starts_with(b"goroutine profile: total");
    begins && (profile || !body.starts_with(b"goroutine ") || Header::begins(&lossy(body)))
}
