//! Derives the result of the analysis from the evidence of all inputs.

use std::time::Duration;

use causes::Cause;
use causes::finding::{Confidence, Culprit, Verdict, leave_out_superseded};
use pleg_text::GoDuration;
use pleg_text::redacted;

use super::calls::Method;
use super::chain;
use super::episodes;
use super::errors;
use super::late_calls;
use super::outages;
use super::summary::summary;
use super::unexplained;
use super::{Analysis, Quote, Results};
use crate::goroutines::{self, Context, Goroutines, Group};
use crate::kernel::{self, KernelStack};
use crate::kind::Kind;
use crate::metrics::{self, MetricsReading};
use crate::ps;
use crate::rules::{CauseRule, Rules};
use crate::series::{self, Pattern, PlegReading};
use crate::table::TableRow;
use crate::words::count;

pub(super) fn conclude(mut results: Results) -> Analysis {
    let (groups, total, dropped) = std::mem::take(&mut results.groups).sorted();
    let metrics = metrics::read(&results.samples);
    let pleg = read_series(&mut results);
    let chain = chain::follow(&groups, &results.kernel);
    let goroutines = show_goroutines(&groups, total, dropped, chain.as_ref());
    let releases = collect_lines(&mut results);
    collect_kernel_stacks(&mut results);
    let is_runc_asleep = collect_listings(&mut results);
    collect_tables(&mut results);
    let is_unhealthy = pleg.as_ref().is_some_and(|pleg| pleg.pattern.is_fault());
    let confidence = match is_runc_asleep {
        true => Some(Confidence::High),
        false => is_unhealthy.then_some(Confidence::Low),
    };
    collect_releases(&mut results, releases, confidence);
    outages::conclude(&mut results);
    // With a chain, rules with `only: unhealthy` do not apply: the chain shows what the relist waits for.
    let context = Context {
        total,
        is_unexplained: chain.is_none() && is_unhealthy,
    };
    for group in &groups {
        if let Some(evidence) = goroutines::evidence(group, context) {
            results.collected.add_evidence(&group.place.file, evidence);
        }
    }
    collect_of_all_inputs(&mut results, pleg.as_ref(), metrics.as_ref());
    late_calls::conclude(&mut results);
    collect_chain(&mut results, chain.as_ref(), &groups);
    unexplained::conclude(&mut results);
    let (errors, other_errors) = errors::conclude(std::mem::take(&mut results.errors));
    let mut timeline = results.timeline;
    timeline.sort_by_cached_key(|quote| {
        let file = quote.file.clone();
        (quote.time.is_none(), quote.time, quote.line, file)
    });
    timeline.dedup();
    let mut findings = results.collected.findings();
    leave_out_superseded(&mut findings);
    for finding in &mut findings {
        if finding.verdict == Verdict::Suspect {
            let explain = format!("`pleg explain {}`", finding.cause);
            finding.advise_first(format!("confirm first that it is this: {explain} says how"));
        }
    }
    let (episodes, dropped) = episodes::conclude(results.episodes, &findings);
    results.dropped.episodes = dropped;
    let mut analysis = Analysis {
        summary: String::new(),
        inputs: results.inputs,
        pleg,
        goroutines,
        chain: chain.as_ref().map(|found| found.chain.clone()),
        metrics,
        timeline,
        findings,
        unexplained: results.troubles.into_iter().map(redacted).collect(),
        errors,
        other_errors,
        dropped: results.dropped,
        episodes,
    };
    if analysis.has_problem() {
        analysis.errors.clear();
        analysis.other_errors = 0;
    }
    let chain = chain.map(|found| found.headline);
    analysis.summary = redacted(summary(&analysis, chain));
    analysis
}

fn read_series(results: &mut Results) -> Option<PlegReading> {
    let mut inputs = results.inputs.iter();
    let is_kubelet = inputs.any(|input| input.kind == Kind::KubeletLog);
    let intervals = series::join_rotated(std::mem::take(&mut results.intervals));
    episodes::of_series(&intervals, &results.timeline, &mut results.episodes);
    (is_kubelet || !intervals.is_empty())
        .then(|| series::read(&intervals, results.dropped_intervals, &results.around))
}

