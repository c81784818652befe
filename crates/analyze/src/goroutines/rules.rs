//! Which stacks support a cause.

use causes::finding::{Confidence, Culprit};
use serde::Deserialize;

use super::{Group, Program, Wait, short};
use crate::evidence::Evidence;
use crate::rules::{CauseRule, Rules, Texts};

/// A rule about goroutines with the same stack.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GoroutineRule {
    /// One of these is among the calls; empty for any stack.
    #[serde(default)]
    pub(crate) calls: Texts,
    /// This function is also among the calls, usually further out.
    under: Option<String>,
    /// The goroutines wait for one of these; empty for any wait.
    #[serde(default)]
    waits: Vec<Wait>,
    /// The goroutines belong to one of these programs; empty for any.
    #[serde(default)]
    programs: Vec<Program>,
    /// The program crashed because of one of the goroutines.
    #[serde(default)]
    crashed: bool,
    /// The minimum wait time in minutes; 0 also matches unknown waits.
    #[serde(default)]
    minutes: u64,
    /// The dumps for which the rule holds.
    only: Option<Only>,
    #[serde(default)]
    accuses: Accused,
    confidence: Confidence,
    headline: Option<String>,
    /// What the stack shows, in a sentence without a full stop.
    says: String,
    /// If several rules hold for a stack, the one with the lowest order counts.
    #[serde(default)]
    pub(crate) order: u32,
}

/// The dumps for which a rule holds. A dump shows a single moment, and even a healthy program has such a
/// stack at some moments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Only {
    /// A few goroutines that were picked out of a dump.
    Excerpt,
    /// The PLEG was unhealthy, and nothing else shows what its relist waits for.
    Unhealthy,
}

/// The culprit of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Accused {
    /// The program of the goroutines, unless it waits for another one.
    #[default]
    Program,
    /// The init process.
    Systemd,
    /// A CNI plugin, or its agent if the goroutines are of the agent.
    CniPlugin,
    /// The shim of a container.
    Shim,
    /// No program.
    None,
}

/// The maximum number of goroutines in an excerpt; a whole dump has hundreds.
const MAX_EXCERPT: u64 = 3;

/// What is known about the dump that a group is part of.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// The number of all goroutines; 0 if it does not matter.
    pub total: u64,
    /// Whether other lines show that the PLEG was unhealthy, and no chain shows why.
    pub is_unexplained: bool,
}

/// Everything that is looked for in a stack.
#[cfg(test)]
pub(crate) fn searched_texts() -> impl Iterator<Item = &'static str> {
    let rules = Rules::active().goroutines.iter().map(|of| &of.rule);
    rules.flat_map(|rule| rule.calls.iter().chain(&rule.under).map(String::as_str))
}

/// What a group of goroutines shows.
pub fn evidence(group: &Group, context: Context) -> Option<Evidence> {
    let mut rules = Rules::active().goroutines.iter();
    let CauseRule { cause, rule, .. } = rules.find(|of| of.rule.holds(group, context))?;
    let state = group.oldest.state.as_deref().unwrap_or("state unknown");
    let wait = match group.max_minutes {
        Some(minutes) => format!(", up to {minutes} minutes"),
        None => String::new(),
    };
    let (count, function) = (group.count, short(group.function()));
    let seen_in = match group.program {
        Some(program) => format!(" in {program}"),
        None => String::new(),
    };
    let says = format!(
        "{count} x [{state}{wait}] {function}{seen_in}: {}",
        rule.says
    );
    let culprit = Culprit::of_process(rule.accused(group).map(str::to_owned), None);
    let evidence = Evidence::new(*cause, rule.confidence, group.place.line, says);
    Some(evidence.of(culprit).headed(rule.headline.clone()))
}

impl GoroutineRule {
    /// Checks that the rule does not hold for every stack. The error is a sentence.
    pub(crate) fn check(&self) -> Result<(), String> {
        let is_narrow = !self.calls.is_empty()
            || self.under.is_some()
            || !self.waits.is_empty()
            || !self.programs.is_empty()
            || self.crashed;
        match is_narrow {
            true => Ok(()),
            false => Err("it holds for every goroutine: set `calls` or `waits`".to_owned()),
        }
    }

    fn holds(&self, group: &Group, context: Context) -> bool {
        let is_such_a_dump = match self.only {
            None => true,
            Some(Only::Excerpt) => (1..=MAX_EXCERPT).contains(&context.total),
            Some(Only::Unhealthy) => context.is_unexplained,
        };
        let long_enough =
            self.minutes == 0 || group.max_minutes.is_some_and(|wait| wait >= self.minutes);
        let called = self.calls.is_empty() || self.calls.iter().any(|call| group.calls(call));
        let waits = self.waits.is_empty() || self.waits.contains(&group.wait);
        let is_theirs = |program| self.programs.contains(&program);
        let whose = self.programs.is_empty() || group.program.is_some_and(is_theirs);
        let under = self.under.as_ref().is_none_or(|call| group.calls(call));
        let crashed = !self.crashed || group.oldest.crashed;
        is_such_a_dump && long_enough && called && under && waits && whose && crashed
    }

    /// The culprit, if the rule names one. A program that waits for another one is not at fault itself.
    fn accused(&self, group: &Group) -> Option<&'static str> {
        let program = match self.accuses {
            Accused::None => return None,
            Accused::Systemd => return Some("systemd"),
            Accused::CniPlugin if group.program == Some(Program::CniAgent) => Program::CniAgent,
            Accused::CniPlugin => Program::CniPlugin,
            Accused::Shim => Program::Shim,
            Accused::Program if group.wait == Wait::Rpc => return None,
            Accused::Program => group.program?,
        };
        Some(program.name())
    }
}
