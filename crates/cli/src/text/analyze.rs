//! The page of `pleg analyze`.

use std::fmt::Display;
use std::time::Duration;

use analyze::analysis::{Analysis, InputReport};
use analyze::goroutines::Goroutines;
use analyze::metrics::MetricsReading;
use analyze::series::PlegReading;
use causes::finding::Verdict;
use pleg::model::wall_time::WallTime;
use pleg::out::words::counted;
use pleg_text::GoDuration;

use super::finding::{body, head, past, titled};
use super::{BAD, DIM, GOOD, WARN, printable, sentence, styled, wrap};

/// The maximum number of intervals on the page; JSON has all of them.
const MAX_INTERVALS: usize = 8;
/// The maximum number of groups of goroutines on the page; JSON has all of them.
const MAX_GROUPS: usize = 8;
/// The maximum number of quoted lines on the page; JSON has all of them.
const MAX_QUOTES: usize = 12;
/// The maximum number of errors on the page; JSON has more.
const MAX_ERRORS: usize = 5;

/// The summary first, then the evidence.
pub fn page(analysis: &Analysis) -> String {
    let mut page = String::new();
    let summary = sentence(&analysis.summary);
    let summary = match analysis.has_problem() {
        true => styled(BAD, summary),
        false if analysis.is_clean() => styled(GOOD, summary),
        false => summary.to_string(),
    };
    line(&mut page, summary);
    page.push('\n');
    for input in &analysis.inputs {
        line(&mut page, of_input(input));
    }
    if let Some(pleg) = &analysis.pleg {
        of_series(&mut page, pleg, &analysis.summary);
    }
    if let Some(goroutines) = &analysis.goroutines {
        of_goroutines(&mut page, goroutines);
    }
    if let Some(metrics) = &analysis.metrics {
        of_metrics(&mut page, metrics);
    }
    if analysis.timeline.len() > 1 {
        head(&mut page, "Timeline");
        for quote in analysis.timeline.iter().take(MAX_QUOTES) {
            line(
                &mut page,
                format_args!("  {}", sentence(&quote.to_string())),
            );
        }
        more(&mut page, analysis.timeline.len(), MAX_QUOTES, "lines");
    }
    for finding in &analysis.findings {
        page.push('\n');
        let past = past(finding);
        let (style, word) = match finding.verdict {
            _ if finding.past => (DIM, &*past),
            Verdict::Problem => (BAD, "Problem"),
            Verdict::Suspect => (WARN, "Suspect"),
        };
        titled(&mut page, style, word, finding.said());
        body(&mut page, finding);
    }
    if !analysis.unexplained.is_empty() {
        head(&mut page, "No known cause");
        for trouble in &analysis.unexplained {
            line(&mut page, format_args!("  {}", sentence(trouble)));
        }
    }
    of_errors(&mut page, analysis);
    let steps = match analysis.lacks_the_cause() {
        true => &FIND_THE_CAUSE[..],
        false if !analysis.errors.is_empty() => &FIND_THE_CAUSE[..1],
        false => &[],
    };
    if !steps.is_empty() {
        head(&mut page, "What to do now");
        for (number, step) in steps.iter().enumerate() {
            wrap(&mut page, &format!("  {}. ", number + 1), step);
        }
    }
    page
}

/// How to find a cause that the input does not show.
const FIND_THE_CAUSE: [&str; 2] = [
    "while the fault lasts, run `pleg doctor` on the node: it looks for the call, the container and the process",
    "otherwise analyze these lines together with the runtime's log and goroutines: containerd and CRI-O write \
     their goroutines on SIGUSR1",
];

/// Error lines of the logs, if nothing else was found.
fn of_errors(page: &mut String, analysis: &Analysis) {
    if analysis.errors.is_empty() {
        return;
    }
    let title = "Errors in the logs, which a healthy node may have too";
    head(page, title);
    for error in analysis.errors.iter().take(MAX_ERRORS) {
        let (message, first) = (printable(&error.message), printable(&error.first));
        let lines = counted(error.lines as usize, "line");
        line(page, format_args!("  {message}"));
        line(
            page,
            styled(DIM, format_args!("    {lines}, first at {first}")),
        );
    }
    let all = analysis.errors.len() + analysis.other_errors as usize;
    more(page, all, MAX_ERRORS, "errors");
}

