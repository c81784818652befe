//! Parses lines into stacks. A stack begins with a header, or with frames without a header.

use super::{Call, Calls, Header, Stack, unmangle};
use crate::line::{colon, first_chars};
use causes::facts::facts;

/// Reads stacks line by line.
#[derive(Debug, Default)]
pub struct StackReader {
    current: Option<Stack>,
    last: Last,
    /// Whether the current stack has an empty line after each line.
    double_spaced: bool,
    /// Whether this input had a header; if so, lines around stacks are recognised, too.
    seen_header: bool,
    /// Whether the program crashed: then the next stack shows where.
    crashed: bool,
    /// How many lines may belong to a stack without a header.
    unconfirmed: u64,
    done: Vec<Stack>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Last {
    #[default]
    Nothing,
    Header,
    Call,
    Place,
}

/// How a line was classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineClass {
    /// A part of a dump, together with this number of earlier uncertain lines.
    Yes(u64),
    /// Possibly a part of a stack; the next line decides.
    Perhaps,
    /// Not a part of a dump.
    No,
}

impl StackReader {
    /// Parses a line without its prefix. `number` is its line number, `ident` the writer that the
    /// prefix names.
    pub fn line(&mut self, line: &str, number: u64, ident: &str) -> LineClass {
        let is_fence = !line.trim().is_empty();
        let line = unmangle::plain(line);
        let line = line.trim();
        if line.is_empty() {
            // The fence of a code block counts as part of a dump only next to a dump.
            let ours = !is_fence || self.seen_header || self.is_inside();
            self.blank();
            return if ours {
                LineClass::Yes(0)
            } else {
                LineClass::No
            };
        }
        if let Some((header, rest)) = Header::take(line) {
            self.begin(header, number, ident);
            if !rest.trim().is_empty() {
                self.one_line(rest, number, ident);
            }
            return LineClass::Yes(0);
        }
        let is_confirmed = self.current.as_ref().is_some_and(|at| at.state.is_some());
        if self.created(line) || self.place(line) || self.calls(line, is_confirmed, number, ident) {
            return self.certainty();
        }
        if is_around(line, self.seen_header) {
            self.crashed |= CRASHES.iter().any(|start| line.starts_with(start));
            self.crashed &= !REQUESTED.iter().any(|start| line.starts_with(start));
            return LineClass::Yes(0);
        }
        self.finish();
        self.crashed = false;
        LineClass::No
    }

    /// Parses a line that can only be a call or a source position of the current stack. Most lines
    /// of a dump are of this kind, so other checks are skipped for them.
    pub fn frame(&mut self, line: &[u8]) -> bool {
        let Some(stack) = self.current.as_mut().filter(|it| it.state.is_some()) else {
            return false;
        };
        match (line, self.last) {
            ([b'\t', place @ ..], Last::Call) if is_numbered_place(place) => {
                if stack.crashed {
                    stack.note_source(place);
                }
                self.last = Last::Place;
            }
            ([b'a'..=b'z', .., b')'], Last::Header | Last::Place) => {
                let Some(call) = Call::of_frame(line) else {
                    return false;
                };
                stack.calls.push(call);
                self.last = Last::Call;
            }
            _ => return false,
        }
        true
    }

    /// Parses a line that is a header, without anything around it.
    pub fn header(&mut self, line: &[u8], number: u64) -> bool {
        let Some(header) = Header::of_line(line) else {
            return false;
        };
        self.begin(header, number, "");
        true
    }

    /// Whether a stack is being read.
    pub fn is_inside(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the input has had a header.
    pub fn seen_header(&self) -> bool {
        self.seen_header
    }

    /// The stacks that are complete.
    pub fn take_done(&mut self) -> std::vec::Drain<'_, Stack> {
        self.done.drain(..)
    }

    /// Ends the current stack. It is kept if it is certainly one.
    pub fn finish(&mut self) {
        self.double_spaced = false;
        self.last = Last::Nothing;
        self.unconfirmed = 0;
        self.done
            .extend(self.current.take().filter(Stack::is_certain));
    }

    fn certainty(&mut self) -> LineClass {
        let Some(stack) = &self.current else {
            return LineClass::Yes(0);
        };
        if stack.is_certain() {
            return LineClass::Yes(std::mem::take(&mut self.unconfirmed));
        }
        self.unconfirmed += 1;
        LineClass::Perhaps
    }

    fn blank(&mut self) {
        match self.last {
            Last::Header | Last::Call
                if self.current.as_ref().is_some_and(|at| at.state.is_some()) =>
            {
                self.double_spaced = true;
            }
            _ if self.double_spaced => {}
            _ => self.finish(),
        }
    }

    fn begin(&mut self, header: Header, number: u64, ident: &str) {
        self.finish();
        self.seen_header = true;
        self.last = Last::Header;
        self.current = Some(Stack {
            count: 1,
            id: header.id,
            state: Some(header.state),
            minutes: header.minutes,
            crashed: std::mem::take(&mut self.crashed),
            calls: Calls::with_room(),
            ident: ident.to_owned(),
            line: number,
            ..Stack::default()
        });
    }

