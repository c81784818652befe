//! The header: one line for each part of the status, as in `pleg status`.

use std::time::Duration;

use pleg::model::listed::ContainerState;
use pleg::model::wall_time::WallTime;
use pleg::out::status_report::{GuardMode, StatusReport};
use pleg::out::words::counted;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{RenderDirection, Sparkline};

use super::Theme;
use super::format::{clock, clock_at, dated_clock, fit, is_same_day, rounded_age, seconds};
use crate::state::State;
use crate::state::node::Taken;
use crate::update::Source;

/// The width of a label, in columns.
const LABEL_WIDTH: usize = 10;

/// The width of the sparkline, in columns.
const SPARKLINE_WIDTH: u16 = 20;

/// The line that shows whether all others are current.
pub const SOURCE_ROW: u16 = 1;

/// The line with the sparkline, counted from the end of the header.
const RELIST_FROM_END: u16 = 2;

/// The maximum number of lines of the health, whose message names the culprit.
const MAX_HEALTH_LINES: usize = 2;

/// The number of lines of the header before a status is known.
const LINES_WITHOUT_STATUS: u16 = 2;

/// The lines of the header.
pub fn lines(state: &State, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let columns = usize::from(width);
    let mut lines = vec![title(state, columns, theme), source(state, columns, theme)];
    let Some(Taken { at, value: report }) = &state.node.status else {
        return lines;
    };
    let line = |name: &str, mut spans: Vec<Span<'static>>| {
        spans.insert(0, label(name, theme));
        cut(spans, columns)
    };
    lines.extend(health(state, report, columns, theme));
    lines.push(line("Kubelet", kubelet(state, report, *at, theme)));
    let room = columns.saturating_sub(LABEL_WIDTH + usize::from(SPARKLINE_WIDTH) + 1);
    lines.push(line("Relist", vec![Span::raw(fit(&relist(report), room))]));
    lines.push(line("Guard", guard_and_hints(report, theme)));
    lines
}

/// The name of a line, in a column of its own.
fn label(name: &str, theme: &Theme) -> Span<'static> {
    Span::styled(format!("{name:<LABEL_WIDTH$}"), theme.bold())
}

/// The durations of the last relists, the newest on the right.
pub fn sparkline(frame: &mut Frame<'_>, state: &State, header: Rect, theme: &Theme) {
    if header.height <= LINES_WITHOUT_STATUS || header.width < 2 * SPARKLINE_WIDTH {
        return;
    }
    let durations = state.node.relists.iter().rev();
    let durations: Vec<u64> = durations
        .map(|took| took.as_micros() as u64)
        .take(SPARKLINE_WIDTH.into())
        .collect();
    let longest = durations.iter().copied().max().unwrap_or(0).max(1);
    // The shortest bar is an eighth of the height, so that a very short relist is visible too.
    let heights = durations.iter().map(|took| 1 + 7 * took / longest);
    let sparkline = Sparkline::default()
        .direction(RenderDirection::RightToLeft)
        .style(theme.dim())
        .max(8)
        .data(heights.collect::<Vec<_>>());
    let area = Rect {
        x: header.right() - SPARKLINE_WIDTH,
        y: header.bottom() - RELIST_FROM_END,
        width: SPARKLINE_WIDTH,
        height: 1,
    };
    frame.render_widget(sparkline, area);
}

fn title(state: &State, columns: usize, theme: &Theme) -> Line<'static> {
    let runtime = match &state.node.status {
        Some(status) => runtime(&status.value),
        None => String::new(),
    };
    let time = match state.position {
        Some(position) => {
            // The recording may contain the same time of day twice.
            let clock = match is_same_day(position.first, position.last) {
                true => clock,
                false => dated_clock,
            };
            let [at, first, last] = [position.at, position.first, position.last].map(clock);
            format!("{at} of {first} to {last} UTC")
        }
        None => format!("{} UTC", clock(state.now)),
    };
    let room = columns.saturating_sub(LABEL_WIDTH + 2 + time.len());
    let runtime = fit(&runtime, room);
    let gap = room.saturating_sub(Span::raw(&runtime).width()) + 2;
    Line::from(vec![
        label("pleg top", theme),
        Span::raw(runtime),
        Span::raw(" ".repeat(gap)),
        Span::styled(time, theme.bold()),
    ])
}

