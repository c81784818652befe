//! The lines of `pleg run`.

use ::static_pods::worker::{Kind, Line};

use crate::text::{BAD, DIM, GOOD, WARN, clock, printable, sentence, styled};

/// The names of the columns.
pub fn columns() -> String {
    let columns = row("TIME (UTC)", "ACTION", "POD", "CONTAINER", "WHY");
    format!("{}\n", styled(DIM, columns))
}

fn row(time: &str, action: &str, pod: &str, container: &str, why: &str) -> String {
    let row = format!("{time:<12}  {action:<20}  {pod:<24}  {container:<12}  {why}");
    row.trim_end().to_owned()
}

/// The text of a decision.
pub fn line(line: &Line) -> String {
    let pod = line.pod.as_ref().map(|pod| pod.to_string());
    let pod = pod.unwrap_or_default();
    let container = line.container.as_deref().unwrap_or_default();
    let mut lines = line.why.lines();
    let first = lines.next().unwrap_or_default();
    let mut text = row(
        &clock(line.time),
        line.action,
        &printable(&pod),
        &printable(container),
        &sentence(first),
    );
    // A manifest may have several mistakes, one per line.
    for more in lines {
        text += &format!("\n{:14}{}", "", sentence(more));
    }
    let text = match (line.kind, line.action) {
        (Kind::Pod, "Ready") | (Kind::Probe, "Ready" | "Started") => styled(GOOD, text),
        (Kind::Manifest, "Refuse") | (Kind::Pod, "Failed") => styled(BAD, text),
        (Kind::Wait, _) | (_, "NotReady" | "Unhealthy") => styled(WARN, text),
        _ => text,
    };
    text + "\n"
}
