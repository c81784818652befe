//! What commands print, as people paste it: `kubectl describe`, `systemctl status`, `df` …
//!
//! ```text
//!   a prompt, or a line that only one command prints
//!        |
//!        v
//!   Form: which command's output the next lines are --> one file each: rows of tables, and figures
//!        |
//!        v
//!   the rules: what a row shows
//! ```
//!
//! A row that supports no cause may still show that something is wrong: that is a [`Trouble`].
//!
//! ```
//! use analyze::output::OutputReader;
//!
//! let pasted = "$ df -h
//! Filesystem      Size  Used Avail Use% Mounted on
//! /dev/sda1        50G   50G     0 100% /
//! ";
//! let mut reader = OutputReader::default();
//! for (number, line) in (1..).zip(pasted.lines()) {
//!     reader.line(line, number);
//! }
//! assert_eq!(reader.end().evidence[0].cause.id(), "disk-full");
//! ```

mod bus;
mod cgroups;
mod cluster;
mod condition_object;
mod conditions;
mod counts;
mod disk;
mod event_rows;
mod form;
mod freezer;
mod io;
mod limits;
mod load;
mod memory;
mod pressure;
mod process;
mod prompt;
mod runtime;
mod system_oom;
mod unit;
mod warnings;

use crate::evidence::Evidence;
use crate::kind::Kind;
use crate::ps::Row;
use crate::rules::{Excuse, Rules, Shown};
use crate::table::TableRow;
use condition_object::ConditionObject;
use form::Form;
use limits::Limits;
use pleg_text::WallTime;
use prompt::Command;
use system_oom::SystemOoms;
use warnings::Warnings;

/// Reads what commands print, line by line.
#[derive(Debug, Default)]
pub struct OutputReader {
    form: Option<Form>,
    /// The number of log lines inside of the current output.
    log_lines: u32,
    /// A condition in YAML or JSON that is being read.
    condition: Option<ConditionObject>,
    /// The last command at a prompt.
    typed: Option<Command>,
    /// Whether the last command has printed nothing yet.
    is_pending: bool,
    /// Whether a prompt with a command was read.
    saw_command: bool,
    seen: Seen,
}

/// What the output shows.
#[derive(Debug, Default)]
pub struct Seen {
    /// Evidence for causes.
    pub evidence: Vec<Evidence>,
    /// Problems without a known cause.
    pub troubles: Vec<Trouble>,
    /// Errors and warnings that show no problem.
    pub errors: Vec<Trouble>,
    /// The nodes that were not Ready.
    pub not_ready: Vec<NotReady>,
    kubelet_starts: Counted,
    reboots: Counted,
    /// Events of CRI-O about a name that an earlier attempt has reserved.
    reserved_names: Counted,
    terminating_pods: Counted,
    warnings: Warnings,
    limits: Limits,
    system_ooms: SystemOoms,
    /// The unit or the process that the lines are about.
    of: String,
    /// Whether crictl has no configuration, so that it tries the sockets of all runtimes.
    tries_defaults: bool,
}

/// How often something was seen, and the last line that shows it.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    count: u64,
    line: u64,
}

impl Counted {
    fn add(&mut self, count: u64, line: u64) {
        self.count = self.count.saturating_add(count);
        self.line = line;
    }
}

/// A node that was not Ready, as its conditions show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotReady {
    /// When the condition changed.
    pub since: WallTime,
    /// When the kubelet last reported the condition; earlier than `since` if the kubelet had
    /// stopped reporting.
    pub reported: WallTime,
    /// The reason and the message of the condition.
    pub says: String,
    /// The number of the condition's line in the input.
    pub line: u64,
    /// The text of that line.
    pub text: String,
}

/// A problem without a known cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// The problem, in a sentence without a full stop.
    pub says: String,
    /// The number of the line in the input that shows the problem.
    pub line: u64,
}

/// How a line was classified.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineClass {
    /// A part of an output of this kind.
    Yes(Kind),
    /// A prompt, or something that people put around what they paste.
    Around,
    /// Something else.
    No,
}

/// How many items of each kind are kept.
const MAX_KEPT: usize = 200;

/// How many log lines one output may contain: `systemctl status` prints ten lines of the journal, `crictl`
/// one or two of its own.
const MAX_LOG_LINES: u32 = 20;

impl OutputReader {
    /// Reads a line as it was pasted.
    pub fn line(&mut self, line: &str, number: u64) -> LineClass {
        let text = line.trim();
        if text.is_empty() {
            return match self.form {
                Some(form) => LineClass::Yes(form.kind()),
                None => LineClass::No,
            };
        }
        if text.starts_with("```") && text.len() < 20 {
            self.ends();
            return LineClass::Around;
        }
        let text = text.trim_start_matches("```");
        let condition = self.condition.take();
        let was_inside = condition.is_some();
        self.condition = condition
            .and_then(|condition| condition.line(text, number, &mut self.seen))
            .or_else(|| ConditionObject::begins(text));
        if was_inside || self.condition.is_some() {
            return LineClass::Yes(Kind::ToolOutput);
        }
        if let Some(command) = Command::at_prompt(text, number) {
            let is_stack = command.text.contains("/stack");
            self.form = command.form().filter(|_| !is_stack);
            self.log_lines = 0;
            self.seen.limits.typed(&command.text);
            self.seen.of.clear();
            self.saw_command = true;
            self.typed = Some(command);
            self.is_pending = true;
            return match self.form {
                _ if is_stack => LineClass::No,
                Some(form) => LineClass::Yes(form.kind()),
                None => LineClass::Around,
            };
        }
        if let Some(time) = text.strip_prefix("real").map(str::trim_start)
            && let Some(command) = &self.typed
        {
            command.took(time, &mut self.seen);
        }
        let (is_number, row) = self.seen.limits.line(text, number);
        if let Some(row) = row {
            self.seen.row(row);
        }
        if std::mem::take(&mut self.is_pending)
            && let Some(command) = &self.typed
        {
            if text.starts_with("^C") {
                command.interrupted(&mut self.seen);
                return LineClass::Around;
            }
            if command.printed(text, number, &mut self.seen) {
                return LineClass::Yes(Kind::ToolOutput);
            }
        }
        if is_number && self.form.is_none() {
            return LineClass::Yes(Kind::ToolOutput);
        }
        if let Some(next) = Form::of_line(text, line, self.form) {
            if self.form != Some(next) {
                self.log_lines = 0;
            }
            self.form = Some(next);
        }
        let Some(form) = &mut self.form else {
            return LineClass::No;
        };
        let kind = form.kind();
        form.read(text, number, &mut self.seen);
        LineClass::Yes(kind)
    }

