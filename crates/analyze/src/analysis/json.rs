//! Lines of JSON: those of klog and of runtimes, and those in which Docker and the journal carry other lines.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use serde_json::Value;

use super::input::{Input, Line};
use crate::kind::Writer;
use crate::line::bare;
use crate::line::forms::milliseconds;
use crate::line::prefix::Carried;
use crate::line::stamp::Stamp;
use crate::rules::{Interest, LineSearch};

// Field names that distinguish lines of JSON. Every line of JSON is searched for them.
static TS: LazyLock<Finder> = LazyLock::new(|| Finder::new("\"ts\":"));
static MSG: LazyLock<Finder> = LazyLock::new(|| Finder::new("\"msg\":"));
static CALLER: LazyLock<Finder> = LazyLock::new(|| Finder::new("\"caller\":"));
static LEVEL: LazyLock<Finder> = LazyLock::new(|| Finder::new("\"level\":"));
static MESSAGE: LazyLock<Finder> = LazyLock::new(|| Finder::new("\"message\":"));

/// How many bytes of a line are searched for field names.
const MAX_HEAD: usize = 400;
const MAX_HEAD_WITH_ERROR: usize = 4096;

/// The maximum length of a time that is a number, including the byte that ends it.
const MAX_NUMBER_BYTES: usize = 24;

impl Input {
    /// Reads a line of JSON; returns whether it is a log line, or carries one.
    pub(super) fn json(&mut self, mut line: Line<'_>, depth: u8) -> bool {
        let Line { carried, found, .. } = line;
        let body = carried.body;
        // An error may be long, and in a runtime's log it is often the first field.
        let head = match body.starts_with(b"{\"error\":") {
            true => MAX_HEAD_WITH_ERROR,
            false => MAX_HEAD,
        };
        let near = &body[..body.len().min(head)];
        // The position after the name of a field.
        let end_of = |name: &Finder| Some(name.find(near)? + name.needle().len());
        // Docker's own field is the first; the journal sorts its fields by name.
        if body.starts_with(b"{\"log\":\"") || found.is(Interest::Carrier) {
            self.heads.forget();
            return self.carrier(&carried, depth);
        }
        let (ts, msg) = (end_of(&TS), end_of(&MSG));
        let level = end_of(&LEVEL);
        // go-kit sorts its fields and writes a level, which klog does not: it is another program.
        let is_of_go_kit = body.starts_with(b"{\"caller\":") && level.is_some();
        let writer = match end_of(&CALLER).or(ts.and(msg)) {
            Some(end) => Some(((!is_of_go_kit).then_some(Writer::Kubelet), end)),
            None => level
                .zip(msg.or_else(|| end_of(&MESSAGE)))
                .map(|(level, message)| (Some(Writer::Runtime), level.max(message))),
        };
        let Some((writer, end)) = writer else {
            return false;
        };
        match writer {
            Some(Writer::Runtime) if found.is(Interest::Dump) => {
                let object: Option<Value> = serde_json::from_slice(body).ok();
                let message = object.as_ref().and_then(|it| it.get("msg")?.as_str());
                self.dump_of(message.unwrap_or_default().as_bytes(), &carried);
            }
            Some(Writer::Runtime) => {}
            _ => line.carried.time = time_of_json(body).or(carried.time),
        }
        self.log(&line, writer);
        // The head must include the end of the time.
        let end = end.max(ts.map_or(0, |ts| ts + MAX_NUMBER_BYTES));
        if depth == 0
            && let Some(rest) = body.get(end..)
            && let Some(writer) = writer
        {
            self.note_head(&line, rest, writer);
        }
        true
    }

    /// Reads the lines that a line of Docker's log files or of the journal's JSON carries. Returns whether
    /// the line is of this form.
    fn carrier(&mut self, outer: &Carried, depth: u8) -> bool {
        let Ok(value) = serde_json::from_slice::<Value>(outer.body) else {
            return false;
        };
        let field = |name: &str| value.get(name).and_then(|value| value.as_str());
        let Some(message) = field("log").or(field("MESSAGE")) else {
            return false;
        };
        let ident = field("SYSLOG_IDENTIFIER").or(field("_COMM"));
        let ident = ident.filter(|ident| !ident.is_empty());
        let realtime = field("__REALTIME_TIMESTAMP").and_then(|text| text.parse::<i64>().ok());
        let time = realtime.and_then(|micros| Stamp::of_unix_nanos(micros.checked_mul(1000)?));
        let written = field("time").and_then(|text| crate::line::stamp::take(text.as_bytes()));
        let carried = Carried {
            time: time.or(written.map(|(stamp, _)| stamp)).or(outer.time),
            host: field("_HOSTNAME").map_or(outer.host, str::as_bytes),
            ident: ident.map_or(outer.ident, str::as_bytes),
            pid: field("_PID").map_or(outer.pid, str::as_bytes),
            body: message.as_bytes(),
            is_of_dmesg: false,
        };
        for line in message.trim_end_matches('\n').split('\n') {
            let line = bare(line.as_bytes());
            self.layer(
                line,
                &LineSearch::active().find(line),
                Some(&carried),
                depth + 1,
            );
        }
        true
    }
}

/// klog's time in a line of JSON.
pub(super) fn time_of_json(body: &[u8]) -> Option<Stamp> {
    milliseconds(&body[TS.find(body)? + TS.needle().len()..])
}