    /// `created by X in goroutine 29`, which ends the calls.
    fn created(&mut self, line: &str) -> bool {
        let Some(by) = line.strip_prefix("created by ") else {
            return false;
        };
        let end = memchr::memchr2(b' ', b'\t', by.as_bytes());
        let by = &by[..end.unwrap_or(by.len())];
        if let Some(stack) = &mut self.current {
            stack.created_by = Some(first_chars(by, 400).to_owned());
            self.last = Last::Call;
        }
        self.current.is_some()
    }

    /// `/usr/local/go/src/sync/mutex.go:134 +0xee`.
    fn place(&mut self, line: &str) -> bool {
        let Some(stack) = self.current.as_mut().filter(|_| is_place(line)) else {
            return false;
        };
        if stack.crashed {
            stack.note_source(line.as_bytes());
        }
        self.last = Last::Place;
        true
    }

    fn calls(&mut self, line: &str, is_confirmed: bool, number: u64, ident: &str) -> bool {
        let taken = match is_confirmed {
            true => Call::take(line),
            false => Call::take_strictly(line),
        };
        let Some((call, mut rest)) = taken else {
            return false;
        };
        let clean = |rest: &str| rest.trim().is_empty() || rest.starts_with(" fp=");
        if !is_confirmed && !clean(rest) && glued(rest).is_none() {
            return false;
        }
        // A stack may begin here, without a header.
        let stack = self.current.get_or_insert_with(|| Stack {
            count: 1,
            ident: ident.to_owned(),
            line: number,
            ..Stack::default()
        });
        stack.calls.push(call);
        // Two lines that were joined when they were copied.
        while let Some((call, after)) = glued(rest) {
            stack.calls.push(call);
            rest = after;
        }
        self.last = Last::Call;
        true
    }

    /// Reads the rest of a dump that was joined into one line.
    fn one_line(&mut self, text: &str, number: u64, ident: &str) {
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            if let Some((header, after)) = Header::take(rest) {
                self.begin(header, number, ident);
                rest = after.trim_start();
            } else if let Some(by) = rest.strip_prefix("created by ") {
                self.created(rest);
                let after = behind_word(by);
                let number = after.strip_prefix("in goroutine ");
                rest = number.map_or(after, behind_word);
            } else if let Some((call, after)) = Call::take(rest) {
                if let Some(stack) = &mut self.current {
                    stack.calls.push(call);
                    self.last = Last::Call;
                }
                rest = after.trim_start();
            } else {
                rest = behind_word(rest).trim_start();
            }
        }
    }
}

/// The text after the first space.
fn behind_word(text: &str) -> &str {
    text.split_once(' ').map_or("", |(_, rest)| rest)
}

/// A call directly after another one, perhaps with the writer's name in between.
fn glued(rest: &str) -> Option<(Call<'_>, &str)> {
    if rest.is_empty() || rest.starts_with([' ', '\t']) {
        return None;
    }
    // Only the start is searched: a name is short, but the text may be long.
    let colon = colon(&rest.as_bytes()[..rest.len().min(60)]);
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.[]".contains(byte);
    let named = colon.filter(|at| *at > 0 && rest.as_bytes()[..*at].iter().all(plain));
    Call::take_strictly(named.map_or(rest, |at| &rest[at + 2..]))
}

fn is_place(line: &str) -> bool {
    // A path without a line number: cut off, or an assembler file.
    is_numbered_place(line.as_bytes())
        || line.starts_with('/') && !line.contains(": ")
        || line.starts_with("_cgo_")
}

/// `/usr/local/go/src/sync/mutex.go:134 +0xee`.
fn is_numbered_place(line: &[u8]) -> bool {
    let end = memchr::memchr(b' ', line);
    let first = &line[..end.unwrap_or(line.len())];
    let digits = first.iter().rev().take_while(|it| it.is_ascii_digit());
    let (file, number) = first.split_at(first.len() - digits.count());
    let ends: [&[u8]; 3] = [b".go", b".s", b".c"];
    let is_source =
        |file: &[u8]| ends.iter().any(|end| file.ends_with(end)) || file.starts_with(b"_cgo");
    !number.is_empty() && file.strip_suffix(b":").is_some_and(is_source)
}

/// The beginnings of lines that show why a program crashed.
const CRASHES: [&str; 4] = ["panic: ", "fatal error: ", "[signal SIG", "SIGSEGV: "];

/// How a requested dump begins.
const REQUESTED: [&str; 2] = ["SIGABRT: ", "SIGQUIT: "];

/// Whether a line belongs to what surrounds stacks: the reason for the dump, omitted frames, registers.
fn is_around(line: &str, seen_header: bool) -> bool {
    let mut around = facts().goroutines["around"].iter();
    if around.any(|start| line.starts_with(start)) || line.ends_with("frames elided...") {
        return true;
    }
    let mut words = line.split_ascii_whitespace();
    let (name, value, end) = (words.next(), words.next(), words.next());
    let register = name.is_some_and(|name| name.len() <= 6)
        && value.is_some_and(|value| value.starts_with("0x"))
        && end.is_none();
    seen_header && (register || line.starts_with("exit status "))
}