fn runtime(report: &StatusReport) -> String {
    let runtime = &report.runtime;
    let endpoint = &runtime.endpoint;
    let text = match (&runtime.name, &runtime.version) {
        (Some(name), Some(version)) => format!("{name} {version} at {endpoint}"),
        _ => format!("unidentified runtime at {endpoint}"),
    };
    pleg_text::escape::sentence(&text).into_owned()
}

/// The source, and when it was lost.
fn source(state: &State, columns: usize, theme: &Theme) -> Line<'static> {
    let since = |since| {
        let ago = rounded_age(state.now.since(since));
        format!("{} ({ago} ago)", clock_at(since, state.now))
    };
    let (text, style) = match (&state.node.source, state.stale_since(), state.position) {
        (Source::Disconnected { why, .. }, Some(lost), _) => {
            let why = pleg_text::escape::sentence(why);
            let text = format!("NOT CURRENT since {}: {why}", since(lost));
            (text, theme.banner())
        }
        (_, _, Some(_)) => (recorded(state), Style::new()),
        (_, Some(taken), None) => {
            let text = format!("NOT CURRENT: the last status is of {}", since(taken));
            (text, theme.banner())
        }
        (Source::Connected { to }, None, None) => {
            let to = pleg_text::escape::sentence(to);
            (format!("{to} · {}", pods(state)), Style::new())
        }
        (_, None, None) => ("waiting for the first status".to_owned(), theme.warning()),
    };
    cut(
        vec![label("Source", theme), Span::styled(text, style)],
        columns,
    )
}

/// The times of the shown parts of a recording, and the numbers of pods and containers.
fn recorded(state: &State) -> String {
    let of = |taken: Option<_>| match taken {
        None => "none".to_owned(),
        Some(taken) => clock_at(taken, state.now),
    };
    let status = of(state.node.status.as_ref().map(|status| status.at));
    let listed = of(state.node.pods_taken);
    let counts = match state.node.pods_taken {
        Some(_) => recorded_pods(state),
        None => pods(state),
    };
    format!("a recording: status of {status}, pods of {listed} · {counts}")
}

fn pods(state: &State) -> String {
    let Some(Taken { value: report, .. }) = &state.node.status else {
        return "no status yet".to_owned();
    };
    if report.relist.count == 0 {
        return "no pod was observed yet".to_owned();
    }
    let count = |state: ContainerState| report.containers.get(state.as_str()).copied();
    containers(report.pods, |state| count(state).unwrap_or(0))
}

/// The numbers of pods and containers in the table, which is newer than the status of a recording.
fn recorded_pods(state: &State) -> String {
    let all = state.node.pods.all();
    let states = all.flat_map(|pod| pod.report.status.containers.iter().map(|it| it.state));
    let states: Vec<_> = states.collect();
    containers(state.node.pods.count(), |state| {
        states.iter().filter(|it| **it == state).count()
    })
}

/// The number of pods, and of containers in the most important states.
fn containers(pods: usize, count: impl Fn(ContainerState) -> usize) -> String {
    format!(
        "{}, {} running, {} exited",
        counted(pods, "pod"),
        count(ContainerState::Running),
        count(ContainerState::Exited)
    )
}

/// The health as in `pleg status`, then its reason and duration, on at most
/// [`MAX_HEALTH_LINES`] lines.
fn health(
    state: &State,
    report: &StatusReport,
    columns: usize,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let health = &report.health;
    let lasted = rounded_age(state.known_until().since(health.since));
    let message = format!("{}: {}", health.state, health.message);
    let text = pleg_text::escape::sentence(&message);
    let reason = format!("({} for {lasted})", health.reason);
    let room = columns.saturating_sub(LABEL_WIDTH);
    let whole = format!("{text} {reason}");
    let mut lines = textwrap::wrap(&whole, room);
    if lines.len() > MAX_HEALTH_LINES {
        // Cut the message, so that the reason is shown.
        lines = textwrap::wrap(&text, room);
        let message = lines.split_off(1).join(" ");
        let left = room.saturating_sub(reason.len() + 1);
        let rest = format!("{} {reason}", fit(&message, left));
        lines.push(fit(&rest, room).into());
    }
    let first = lines.first().map_or("", |first| &**first);
    let state_name = health.state.as_str();
    let after = first.strip_prefix(state_name).unwrap_or_default();
    let headline = Line::from(vec![
        label("Health", theme),
        Span::styled(state_name, theme.health(health.state)),
        Span::raw(after.to_owned()),
    ]);
    let rest = lines.iter().skip(1);
    let rest = rest.map(|line| Line::raw(format!("{:<LABEL_WIDTH$}{line}", "")));
    std::iter::once(headline).chain(rest).collect()
}

