//! Which command's output it is.

use super::cgroups::Cgroups;
use super::io::Io;
use super::load::Load;
use super::memory::Memory;
use super::pressure::Pressure;
use super::{
    Seen, bus, cgroups, cluster, conditions, disk, event_rows, freezer, io, load, process, runtime,
    unit,
};
use crate::kind::Kind;

/// The output of a command, with what its next lines need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Form {
    /// `kubectl describe`.
    Describe,
    /// `kubectl get events`.
    Events,
    /// `kubectl get` of anything else, and the kubelet's health.
    Cluster,
    /// `crictl`, `ctr`, `docker`.
    Runtime,
    /// `systemctl status`.
    Unit,
    /// `top`.
    Load(Load),
    /// `iostat`, `vmstat`.
    Io(Io),
    /// `df`, of bytes or of inodes.
    Disk,
    /// `free`.
    Memory(Memory),
    /// `/proc/cgroups`, `cgroup.stat`.
    Cgroups(Cgroups),
    /// `/proc/pressure`.
    Pressure(Pressure),
    /// The states of the freezer.
    Freezer,
    /// `/proc/PID/status`.
    Process,
    /// `busctl`, `dbus-send`, `dbus-monitor`.
    Bus,
    /// The same of a user's own bus, which neither the kubelet nor a runtime uses.
    SessionBus,
    /// Any other command.
    Other,
}

impl Form {
    /// The kind of an input that is such output.
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Describe => Kind::KubectlDescribe,
            Self::Events => Kind::KubectlEvents,
            _ => Kind::ToolOutput,
        }
    }

    /// Whether lines of logs are a part of it.
    pub(super) fn has_log_lines(self) -> bool {
        matches!(
            self,
            Self::Unit | Self::Runtime | Self::Bus | Self::Cluster | Self::Other
        )
    }

    /// The form that only this line can begin, or continue where a prompt is missing.
    pub(super) fn of_line(text: &str, whole: &str, now: Option<Self>) -> Option<Self> {
        let words: Vec<&str> = text.split_ascii_whitespace().take(32).collect();
        if process::name(whole).is_some() {
            return Some(Self::Process);
        }
        if now == Some(Self::Process) {
            return None;
        }
        if unit::begins(text).is_some() {
            return Some(Self::Unit);
        }
        // The header of the processes belongs to the head above it.
        let is_in_load = matches!(now, Some(Self::Load(_)));
        if load::begins(text, &words) && (!is_in_load || text.starts_with("top - ")) {
            return Some(Self::Load(Load::default()));
        }
        if is_in_load {
            return None;
        }
        if event_rows::is_described(&words) {
            return Some(Self::Describe);
        }
        if event_rows::begins(&words) {
            let in_describe = now == Some(Self::Describe) && !event_rows::is_header(&words);
            return Some(if in_describe {
                Self::Describe
            } else {
                Self::Events
            });
        }
        if conditions::begins(text, &words) {
            return Some(Self::Describe);
        }
        if now == Some(Self::Describe) {
            return None;
        }
        if io::begins(&words) && !matches!(now, Some(Self::Io(_))) {
            return Some(Self::Io(Io::default()));
        }
        if matches!(now, Some(Self::Io(_))) {
            return None;
        }
        if let Some(pressure) = Pressure::begins(text) {
            return Some(Self::Pressure(pressure));
        }
        if cgroups::begins(&words) {
            return Some(Self::Cgroups(Cgroups::default()));
        }
        if freezer::begins(text) {
            return Some(Self::Freezer);
        }
        if disk::begins(&words) {
            return Some(Self::Disk);
        }
        if Memory::begins(&words) {
            return Some(Self::Memory(Memory::default()));
        }
        if runtime::begins(&words) {
            return Some(Self::Runtime);
        }
        if bus::begins(text) && now != Some(Self::SessionBus) {
            return Some(Self::Bus);
        }
        if cluster::begins(text, &words) {
            return Some(Self::Cluster);
        }
        None
    }

    /// Reads a line of the output.
    pub(super) fn read(&mut self, text: &str, line: u64, seen: &mut Seen) {
        match self {
            Self::Describe => {
                if !conditions::read(text, line, seen) {
                    event_rows::read(text, line, seen);
                }
            }
            Self::Events => event_rows::read(text, line, seen),
            Self::Cluster => cluster::read(text, line, seen),
            Self::Runtime => runtime::read(text, line, seen),
            Self::Unit => unit::read(text, line, seen),
            Self::Load(load) => load.read(text, line, seen),
            Self::Io(io) => io.read(text, line, seen),
            Self::Cgroups(cgroups) => cgroups.read(text, line, seen),
            Self::Pressure(pressure) => pressure.read(text, line, seen),
            Self::Freezer => freezer::read(text, line, seen),
            Self::Disk => disk::read(text, line, seen),
            Self::Memory(memory) => memory.read(text, line, seen),
            Self::Process => process::read(text, line, seen),
            Self::Bus => {
                seen.command_line("bus", text, line);
            }
            Self::SessionBus | Self::Other => {}
        }
    }
}