fn show_goroutines(
    groups: &[Group],
    total: u64,
    dropped: u64,
    chain: Option<&chain::FoundChain>,
) -> Option<Goroutines> {
    if total == 0 {
        return None;
    }
    let mut holder = goroutines::likely(groups);
    // The end of a chain blocks all of its links.
    let end = chain.map(|found| &groups[found.last]);
    if let Some(group) = end.filter(|group| group.wait.is_outside()) {
        let mut end = goroutines::Holder::of(group);
        end.why += ", and all others in the chain wait for it";
        let likely = holder.filter(|holder| holder.goroutine == end.goroutine);
        holder = likely.or(Some(end));
    }
    Some(Goroutines {
        total,
        groups: groups.iter().map(Group::shown).collect(),
        likely_holder: holder,
        dropped: (dropped > 0).then_some(dropped),
    })
}

/// Collects the evidence of single lines. Returns the lines that show nothing but a release of the kernel.
fn collect_lines(results: &mut Results) -> Vec<(Cause, Quote)> {
    let mut releases = Vec::new();
    for (index, seen) in std::mem::take(&mut results.rules) {
        let CauseRule { cause, rule, .. } = &Rules::active().lines[index];
        let cause = *cause;
        let apart = seen.apart_seconds().zip(rule.apart_seconds);
        let are_too_few =
            seen.lines < rule.lines || apart.is_some_and(|(apart, most)| apart > most);
        if are_too_few || rule.one_container && seen.names_others {
            continue;
        }
        if rule.release {
            releases.extend(seen.quotes.into_iter().map(|quote| (cause, quote)));
            continue;
        }
        let of_one = cause.about().of_one;
        let mut stacks = results.kernel.iter().map(|(_, stack)| stack);
        let is_weak = rule.confidence <= Confidence::Medium;
        if of_one && is_weak && stacks.any(is_of_blocked_runtime) {
            continue;
        }
        // Lines about several containers are no evidence against one of them: something else delays each.
        let are_several = of_one && seen.names_others;
        let (culprit, most) = match are_several {
            true => (Culprit::default(), Confidence::Medium),
            false => (seen.culprit, Confidence::Certain),
        };
        let confidence = rule.confidence_of(seen.lines).min(most);
        for quote in &seen.quotes {
            results
                .collected
                .add(cause, confidence, quote.to_string(), culprit.clone());
        }
        results.collected.head(cause, confidence, seen.headline);
        let more = seen.lines.saturating_sub(seen.quotes.len() as u64);
        if more > 0 {
            let contain = if more == 1 { "contains" } else { "contain" };
            let said = format!("{} {contain} {:?}", count(more, "more line"), rule.text);
            results.collected.also(cause, said);
        }
        if let Some(first) = seen.quotes.into_iter().next() {
            results.add_to_timeline(first);
        }
    }
    releases
}

/// Adds the lines that name a kernel release with a known fault. Such a release is evidence only beside a
/// symptom, or beside other evidence for the same cause.
fn collect_releases(
    results: &mut Results,
    releases: Vec<(Cause, Quote)>,
    confidence: Option<Confidence>,
) {
    for (cause, release) in releases {
        let said = format!("{release}: this release of the kernel has a known fault");
        match confidence {
            Some(confidence) => results
                .collected
                .add(cause, confidence, said, Culprit::default()),
            None => results.collected.also(cause, said),
        }
    }
}

/// Whether the kernel reports that a runtime process itself is blocked. Then its shims are victims.
fn is_of_blocked_runtime(stack: &KernelStack) -> bool {
    let process = stack.process.as_deref();
    let is_runtime = matches!(process, Some("containerd" | "dockerd" | "crio"));
    is_runtime && stack.blocked_seconds.is_some()
}

fn collect_kernel_stacks(results: &mut Results) {
    let mut stacks = results.kernel.iter();
    let is_locked_up = stacks.any(|(_, stack)| stack.locked_up_seconds.is_some());
    for (file, stack) in std::mem::take(&mut results.kernel) {
        // A process listing may contain the process of the stack.
        let mut rows = results.rows.iter();
        let row = rows.find(|(_, row)| Some(row.pid) == stack.pid);
        let process = row.map(|(_, row)| row.command.clone());
        let stack = KernelStack {
            process: stack.process.or(process),
            ..stack
        };
        // While a processor makes no progress, a waiting task may be its victim.
        let may_wait_for_it = is_locked_up && !stack.is_running;
        let is_evidence = !(may_wait_for_it && stack.functions.is_empty());
        let mut evidence = match is_evidence {
            true => kernel::evidence(&stack),
            false => Vec::new(),
        };
        for evidence in evidence.iter_mut().filter(|_| may_wait_for_it) {
            evidence.confidence = evidence.confidence.min(Confidence::Medium);
        }
        if evidence.is_empty() {
            evidence = kernel::blocked_by_kernel_lock(&stack);
        }
        if evidence.is_empty() {
            results.row(&file, &kernel::waiting(&stack));
        }
        for evidence in evidence {
            results.collected.add_evidence(&file, evidence);
        }
    }
}