fn line(page: &mut String, text: impl Display) {
    page.push_str(text.to_string().trim_end());
    page.push('\n');
}

fn more(page: &mut String, all: usize, shown: usize, what: &str) {
    if all > shown {
        let more = format!("  and {} more {what} (shown by -o json)", all - shown);
        line(page, styled(DIM, more));
    }
}

fn of_input(input: &InputReport) -> String {
    let (path, kind) = (printable(&input.path), input.kind.as_str());
    let mut text = format!("{path}: {kind}, {}", counted(input.lines as usize, "line"));
    if input.unread_lines > 0 {
        text += &format!(", {} of them not recognised", input.unread_lines);
    }
    match &input.error {
        Some(error) => styled(WARN, format_args!("{text}; {}", sentence(error))),
        None => styled(DIM, text),
    }
}

fn of_series(page: &mut String, pleg: &PlegReading, summary: &str) {
    head(page, &format!("PLEG: {}", pleg.pattern.as_str()));
    if pleg.reading != summary {
        line(page, format_args!("  {}", sentence(&pleg.reading)));
    }
    for interval in pleg.intervals.iter().take(MAX_INTERVALS) {
        let time = |time: Option<WallTime>| match time {
            Some(time) => time.timestamp().strftime("%Y-%m-%d %H:%M:%S").to_string(),
            None => "at an unknown time".to_owned(),
        };
        let peak = GoDuration(Duration::from_millis(
            (interval.peak_seconds * 1000.0) as u64,
        ));
        let (start, end) = (time(interval.start), time(interval.end));
        let shown = match interval.lines {
            // A single line shows when the last relist was, not how long the stall lasted.
            1 => format!("  {start}  the last relist was {peak} ago, 1 line"),
            lines => {
                let lines = counted(lines as usize, "line");
                format!("  {start} to {end}  peak {peak}, {lines}")
            }
        };
        line(page, shown);
    }
    more(page, pleg.intervals.len(), MAX_INTERVALS, "intervals");
}

fn of_goroutines(page: &mut String, goroutines: &Goroutines) {
    let groups = counted(goroutines.groups.len(), "group");
    head(
        page,
        &format!("Goroutines: {} in {groups}", goroutines.total),
    );
    let (idle, busy): (Vec<_>, Vec<_>) = goroutines.groups.iter().partition(|group| group.idle);
    for group in busy.iter().take(MAX_GROUPS) {
        let state = printable(group.state.as_deref().unwrap_or("?"));
        let wait = match (group.min_wait_minutes, group.max_wait_minutes) {
            (Some(least), Some(most)) if least == most => format!(", {most} min"),
            (Some(least), Some(most)) => format!(", {least} to {most} min"),
            _ => String::new(),
        };
        let (count, function) = (group.count, printable(&group.function));
        line(
            page,
            format_args!("  {count:>6} x [{state}{wait}] {function}"),
        );
    }
    more(page, busy.len(), MAX_GROUPS, "groups");
    let idle: u64 = idle.iter().map(|group| group.count).sum();
    if idle > 0 {
        let idle = format!("  {idle:>6} x idle, as in any healthy process");
        line(page, styled(DIM, idle));
    }
    if let Some(dropped) = goroutines.dropped {
        let dropped = format!("  {dropped} more are not shown: too many different stacks");
        line(page, styled(WARN, dropped));
    }
    if let Some(holder) = &goroutines.likely_holder {
        let name = match holder.goroutine {
            Some(id) => format!("goroutine {id}"),
            None => "a goroutine".to_owned(),
        };
        let function = styled(BAD, printable(&holder.function));
        line(page, format_args!("  Likely holder: {name} in {function}:"));
        line(page, format_args!("  {}", sentence(&holder.why)));
    }
}

fn of_metrics(page: &mut String, metrics: &MetricsReading) {
    head(page, "Metrics");
    line(page, format_args!("  {}", sentence(&metrics.reading)));
}
