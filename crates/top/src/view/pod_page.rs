//! The page of a pod: its condition, its sandboxes and containers, its calls, its events.

use pleg::model::id::PodUid;
use pleg::model::listed::ContainerState;
use pleg::model::status::ContainerStatus;
use pleg::model::wall_time::WallTime;
use pleg::out::health::short;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use super::Theme;
use super::events::{cells, event_clock};
use super::format::{age, fit, precise_clock_at, printable, rounded_age, wrapped};
use super::pods::{condition_text, style};
use crate::state::State;
use crate::state::events::Happened;
use crate::state::pods::{Pod, waiting};

pub fn lines(
    state: &State,
    (uid, shown_name): (&PodUid, &str),
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    let columns = usize::from(width);
    let mut lines = vec![Line::from(vec![
        Span::styled("Pod  ", theme.bold()),
        Span::raw(printable(shown_name, columns.saturating_sub(5))),
    ])];
    let uid_text = format!("uid {uid}");
    lines.extend(wrapped(&uid_text, width, theme.dim()));
    match state.node.pods.get(uid) {
        Some(pod) => of_pod(&mut lines, state, pod, width, theme),
        None => lines.push(Line::styled(
            "The runtime does not have this pod any more.",
            theme.warning(),
        )),
    }
    let calls = state.node.outstanding.iter();
    let calls: Vec<_> = calls
        .filter(|call| call.pod.as_ref().is_some_and(|pod| pod.uid == *uid))
        .collect();
    if !calls.is_empty() {
        head(&mut lines, "Calls that are not answered", theme);
        for call in calls {
            let container = call.container.as_deref().unwrap_or("the sandbox");
            let text = format!("  {} of {container} for {}", call.call, age(call.age));
            let style = match call.is_stuck {
                true => theme.bad(),
                false => Style::new(),
            };
            lines.extend(wrapped(&text, width, style));
        }
    }
    of_events(&mut lines, state, uid, columns, theme);
    lines
}

fn head(lines: &mut Vec<Line<'static>>, text: &'static str, theme: &Theme) {
    lines.push(Line::default());
    lines.push(Line::styled(text, theme.bold()));
}

fn of_pod(lines: &mut Vec<Line<'static>>, state: &State, pod: &Pod, width: u16, theme: &Theme) {
    let condition = state.node.condition(pod);
    // Pods are listed again after an event; until then the list has this age.
    let mut confirmed = match state.node.pods_taken {
        Some(taken) => format!(", listed {} ago", rounded_age(state.now.since(taken))),
        None => String::new(),
    };
    confirmed.push_str(&since(", confirmed at", pod.report.as_of, state.now));
    lines.push(Line::from(vec![
        Span::styled(condition_text(condition, 40), style(condition, theme)),
        Span::raw(format!(", restarted {} times{confirmed}", pod.restarts)),
    ]));
    if let Some(error) = &pod.report.error {
        let text = format!("This is the last known status: {error}");
        lines.extend(wrapped(&text, width, theme.bad()));
    }
    if let Some(waiting) = waiting(&pod.report) {
        let text = format!("It waits: {}: {}", waiting.reason, waiting.message);
        lines.extend(wrapped(&text, width, theme.warning()));
    }
    head(lines, "Sandboxes", theme);
    for sandbox in &pod.report.status.sandboxes {
        let ips: Vec<String> = sandbox.ips.iter().map(ToString::to_string).collect();
        let text = format!(
            "  {} attempt {}, {}{}  {}",
            short(&sandbox.id),
            sandbox.attempt,
            sandbox.state.as_str(),
            since(" since", sandbox.created_at, state.now),
            ips.join(" ")
        );
        lines.extend(wrapped(&text, width, Style::new()));
    }
    head(lines, "Containers", theme);
    for container in &pod.report.status.containers {
        let style = match (container.state, container.exit_code) {
            (ContainerState::Running, _) => theme.good(),
            (ContainerState::Exited, Some(0)) => theme.dim(),
            (ContainerState::Exited, _) => theme.bad(),
            (ContainerState::Created | ContainerState::Unknown, _) => theme.warning(),
        };
        lines.extend(wrapped(&of_container(container, state.now), width, style));
    }
}

fn of_container(container: &ContainerStatus, now: WallTime) -> String {
    let mut text = format!(
        "  {} attempt {}, {}",
        container.name,
        container.attempt,
        container.state.as_str()
    );
    if let (ContainerState::Exited, Some(code)) = (container.state, container.exit_code) {
        text.push_str(&format!(" with {code}"));
    }
    if let Some(reason) = &container.reason {
        text.push_str(&format!(" ({reason})"));
    }
    text.push_str(&since(", started", container.started_at, now));
    text.push_str(&since(", ended", container.finished_at, now));
    text.push_str(&format!("  {}  {}", short(&container.id), container.image));
    text
}

fn since(word: &str, time: Option<WallTime>, now: WallTime) -> String {
    match time {
        Some(time) => format!("{word} {}", precise_clock_at(time, now)),
        None => String::new(),
    }
}

fn of_events(
    lines: &mut Vec<Line<'static>>,
    state: &State,
    uid: &PodUid,
    columns: usize,
    theme: &Theme,
) {
    head(lines, "Events, newest first", theme);
    let before = lines.len();
    let clock = event_clock(state, true);
    for entry in state.node.events.iter().rev() {
        let container = match &entry.happened {
            Happened::Event { event, .. } if event.pod.uid == *uid => {
                event.container.as_deref().unwrap_or("(sandbox)")
            }
            _ => continue,
        };
        let (what, _, detail, style) = cells(&entry.happened, theme);
        let time = clock(entry.happened.time());
        let rest = format!("{}  {detail}", printable(container, 20));
        let room = columns.saturating_sub(22 + time.len());
        let rest = fit(&pleg_text::escape::sentence(&rest), room);
        lines.push(Line::from(vec![
            Span::styled(format!("  {time}  "), theme.dim()),
            Span::styled(format!("{what:<16}  "), style),
            Span::raw(rest),
        ]));
    }
    if lines.len() == before {
        lines.push(Line::styled("  none is known", theme.dim()));
    }
}
