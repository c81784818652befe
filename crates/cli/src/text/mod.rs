//! Text for people: aligned, few colours, and everything escaped that could control a terminal.

use std::path::Path;

use anstyle::{AnsiColor, Style};
use comfy_table::{Table, presets};
use pleg::model::wall_time::WallTime;
use pleg::out::health::HealthState;

pub mod analyze;
pub mod doctor;
mod finding;
pub mod fleet;
pub mod npd;
pub mod pods;
pub mod status;
pub mod watch;

mod wrap;
pub use pleg_text::escape::{printable, sentence};
pub use wrap::{fit, terminal_columns, wrap};

pub const DIM: Style = Style::new().dimmed();
pub const BOLD: Style = Style::new().bold();
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const WARN: Style = AnsiColor::Yellow.on_default();
pub const BAD: Style = AnsiColor::Red.on_default();

/// The colour of a state of health.
pub fn health_style(state: HealthState) -> Style {
    match state {
        HealthState::Healthy => GOOD,
        HealthState::Starting | HealthState::Degraded => WARN,
        HealthState::Unhealthy => BAD,
    }
}

/// A table without lines, its columns two spaces apart.
pub fn aligned(mut table: Table) -> String {
    table.load_style(presets::NOTHING);
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
    lines.collect()
}

/// The time of day in UTC, to the millisecond.
pub fn clock(time: WallTime) -> String {
    time.timestamp().strftime("%H:%M:%S%.3f").to_string()
}

/// The state of a guard without confirmed records.
const NOT_CONFIRMED: &str =
    "refuses lists: they are overdue, and not everything in them is known and confirmed";

/// The state of a guard before its first answer during a fault.
const NOT_ANSWERED_YET: &str =
    "lists are overdue, and none has been answered in place of the runtime yet";

/// The state of a guard that has guarded one fault for as long as it may.
const LIMIT_REACHED: &str =
    "the time limit for guarding one fault is reached: all calls pass through";

/// The state of a guard that does not respond.
const UNRESPONSIVE: &str = "does not respond: a kubelet behind it is not answered";

/// The state of a guard in front of an unresponsive runtime.
const NOTHING_TO_ANSWER_FROM: &str = "cannot answer lists: the runtime answers no call";

/// A path on one line, escaped and shortened like a name.
pub fn printable_path(path: &Path) -> String {
    printable(&path.to_string_lossy()).into_owned()
}

/// The text in a style.
pub fn styled(style: Style, text: impl std::fmt::Display) -> String {
    format!("{style}{text}{style:#}")
}
