//! The lines of `pleg watch`.

use std::time::Duration;

use cri::Endpoint;
use pleg::model::event::{Event, EventType};
use pleg::out::health::{HealthReport, short};
use pleg::out::status_report::StatusReport;
use pleg::out::told::Record;
use pleg::out::words::counted;
use pleg::records::diff::Subject;
use pleg::runtime::RuntimeVersion;
use pleg_text::GoDuration;

use super::{BAD, BOLD, DIM, GOOD, WARN, clock, health_style, printable, sentence, styled};

/// What is watched, and what the columns mean.
pub fn header(version: Option<&RuntimeVersion>, endpoint: &Endpoint, period: Duration) -> String {
    let who = match version {
        Some(version) => printable(&version.to_string()).into_owned(),
        None => "unidentified runtime".to_owned(),
    };
    let how = format!("relisting every {}", GoDuration(period));
    with_columns(&format!("{who} at {endpoint}, {how}"))
}

/// The same where an agent reports.
pub fn agent_header(status: &StatusReport) -> String {
    let runtime = &status.runtime;
    let who = match (&runtime.name, &runtime.version) {
        (Some(name), Some(version)) => printable(&format!("{name} {version}")).into_owned(),
        _ => "unidentified runtime".to_owned(),
    };
    with_columns(&format!("{who} at {}, via the agent", runtime.endpoint))
}

fn with_columns(what: &str) -> String {
    format!("{}\n{}", styled(BOLD, what), columns())
}

/// What the columns mean.
pub fn columns() -> String {
    let columns = row("TIME (UTC)", "EVENT", "POD", "CONTAINER", "ID", "");
    format!("{}\n", styled(DIM, columns))
}

fn row(time: &str, event: &str, pod: &str, container: &str, id: &str, detail: &str) -> String {
    let row = format!("{time:<12}  {event:<16}  {pod:<28}  {container:<16}  {id:<13}  {detail}");
    row.trim_end().to_owned()
}

/// A record as it is shown.
pub fn line(record: &Record) -> String {
    let line = match record {
        Record::Event(event) => event_line(event),
        Record::Synced {
            time,
            pods,
            containers,
        } => {
            let what = format!(
                "{}  synced: {}, {}",
                clock(*time),
                counted(*pods, "pod"),
                counted(*containers, "container")
            );
            styled(DIM, what)
        }
        Record::Health(health) => health_line(health),
        Record::Gap {
            time,
            conflated,
            pods,
            all,
        } => {
            let of = match all {
                true => "many pods".to_owned(),
                false => counted(pods.len(), "pod"),
            };
            let what =
                format!("{conflated} events of {of} were merged; the current state of these pods:");
            styled(WARN, format!("{}  {what}", clock(*time)))
        }
    };
    line + "\n"
}

fn event_line(event: &Event) -> String {
    let pod = event.pod.to_string();
    let container = match event.subject {
        Some(Subject::Sandbox) => "(sandbox)",
        _ => event.container.as_deref().unwrap_or_default(),
    };
    let id = event.id.as_ref().map(short).unwrap_or_default();
    let line = row(
        &clock(event.time),
        event.event_type.as_str(),
        &printable(&pod),
        &printable(container),
        &printable(id),
        &detail(event),
    );
    let style = match event.event_type {
        _ if event.initial => DIM,
        EventType::ContainerStarted => GOOD,
        EventType::ContainerDied if event.exit_code.is_some_and(|code| code != 0) => BAD,
        EventType::ContainerDied => WARN,
        EventType::ContainerRemoved | EventType::PodSync => anstyle::Style::new(),
    };
    styled(style, line)
}

fn detail(event: &Event) -> String {
    let mut details = Vec::new();
    if let Some(code) = event.exit_code {
        let reason = event.reason.as_deref().map(printable);
        details.push(match reason {
            Some(reason) => format!("exit {code} ({reason})"),
            None => format!("exit {code}"),
        });
    }
    if event.initial {
        details.push("initial".to_owned());
    } else {
        details.push(format!("by {}", event.source.as_str()));
    }
    details.join(", ")
}

fn health_line(health: &HealthReport) -> String {
    let message = sentence(&health.message);
    let what = format!("{}  {}: {message}", clock(health.time), health.state);
    styled(health_style(health.state), what)
}
