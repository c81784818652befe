//! Determines which command's output the lines are.

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

/// The output of a command, with the state that is needed to read its next lines.
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
    /// The freezer states of control groups.
    Freezer,
    /// `/proc/PID/status`.
    Process,
    /// `busctl`, `dbus-send`, `dbus-monitor`.
    Bus,
    /// `busctl` on the bus of a user, which neither the kubelet nor a runtime uses.
    SessionBus,
    /// Any other command.
    Other,
}

impl Form {
    pub(super) fn kind(self) -> Kind {
        match self {
            Self::Describe => Kind::KubectlDescribe,
            Self::Events => Kind::KubectlEvents,
            _ => Kind::ToolOutput,
        }
    }

    pub(super) fn has_log_lines(self) -> bool {
        matches!(
            self,
            Self::Unit | Self::Runtime | Self::Bus | Self::Cluster | Self::Other
        )
    }

    /// The form of output that the line itself begins or continues, even if a prompt is missing.
    pub(super) fn of_line(text: &str, whole: &str, now: Option<Self>) -> Option<Self> {
        let words: &[&str] = &text.split_ascii_whitespace().take(32).collect::<Vec<_>>();
        match now {
            _ if process::name(whole).is_some() => Some(Self::Process),
            Some(Self::Process) => None,
            _ if unit::begins(text).is_some() => Some(Self::Unit),
            // The header of the processes belongs to the summary above it.
            Some(Self::Load(_)) if !text.starts_with("top - ") => None,
            _ if load::begins(text, words) => Some(Self::Load(Load::default())),
            Some(Self::Load(_)) => None,
            _ if event_rows::is_described(words) => Some(Self::Describe),
            Some(Self::Describe) if event_rows::is_row(words) => now,
            _ if event_rows::begins(words) => Some(Self::Events),
            _ if conditions::begins(text, words) => Some(Self::Describe),
            Some(Self::Describe | Self::Io(_)) => None,
            _ if io::begins(words) => Some(Self::Io(Io::default())),
            _ if cgroups::begins(words) => Some(Self::Cgroups(Cgroups::default())),
            _ if freezer::begins(text) => Some(Self::Freezer),
            _ if disk::begins(words) => Some(Self::Disk),
            _ if Memory::begins(words) => Some(Self::Memory(Memory::default())),
            _ if runtime::begins(words) => Some(Self::Runtime),
            _ if bus::begins(text) && now != Some(Self::SessionBus) => Some(Self::Bus),
            _ if cluster::begins(text, words) => Some(Self::Cluster),
            _ => Pressure::begins(text).map(Self::Pressure),
        }
    }

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
