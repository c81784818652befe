//! What a listing of processes shows.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use serde::Deserialize;

use super::row::{Age, Row};
use crate::evidence::Evidence;
use crate::kernel::{KernelStack, cause_in};
use crate::rules::{Rules, Texts, is_like};

/// A rule that matches processes in the output of `ps` or `top`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ProcessRule {
    /// The name is one of these; `containerd-shim*` stands for all names with that prefix.
    pub(crate) names: Texts,
    /// The command contains one of these. If empty, any command matches.
    #[serde(default)]
    pub(crate) any: Texts,
    /// The letter of the process's state: `T`, `D`, `Z`.
    state: Option<char>,
    pid: Option<u32>,
    /// The minimum CPU use since it was started, in percent of one CPU.
    cpu_percent: Option<f32>,
    /// The minimum resident memory.
    memory_mib: Option<u64>,
    /// The minimum age.
    age: Option<Age>,
    /// The minimum number of such processes.
    #[serde(default = "one")]
    at_least: usize,
    /// Whether each matching process is evidence, and not only the first.
    #[serde(default)]
    each: bool,
    confidence: Confidence,
    /// What is seen, in a sentence without a full stop. `{pid}`, `{name}`, `{command}`, `{cpu}` and `{memory}`
    /// of the process are filled in, and `{count}`, the number of matching processes.
    says: String,
    headline: Option<String>,
}

fn one() -> usize {
    1
}

/// The evidence that single rows show, or several of the same kind.
pub fn evidence(rows: &[Row]) -> Vec<Evidence> {
    let mut evidence: Vec<Evidence> = rows.iter().filter_map(blocked).collect();
    for entry in &Rules::active().processes {
        evidence.extend(entry.rule.evidence(entry.cause, rows));
    }
    evidence
}

pub(crate) fn name(row: &Row) -> &str {
    let first = row.command.split(' ').next().unwrap_or_default();
    first.rsplit('/').next().unwrap_or_default()
}

pub(super) fn is_in(row: &Row, state: char) -> bool {
    let flags = row.state.as_deref().unwrap_or_default();
    flags.starts_with(state)
}

pub(super) fn is_runc_init(row: &Row) -> bool {
    name(row) == "runc" && row.command.ends_with(" init")
        || row.command.starts_with("runc:[2:INIT]")
}

impl ProcessRule {
    fn evidence(&self, cause: Cause, rows: &[Row]) -> Vec<Evidence> {
        let matching: Vec<&Row> = rows.iter().filter(|row| self.holds(row)).collect();
        if matching.len() < self.at_least {
            return Vec::new();
        }
        let shown = if self.each { matching.len() } else { 1 };
        let evidence = matching.iter().take(shown).map(|row| {
            let says = fill(&self.says, row, matching.len());
            let evidence = Evidence::new(cause, self.confidence, row.line, says);
            let evidence = match self.at_least {
                1 => evidence.of(culprit(row)),
                // Only their number is unusual, so none of them is the culprit.
                _ => evidence,
            };
            let headline = self.headline.as_deref();
            evidence.headed(headline.map(|headline| fill(headline, row, matching.len())))
        });
        evidence.collect()
    }

    fn holds(&self, row: &Row) -> bool {
        self.names.iter().any(|pattern| is_like(name(row), pattern))
            && self.any.allow(row.command.as_bytes())
            && self.state.is_none_or(|state| is_in(row, state))
            && self.pid.is_none_or(|pid| row.pid == pid)
            && self.cpu_percent.is_none_or(|least| row.cpu >= Some(least))
            && self
                .memory_mib
                .is_none_or(|mib| row.memory_kib >= Some(mib << 10))
            && self.age.is_none_or(|age| row.age >= age)
    }
}

fn fill(says: &str, row: &Row, count: usize) -> String {
    let cpu = row.cpu.map_or_else(String::new, |cpu| cpu.to_string());
    let memory = row.memory_kib.unwrap_or_default() as f64 / f64::from(1 << 20);
    says.replace("{pid}", &row.pid.to_string())
        .replace("{count}", &count.to_string())
        .replace("{cpu}", &cpu)
        .replace("{memory}", &format!("{memory:.1} GiB"))
        .replace("{name}", name(row))
        .replace("{command}", &row.command)
}

/// Evidence from the kernel function that the process waits in.
fn blocked(row: &Row) -> Option<Evidence> {
    let wchan = row.wchan.as_deref()?;
    let (cause, confidence) = cause(row, wchan)?;
    let says = format!("process {} ({}) waits in {wchan}", row.pid, row.command);
    Some(Evidence::new(cause, confidence, row.line, says).of(culprit(row)))
}

fn culprit(row: &Row) -> Culprit {
    Culprit::of_process(Some(row.command.clone()), Some(row.pid))
}

pub(super) fn cause(row: &Row, wchan: &str) -> Option<(Cause, Confidence)> {
    let stack = KernelStack {
        process: Some(name(row).to_owned()),
        ..KernelStack::default()
    };
    cause_in(wchan.trim_start_matches("__"), &stack, is_in(row, 'D'))
}
