//! Which stacks prove a cause.

use causes::Cause;
use causes::finding::{Confidence, Culprit};

use super::{Group, Program, Wait, short};
use crate::proof::Proof;
use table::{EXCERPT, RULES, UNHEALTHY};

mod table;

struct Rule {
    /// One of these is among the calls.
    calls: &'static [&'static str],
    /// And this is, further out; empty for any stack.
    under: &'static str,
    /// They wait for one of these; empty for any wait.
    waits: &'static [Wait],
    /// They are of one of these programs; empty for any.
    programs: &'static [Program],
    /// Their program ended because of one of them.
    crashed: bool,
    /// The minimum wait time; 0 also matches unknown waits.
    minutes: u64,
    cause: Cause,
    confidence: Confidence,
    says: &'static str,
}

/// No more goroutines than these are picked out; a whole dump has hundreds.
const MAX_EXCERPT: u64 = 3;

/// Of what a group of goroutines is a part.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context {
    /// How many goroutines there are; 0 if that says nothing.
    pub total: u64,
    /// Other lines show that the PLEG was unhealthy, and nothing shows why.
    pub is_unexplained: bool,
}

/// Everything that is looked for in a stack.
#[cfg(test)]
pub(crate) fn needles() -> impl Iterator<Item = &'static str> {
    let rules = [&RULES[..], &EXCERPT[..], &UNHEALTHY[..]]
        .into_iter()
        .flatten();
    let needles = rules.flat_map(|rule| rule.calls.iter().copied().chain([rule.under]));
    needles.filter(|needle| !needle.is_empty())
}

/// What a group of goroutines proves.
pub fn proof(group: &Group, context: Context) -> Option<Proof> {
    let is_excerpt = (1..=MAX_EXCERPT).contains(&context.total);
    let tables = [
        (true, &RULES[..]),
        (is_excerpt, &EXCERPT[..]),
        (context.is_unexplained, &UNHEALTHY[..]),
    ];
    let mut rules = tables.into_iter().filter(|(holds, _)| *holds);
    let rule = rules.find_map(|(_, rules)| rules.iter().find(|rule| rule.holds(group)))?;
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
    let culprit = Culprit {
        process: accused(rule.cause, group).map(str::to_owned),
        ..Culprit::default()
    };
    let line = group.place.line;
    Some(Proof::new(rule.cause, rule.confidence, line, says).of(culprit))
}

/// Whose fault it is: a program that waits for another one is not at fault itself.
fn accused(cause: Cause, group: &Group) -> Option<&'static str> {
    let program = match cause {
        Cause::SystemdCookieOverflow | Cause::SystemdOverloaded => return Some("systemd"),
        Cause::CniPluginHang if group.program == Some(Program::CniAgent) => Program::CniAgent,
        // dockerd sends netlink requests, too.
        Cause::CniPluginHang if group.wait == Wait::Netlink => group.program?,
        Cause::CniPluginHang => Program::CniPlugin,
        Cause::ShimUnresponsive if group.wait != Wait::Lock => Program::Shim,
        Cause::StorageUnresponsive | Cause::DiskSaturated => return None,
        _ if group.wait == Wait::Rpc => return None,
        _ => group.program?,
    };
    Some(program.name())
}

impl Rule {
    fn holds(&self, group: &Group) -> bool {
        let long_enough =
            self.minutes == 0 || group.max_minutes.is_some_and(|wait| wait >= self.minutes);
        let called = self.calls.is_empty() || self.calls.iter().any(|call| group.calls(call));
        let waits = self.waits.is_empty() || self.waits.contains(&group.wait);
        let is_theirs = |program| self.programs.contains(&program);
        let whose = self.programs.is_empty() || group.program.is_some_and(is_theirs);
        let under = self.under.is_empty() || group.calls(self.under);
        let crashed = !self.crashed || group.oldest.crashed;
        long_enough && called && under && waits && whose && crashed
    }
}