/// Collects the evidence of process listings. Returns whether a runc and its `runc init` sleep.
fn collect_listings(results: &mut Results) -> bool {
    let mut is_runc_asleep = false;
    let runc = results.runc();
    let late_lines = |method| results.calls.lines(method);
    let late = late_lines(Method::RunPodSandbox) + late_lines(Method::StopPodSandbox);
    let rows = std::mem::take(&mut results.rows);
    for listing in rows.chunk_by(|(one, _), (other, _)| one == other) {
        let path = results.inputs[listing[0].0].path.clone();
        let rows: Vec<ps::Row> = listing.iter().map(|(_, row)| row.clone()).collect();
        for row in ps::tables(&rows, late, runc.as_deref()) {
            results.row(&path, &row);
        }
        for evidence in ps::evidence(&rows) {
            results.collected.add_evidence(&path, evidence);
        }
        is_runc_asleep |= ps::is_runc_asleep(&rows);
    }
    is_runc_asleep
}

/// Adds the evidence of table rows; evidence that counts only beside other evidence is added last. Also
/// limits the number of unexplained problems.
fn collect_tables(results: &mut Results) {
    let mut evidence = std::mem::take(&mut results.evidence);
    evidence.sort_by_key(|(_, evidence)| evidence.is_beside);
    for (file, evidence) in evidence {
        results.collected.add_evidence(&file, evidence);
    }
    results.troubles.dedup();
    results.troubles.truncate(MAX_TROUBLES);
}

/// How many unexplained problems are reported. A person reads no more.
const MAX_TROUBLES: usize = 12;

/// Collects the evidence that all inputs show together.
fn collect_of_all_inputs(
    results: &mut Results,
    pleg: Option<&PlegReading>,
    metrics: Option<&MetricsReading>,
) {
    if let Some(pleg) = pleg {
        let is_restarted = pleg.pattern == Pattern::RestartLoop;
        let row = TableRow::new("pleg", 0).text("pattern", pleg.pattern.as_str());
        let row = row.number("intervals", pleg.intervals.len() as f64);
        let row = row.text("unit", is_restarted.then_some("kubelet.service"));
        results.row("", &row.text("reading", &*pleg.reading));
    }
    if let Some((late, quote)) = results.lateness.take() {
        let late = Duration::from_secs(late.unsigned_abs() / 1_000_000_000);
        let late = GoDuration(late).to_string();
        let row = TableRow::new("journal-delay", 0).text("late", &*late);
        results.row("", &row.text("line", &*quote.to_string()));
    }
    if let Some(metrics) = metrics {
        let row = TableRow::new("relists", 0);
        let row = row.number("slowest-seconds", metrics.relist.p99_seconds);
        let row = row.number("discarded-events", metrics.discarded_events);
        results.row("", &row.text("reading", &*metrics.reading));
    }
    collect_tables(results);
}

/// A chain with more links than this makes its end certain. With fewer links, goroutines may wait for the
/// same kind of lock by coincidence.
const SURE_AFTER_LINKS: usize = 3;

/// Puts the chain before the other evidence for the cause in which it ends. If the chain is long or
/// confirmed, the cause becomes certain.
fn collect_chain(results: &mut Results, chain: Option<&chain::FoundChain>, groups: &[Group]) {
    let Some(found) = chain else {
        return;
    };
    let evidence = goroutines::evidence(&groups[found.last], Context::default());
    let Some(cause) = evidence.map(|evidence| evidence.cause) else {
        return;
    };
    if found.confirmed || found.chain.links.len() > SURE_AFTER_LINKS {
        results.collected.confirm(cause, Confidence::Certain);
    }
    results.collected.lead(cause, found.chain.sentence.clone());
}
