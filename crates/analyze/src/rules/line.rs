//! Rules on single lines: those that support a cause, and those that only show a failure.

use causes::finding::Confidence;
use causes::versions::{Fault, has_fault, kernel_faults};
use serde::Deserialize;

use super::texts::Texts;
use crate::kind::Writer;
use crate::line::{after, number_after, text, until};

/// A rule about lines that support a cause.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LineRule {
    /// The text that is searched for. Case counts.
    pub text: String,
    /// One of these is in the line, too; empty for any line.
    #[serde(default)]
    pub any: Texts,
    /// All of these are in the line, too.
    #[serde(default)]
    pub all: Texts,
    /// None of these is in the line.
    #[serde(default)]
    pub without: Texts,
    /// The text is followed by a version of runc that has this fault.
    pub runc: Option<Fault>,
    /// The program that writes such lines.
    pub writer: Writer,
    /// How sure the rule is.
    pub confidence: Confidence,
    /// The minimum number of lines: some lines are usual once, at a start.
    #[serde(default = "super::one")]
    pub lines: u64,
    /// The maximum average time between lines, in seconds. Lines further apart do not count.
    pub apart_seconds: Option<i64>,
    /// Such lines are repeated for as long as the fault lasts. A single line lowers the confidence, and
    /// three lines make the cause certain.
    #[serde(default)]
    pub repeated: bool,
    /// The rule does not count if its lines are about several containers.
    #[serde(default)]
    pub one_container: bool,
    /// The line names a release of the kernel that loses wake-ups, which is no evidence without a symptom.
    #[serde(default)]
    pub release: bool,
    /// A line counts only if no later line shows that the fault is over.
    #[serde(default)]
    pub until_over: bool,
    /// Such lines are usual in the first minute of a kubelet.
    #[serde(default)]
    pub usual_at_start: bool,
    number: Option<Number>,
    /// What a finding says in place of the title; `{rest}` stands for what is after the text.
    headline: Option<String>,
}

/// A number in a line. A line without it matches if `least` is 0.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Number {
    /// The text directly before the number.
    after: String,
    #[serde(default)]
    least: u64,
    #[serde(default = "no_limit")]
    most: u64,
}

fn no_limit() -> u64 {
    u64::MAX
}

impl Number {
    fn holds(&self, line: &[u8]) -> bool {
        let number = number_after(line, &self.after);
        number.map_or(self.least == 0, |number| {
            (self.least..=self.most).contains(&number)
        })
    }
}

/// A line that shows that something failed, and does not show why. It supports no cause.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failure {
    /// The text that is searched for. Case counts.
    pub text: String,
    /// One of these is in the line, too; empty for any line.
    #[serde(default)]
    pub any: Texts,
    /// All of these are in the line, too.
    #[serde(default)]
    pub all: Texts,
    /// None of these is in the line.
    #[serde(default)]
    pub without: Texts,
    /// What failed, in a sentence without a full stop.
    pub says: String,
    /// The minimum number of lines: a single one is usual.
    #[serde(default = "super::one")]
    pub lines: u64,
    /// Which lines are counted together.
    #[serde(default)]
    pub counted: Counted,
}

/// Which lines of a failure are counted together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Counted {
    /// All lines.
    #[default]
    Together,
    /// Lines about the same container: one line about each of many containers is usual.
    PerContainer,
    /// Lines after which nothing shows that the failure is over: a daemon repeats such a line until then.
    UntilOver,
}

impl LineRule {
    pub(super) fn holds(&self, line: &[u8]) -> bool {
        self.any.allow(line)
            && self.all.are_all_in(line)
            && !self.without.are_in(line)
            && self.number.as_ref().is_none_or(|number| number.holds(line))
            && (!self.release || names_faulty_kernel(&text(line)))
            && self.runc.is_none_or(|fault| {
                let mut places = memchr::memmem::find_iter(line, &self.text);
                places.any(|at| {
                    let version = until(&line[at + self.text.len()..], b" ,\"\\");
                    std::str::from_utf8(version).is_ok_and(|it| has_fault(fault, it) == Some(true))
                })
            })
    }

    pub(crate) fn headline(&self, line: &[u8]) -> Option<String> {
        let headline = self.headline.as_deref()?;
        let rest = after(line, &self.text).map(|rest| {
            let begin = rest.iter().position(|byte| !b" :=\"\\".contains(byte));
            text(until(&rest[begin.unwrap_or(rest.len())..], b"\"\\\n"))
        });
        let rest = rest.unwrap_or_default();
        Some(headline.replace("{rest}", rest.trim_matches([' ', ':', '.', ','])))
    }

    pub(crate) fn confidence_of(&self, lines: u64) -> Confidence {
        match (self.repeated, lines) {
            (true, 1) => self.confidence.min(Confidence::Medium),
            (true, 3..) => Confidence::Certain,
            _ => self.confidence,
        }
    }
}

/// Whether a word of the line is a release of the kernel that loses wake-ups.
fn names_faulty_kernel(line: &str) -> bool {
    let is_release =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let mut releases = line.split([' ', '\t', '"']).filter(is_release);
    let loses_wakeups = |release| kernel_faults(release).iter().any(|it| it.loses_wakeups());
    releases.any(loses_wakeups)
}

impl Failure {
    pub(super) fn holds(&self, line: &[u8]) -> bool {
        self.any.allow(line) && self.all.are_all_in(line) && !self.without.are_in(line)
    }

    /// The failure of a kubelet that exits with a fatal error. No text is searched for: the form of the
    /// line shows it.
    pub(crate) fn fatal() -> Self {
        Self {
            says: "the kubelet, or another program that logs in the same way, exited with a fatal \
                   error"
                .to_owned(),
            lines: 1,
            ..Self::default()
        }
    }
}