/// What a kubelet here would report, with the remaining time.
fn kubelet(
    state: &State,
    report: &StatusReport,
    taken: WallTime,
    theme: &Theme,
) -> Vec<Span<'static>> {
    let view = &report.kubelet_view;
    let left = view.not_ready_in_seconds.filter(|_| view.ready);
    let left = left.map(|left| {
        let left = Duration::try_from_secs_f64(left).unwrap_or_default();
        // The countdown stops when the node is no longer observed.
        left.saturating_sub(state.known_until().since(taken))
    });
    let (word, style) = match (view.ready, left) {
        (false, _) => ("would be NotReady".to_owned(), theme.bad()),
        (true, Some(left)) => (
            format!("would be NotReady in {}", rounded_age(left)),
            theme.bad(),
        ),
        (true, None) => ("would be Ready".to_owned(), theme.good()),
    };
    // If there is a countdown, the words in front already contain what the message says about it.
    let why = match left {
        Some(_) if !view.why.is_empty() => &view.why,
        _ => &view.message,
    };
    let why = pleg_text::escape::sentence(why);
    vec![Span::styled(word, style), Span::raw(format!(": {why}"))]
}

fn relist(report: &StatusReport) -> String {
    let relist = &report.relist;
    let period = seconds(relist.period_seconds).replace(".0s", "s");
    let kind = relist.last_kind.map(|kind| kind.as_str());
    let seen = match report.health.age_seconds {
        Some(age) => format!(", seen {} ago", seconds(age)),
        None => ", nothing seen yet".to_owned(),
    };
    match (relist.last_duration_seconds, kind) {
        (Some(took), Some(kind)) => {
            let took = seconds(took);
            format!("{}, every {period}, {took} by {kind}{seen}", relist.mode)
        }
        _ => format!("{}, every {period}{seen}", relist.mode),
    }
}

/// The guard, the stream and the kernel's hints.
fn guard_and_hints(report: &StatusReport, theme: &Theme) -> Vec<Span<'static>> {
    let (guard, style) = guard(report, theme);
    let stream = match report.stream.state.as_str() {
        "live" | "retrying" => format!(
            "{}, {}, {} missed",
            report.stream.state,
            counted(report.stream.events as usize, "event"),
            report.stream.missed
        ),
        state => state.to_owned(),
    };
    let kernel = match report.kernel.state.as_str() {
        "live" => format!("live, {}", counted(report.kernel.watched, "process")),
        state => state.to_owned(),
    };
    let label = |text: &str| Span::styled(format!("  {text}  "), theme.bold());
    vec![
        Span::styled(guard, style),
        label("Stream"),
        Span::raw(pleg_text::escape::printable(&stream).into_owned()),
        label("Kernel"),
        Span::raw(pleg_text::escape::printable(&kernel).into_owned()),
    ]
}

fn guard(report: &StatusReport, theme: &Theme) -> (String, Style) {
    let guard = &report.guard;
    if guard.unresponsive {
        return ("does not respond".to_owned(), theme.bad());
    }
    match (guard.mode, guard.since_seconds) {
        (GuardMode::Guard, Some(since)) => {
            (format!("answering for {}", seconds(since)), theme.warning())
        }
        (GuardMode::Guard, None) if guard.limit_reached => {
            ("time limit reached".to_owned(), theme.bad())
        }
        (GuardMode::Guard, None) if guard.runtime_silent => (
            "cannot answer, the runtime is unresponsive".to_owned(),
            theme.bad(),
        ),
        (GuardMode::Guard, None) if guard.refusing => {
            ("refusing, not all confirmed".to_owned(), theme.bad())
        }
        (GuardMode::Guard, None) if guard.waiting => {
            ("lists are overdue".to_owned(), theme.warning())
        }
        _ if guard.is_bypassed() => ("not used by the kubelet".to_owned(), theme.bad()),
        (GuardMode::Shadow, _) => {
            let text = format!("shadow, {} differences", guard.differences);
            (text, Style::new())
        }
        (mode, _) => (mode.as_str().to_owned(), Style::new()),
    }
}

/// Cuts a line at the end of the screen, with a mark.
fn cut(spans: Vec<Span<'static>>, columns: usize) -> Line<'static> {
    let mut room = columns;
    let mut kept = Vec::new();
    for span in spans {
        let content = fit(&span.content, room);
        room -= Span::raw(&content).width().min(room);
        kept.push(Span::styled(content, span.style));
    }
    Line::from(kept)
}
