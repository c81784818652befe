//! The lines of `pleg watch`.

use std::time::Duration;

use cri::Endpoint;
use pleg::model::event::{Event, EventType};
use pleg::out::health::{HealthReport, short};
use pleg::out::record::Record;
use pleg::out::status_report::StatusReport;
use pleg::out::words::counted;
use pleg::records::diff::Subject;
use pleg::runtime::RuntimeVersion;
use pleg_text::GoDuration;

use super::{BAD, BOLD, DIM, GOOD, WARN, clock, fit, health_style, printable, sentence, styled};

/// A terminal that is narrower than this has no column for the id, and shows pod and
/// container in one column.
const WIDE: usize = 110;

/// The width of the time and the event, by which continuation lines are indented.
const INDENT: usize = 32;

/// The header: the runtime that is watched, and the names of the columns.
pub fn header(
    version: Option<&RuntimeVersion>,
    endpoint: &Endpoint,
    period: Duration,
    width: Option<usize>,
) -> String {
    let name = match version {
        Some(version) => printable(&version.to_string()).into_owned(),
        None => "unidentified runtime".to_owned(),
    };
    let how = format!("relisting every {}", GoDuration(period));
    with_columns(&format!("{name} at {endpoint}, {how}"), width)
}

/// The header for an agent's events: the runtime that the agent watches, and the names of the columns.
pub fn agent_header(status: &StatusReport, width: Option<usize>) -> String {
    let runtime = &status.runtime;
    let name = match (&runtime.name, &runtime.version) {
        (Some(name), Some(version)) => printable(&format!("{name} {version}")).into_owned(),
        _ => "unidentified runtime".to_owned(),
    };
    let what = format!("{name} at {}, via the agent", runtime.endpoint);
    with_columns(&what, width)
}

fn with_columns(what: &str, width: Option<usize>) -> String {
    let what = fit(&format!("{}\n", styled(BOLD, what)), 0, width);
    format!("{what}{}", columns(width))
}

/// The names of the columns, for a terminal of this width, or a pipe.
pub fn columns(width: Option<usize>) -> String {
    let columns = match is_wide(width) {
        true => wide_row("TIME (UTC)", "EVENT", "POD", "CONTAINER", "ID", ""),
        false => narrow_row("TIME (UTC)", "EVENT", "POD/CONTAINER", ""),
    };
    format!("{}\n", styled(DIM, columns))
}

fn is_wide(width: Option<usize>) -> bool {
    width.is_none_or(|width| width >= WIDE)
}

fn wide_row(time: &str, event: &str, pod: &str, container: &str, id: &str, detail: &str) -> String {
    let row = format!("{time:<12}  {event:<16}  {pod:<28}  {container:<16}  {id:<13}  {detail}");
    row.trim_end().to_owned()
}

fn narrow_row(time: &str, event: &str, subject: &str, detail: &str) -> String {
    let row = format!("{time:<12}  {event:<16}  {subject:<26}  {detail}");
    row.trim_end().to_owned()
}

/// The text of a record, for a terminal of this width, or a pipe.
pub fn line(record: &Record, width: Option<usize>) -> String {
    let line = match record {
        Record::Event(event) => event_line(event, is_wide(width)),
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
    fit(&(line + "\n"), INDENT, width)
}

fn event_line(event: &Event, is_wide: bool) -> String {
    let pod = event.pod.to_string();
    let is_sandbox = matches!(event.subject, Some(Subject::Sandbox));
    let container = match event.container.as_deref() {
        _ if is_sandbox => "(sandbox)",
        container => container.unwrap_or_default(),
    };
    let (pod, container) = (printable(&pod), printable(container));
    let (time, name) = (clock(event.time), event.event_type.as_str());
    let line = if is_wide {
        let id = event.id.as_ref().map(short).unwrap_or_default();
        let id = printable(id);
        wide_row(&time, name, &pod, &container, &id, &detail(event))
    } else {
        let subject = match container.is_empty() {
            true => pod.into_owned(),
            false if is_sandbox => format!("{pod} {container}"),
            false => format!("{pod}/{container}"),
        };
        narrow_row(&time, name, &subject, &detail(event))
    };
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The lines of a record on a terminal of this width, without colours.
    fn shown(record: serde_json::Value, width: Option<usize>) -> Vec<String> {
        let record = serde_json::from_value(record).unwrap();
        let shown = line(&record, width);
        let shown = anstream::adapter::strip_str(&shown).to_string();
        shown.lines().map(str::to_owned).collect()
    }

    fn died(pod: &str, container: &str) -> serde_json::Value {
        json!({
            "kind": "event", "time": "2026-01-02T03:04:05.678Z", "type": "ContainerDied",
            "pod": {"uid": "u", "namespace": "default", "name": pod},
            "id": "0123456789abcdef", "subject": "container", "container": container,
            "exitCode": 137, "reason": "OOMKilled", "initial": false, "source": "kernel",
        })
    }

    #[test]
    fn no_line_is_wider_than_the_terminal() {
        let long = died(&"web-".repeat(15), &"app-".repeat(15));
        let health = json!({
            "kind": "health", "time": "2026-01-02T03:04:05Z", "state": "Degraded",
            "reason": "ContainerStuck", "message": "word ".repeat(60), "stuck": [],
            "failing": [], "blind": [],
        });
        let gap = json!({
            "kind": "gap", "time": "2026-01-02T03:04:05Z", "conflated": 1234567, "all": true,
            "pods": [],
        });
        for width in [80, 109, 110, 200] {
            for record in [
                died("web", "app"),
                long.clone(),
                health.clone(),
                gap.clone(),
            ] {
                for line in shown(record, Some(width)) {
                    assert!(line.chars().count() <= width, "{width}: {line}");
                }
            }
            let columns = columns(Some(width));
            assert!(anstream::adapter::strip_str(&columns).to_string().len() <= width);
        }
    }

    #[test]
    fn a_record_is_one_line_on_a_pipe_and_a_wide_terminal() {
        let wide = "03:04:05.678  ContainerDied     default/web                   app               \
                    0123456789abc  exit 137 (OOMKilled), by kernel";
        assert_eq!(shown(died("web", "app"), None), [wide]);
        assert_eq!(shown(died("web", "app"), Some(130)), [wide]);
        assert_eq!(
            shown(died("web", "app"), Some(80)),
            [
                "03:04:05.678  ContainerDied     default/web/app             exit 137",
                "                                (OOMKilled), by kernel",
            ]
        );
    }
}