    /// Whether the lines are a command's output.
    pub fn is_inside(&self) -> bool {
        self.form.is_some()
    }

    /// Counts a log line. Returns the kind of the output that contains it, if one does.
    pub fn around_log_line(&mut self) -> Option<Kind> {
        let form = self.form?;
        self.is_pending = false;
        self.log_lines += 1;
        if form.has_log_lines() && self.log_lines <= MAX_LOG_LINES {
            return Some(form.kind());
        }
        self.ends();
        None
    }

    /// Whether a failed connection means nothing, because crictl tries the sockets of all runtimes.
    pub fn tries_defaults(&self) -> bool {
        self.form.is_some() && self.seen.tries_defaults
    }

    /// Ends the output, because something else begins.
    pub fn ends(&mut self) {
        self.form = None;
        self.is_pending = false;
    }

    /// Reads a line of the kernel's log that may contradict an event.
    pub fn kernel_line(&mut self, text: &str) {
        self.seen.system_ooms.kernel(text);
    }

    /// Whether a command was typed.
    pub fn saw_command(&self) -> bool {
        self.saw_command
    }

    /// Reads a line of `top` or `pidstat` that shows a process.
    pub fn process(&mut self, process: &Row) {
        if let Some(Form::Load(load)) = &self.form {
            load.process(process, &mut self.seen);
        }
    }

    /// Whether the rows of a listing of processes are expected.
    pub fn lists_processes(&self) -> bool {
        matches!(self.form, Some(Form::Load(_)))
    }

    /// Ends the input, and returns what the output showed.
    pub fn end(&mut self) -> Seen {
        let mut seen = std::mem::take(&mut self.seen);
        seen.end();
        seen
    }
}

impl Seen {
    fn evidence(&mut self, evidence: Evidence) {
        keep(&mut self.evidence, evidence);
    }

    /// Adds what the rules find in a row; returns whether they find anything.
    fn row(&mut self, row: TableRow) -> bool {
        match Rules::active().of_row(&row) {
            Shown::Evidence(all) => all.into_iter().for_each(|it| self.evidence(it)),
            Shown::Failure(says) => self.trouble(row.line, says),
            Shown::Nothing => return false,
        }
        true
    }

    /// Adds a figure, if the value is a number.
    fn figure(&mut self, figure: &'static str, value: &str, line: u64) {
        if let Ok(value) = value.trim().parse() {
            self.row(TableRow::figure(figure, value, line));
        }
    }

    /// Reads a line that this tool printed; returns whether a rule matches it.
    fn command_line(&mut self, tool: &str, text: &str, line: u64) -> bool {
        let row = TableRow::new("command-lines", line).text("tool", tool);
        self.row(row.text("text", text))
    }

    fn end(&mut self) {
        let restarts = Counted {
            // Each boot of the machine explains one start.
            count: self.kubelet_starts.count.saturating_sub(self.reboots.count),
            ..self.kubelet_starts
        };
        for (figure, Counted { count, line }) in [
            ("kubelet-restarts", restarts),
            ("reboots", self.reboots),
            ("reserved-names", self.reserved_names),
            ("terminating-pods", self.terminating_pods),
        ] {
            self.row(TableRow::figure(figure, count, line));
        }
        for row in self.system_ooms.rows() {
            self.warnings.excuse(Excuse::OutOfMemory);
            self.row(row);
        }
        let (evidence, troubles) = std::mem::take(&mut self.warnings).end();
        self.evidence.extend(evidence);
        self.troubles.extend(troubles);
    }

    fn not_ready(&mut self, not_ready: NotReady) {
        keep(&mut self.not_ready, not_ready);
    }

    fn error(&mut self, line: u64, says: impl Into<String>) {
        let says = says.into();
        keep(&mut self.errors, Trouble { says, line });
    }

    fn trouble(&mut self, line: u64, says: impl Into<String>) {
        let says = says.into();
        keep(&mut self.troubles, Trouble { says, line });
    }
}

/// Keeps one more, if there are not too many already.
fn keep<T>(kept: &mut Vec<T>, one: T) {
    if kept.len() < MAX_KEPT {
        kept.push(one);
    }
}

fn has_any(line: &str, texts: &[&str]) -> bool {
    texts.iter().any(|text| line.contains(text))
}

/// Parts of messages that report a timeout.
const TIMED_OUT: &[&str] = &[
    "DeadlineExceeded",
    "deadline exceeded",
    "timed out",
    "timeout",
    "Timeout",
];
