//! Processes, as `/proc` shows them.

use std::fs::{self, File};
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, StatVfsMountFlags, open, seek, statvfs};

use base::host::{ProcessStat, RuncCommand};

use super::scan::{CommandLine, LiveProcess, Processes};

/// Where runc keeps its records if its command line does not name another directory.
const DEFAULT_ROOT: &str = "/run/runc";

/// Bytes of the directory that are read at once: about forty processes.
const BUFFER: usize = 1024;

/// Bytes of a file that are read: the verb and the container of a runc are at the beginning of its command
/// line.
const MAX_READ: usize = 4096;

pub(super) struct Proc {
    root: PathBuf,
    /// The position of a process in the directory, minus its PID. It is the same for all processes
    /// (`proc_pid_readdir`), and is computed from two neighbours.
    offset: Option<u64>,
}

impl Proc {
    pub(super) fn at(root: PathBuf) -> Self {
        Self { root, offset: None }
    }

    /// The PIDs in this range. The directory is in the order of PIDs, so only this range is read.
    fn read_pids(&mut self, range: &RangeInclusive<u32>) -> io::Result<Vec<u32>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(&self.root, flags, Mode::empty())?;
        if let Some(offset) = self.offset.filter(|_| *range.start() > 1) {
            let place = offset + u64::from(*range.start());
            seek(&directory, SeekFrom::Start(place))?;
        }
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut entries = RawDir::new(&directory, &mut buffer);
        let mut pids = Vec::new();
        let mut place = None;
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_str().ok();
            let Some(pid) = name.and_then(|name| name.parse().ok()) else {
                continue;
            };
            if let (None, Some(place)) = (self.offset, place) {
                self.offset = u64::checked_sub(place, u64::from(pid));
            }
            if pid > *range.end() {
                break;
            }
            place = Some(entry.next_entry_cookie());
            if range.contains(&pid) {
                pids.push(pid);
            }
        }
        Ok(pids)
    }

    /// The beginning of a file of a process. The kernel returns it in one piece, so one call is enough.
    fn read(&self, pid: u32, file: &str) -> Option<String> {
        let path = self.root.join(format!("{pid}/{file}"));
        let mut buffer = [0; MAX_READ];
        let length = File::open(path).ok()?.read(&mut buffer).ok()?;
        Some(String::from_utf8_lossy(&buffer[..length]).into_owned())
    }
}

impl Processes for Proc {
    /// The last field of `/proc/loadavg`: `0.10 0.20 0.30 1/380 27214`.
    fn newest(&self) -> Option<u32> {
        let load = fs::read_to_string(self.root.join("loadavg")).ok()?;
        load.split_ascii_whitespace().next_back()?.parse().ok()
    }

    fn pids(&mut self, range: RangeInclusive<u32>) -> Vec<u32> {
        self.read_pids(&range).unwrap_or_default()
    }

    fn live_process(&self, pid: u32) -> Option<LiveProcess> {
        live_process(&self.read(pid, "stat")?)
    }

    fn command_line(&self, pid: u32) -> Option<CommandLine> {
        let line = self.read(pid, "cmdline")?;
        let mut arguments = line
            .split('\0')
            .skip_while(|argument| *argument != "--root");
        Some(CommandLine {
            command: RuncCommand::parse(&line)?,
            root: arguments.nth(1).unwrap_or(DEFAULT_ROOT).into(),
        })
    }

    fn may_exist(&self, directory: &Path) -> bool {
        directory.try_exists().unwrap_or(true)
    }

    fn is_full(&self, directory: &Path) -> bool {
        let Ok(found) = statvfs(directory) else {
            return false;
        };
        let is_read_only = found.f_flag.contains(StatVfsMountFlags::RDONLY);
        let no_space = found.f_blocks > 0 && found.f_bavail == 0;
        let no_inodes = found.f_files > 0 && found.f_favail == 0;
        !is_read_only && (no_space || no_inodes)
    }

    fn uptime(&self) -> Duration {
        let uptime = fs::read_to_string(self.root.join("uptime")).unwrap_or_default();
        let seconds = uptime.split_ascii_whitespace().next();
        let seconds = seconds.and_then(|seconds| seconds.parse().ok());
        Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or_default()
    }
}

fn live_process(stat: &str) -> Option<LiveProcess> {
    let stat = ProcessStat::parse(stat)?;
    let started = stat.start as f64 / rustix::param::clock_ticks_per_second() as f64;
    (!stat.has_ended()).then_some(LiveProcess {
        parent: stat.ppid,
        started: Duration::try_from_secs_f64(started).ok()?,
        is_stopped: matches!(stat.state, 'T' | 't'),
        is_ending: stat.is_ending(),
        child_faults: stat.child_faults,
        name: stat.comm,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parent_and_the_start_of_a_process_are_read_until_it_has_ended() {
        let stat = |state: char| {
            format!("77 (a) R 1 (b)) {state} 12 7 7 0 -1 0 0 0 0 0 1 1 0 0 20 0 1 0 9900 1 2")
        };
        let alive = live_process(&stat('D')).unwrap();
        assert_eq!((alive.parent, alive.started.as_secs()), (12, 99));
        assert_eq!(live_process(&stat('Z')), None);
        assert_eq!(live_process("77 (runc"), None);
    }

    #[test]
    fn this_process_is_read_as_it_is() {
        let proc = Proc::at("/proc".into());
        let this = std::process::id();
        let live = proc.live_process(this).unwrap();
        assert_eq!(live.parent, std::os::unix::process::parent_id());
        assert!(live.started <= proc.uptime());
        assert!(!live.is_stopped && !live.is_ending && !live.name.is_empty());
        let ended = std::process::Command::new("true").status();
        assert!(ended.is_ok_and(|status| status.success()));
        let later = proc.live_process(this).unwrap();
        assert!(later.child_faults > live.child_faults, "{later:?}");
    }

    #[test]
    fn a_range_of_pids_is_read_as_it_is_among_all() {
        let mut proc = Proc::at("/proc".into());
        let this = std::process::id();
        let all = proc.pids(1..=u32::MAX);
        assert!(all.contains(&this) && all.is_sorted() && proc.offset.is_some());
        // Other processes start and end meanwhile, but none gets a PID that is in use.
        for (start, end) in [(1, this), (this, this), (this, u32::MAX), (2, this)] {
            let part = proc.pids(start..=end);
            assert!(part.contains(&this), "{start} to {end}: {part:?}");
            assert!(part.iter().all(|pid| (start..=end).contains(pid)));
        }
        assert!(!proc.pids(this + 1..=u32::MAX).contains(&this));
        assert!(!proc.pids(1..=this - 1).contains(&this));
        assert!(proc.newest().is_some_and(|newest| newest > 1));
    }

    #[test]
    fn the_command_of_a_runc_and_the_directory_of_its_records_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let proc = Proc::at(folder.path().into());
        for (command, expected) in [
            (
                "runc --root /run/x/runc delete --force c 1",
                Some(("delete", "/run/x/runc")),
            ),
            ("runc exec --process x 12", Some(("exec", DEFAULT_ROOT))),
            ("", None),
        ] {
            let process = folder.path().join("12");
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("cmdline"), command.replace(' ', "\0")).unwrap();
            let line = proc.command_line(12);
            let read = line
                .as_ref()
                .map(|line| (&*line.command.verb, line.root.to_str().unwrap()));
            assert_eq!(read, expected, "{command}");
        }
    }
}
