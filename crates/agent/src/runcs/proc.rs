//! Processes, as `/proc` shows them.

use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, RawDir, SeekFrom, open, seek};

use super::scan::{Life, Processes};

/// The commands of runc that last as long as what they run.
const SESSIONS: [&str; 3] = ["exec", "run", "events"];

/// What is read of the directory at once: some forty processes.
const BUFFER: usize = 1024;

pub(super) struct Proc {
    root: PathBuf,
    /// The place of a process in the directory, less its id, which the kernel has for all the same
    /// (`proc_pid_readdir`); found by the places of two that follow each other.
    offset: Option<u64>,
}

impl Proc {
    pub(super) fn at(root: PathBuf) -> Self {
        Self { root, offset: None }
    }

    /// The ids in this range. They are in order, so reading begins and ends there.
    fn read_ids(&mut self, range: &RangeInclusive<u32>) -> io::Result<Vec<u32>> {
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

    fn read(&self, pid: u32, file: &str) -> Option<String> {
        let path = self.root.join(format!("{pid}/{file}"));
        let bytes = fs::read(path).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }
}

impl Processes for Proc {
    /// From `0.10 0.20 0.30 1/380 27214`.
    fn newest(&self) -> Option<u32> {
        let load = fs::read_to_string(self.root.join("loadavg")).ok()?;
        load.split_ascii_whitespace().next_back()?.parse().ok()
    }

    fn pids(&mut self, range: RangeInclusive<u32>) -> Vec<u32> {
        self.read_ids(&range).unwrap_or_default()
    }

    fn name(&self, pid: u32) -> Option<String> {
        Some(self.read(pid, "comm")?.trim_end().to_owned())
    }

    fn life(&self, pid: u32) -> Option<Life> {
        life(&self.read(pid, "stat")?)
    }

    fn is_session(&self, pid: u32) -> bool {
        let command = self.read(pid, "cmdline").unwrap_or_default();
        let mut arguments = command.split('\0').skip(1);
        arguments.any(|argument| SESSIONS.contains(&argument))
    }

    fn uptime(&self) -> Duration {
        let uptime = fs::read_to_string(self.root.join("uptime")).unwrap_or_default();
        let seconds = uptime.split_ascii_whitespace().next();
        let seconds = seconds.and_then(|seconds| seconds.parse().ok());
        Duration::try_from_secs_f64(seconds.unwrap_or(0.0)).unwrap_or_default()
    }
}

/// `77 (runc) S 12 …`: the name may contain anything, even `) S 1`.
fn life(stat: &str) -> Option<Life> {
    let (_, fields) = stat.rsplit_once(") ")?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let has_ended = matches!(*fields.first()?, "Z" | "X");
    let ticks = fields.get(19)?.parse::<u64>().ok()? as f64;
    let started = ticks / rustix::param::clock_ticks_per_second() as f64;
    (!has_ended).then_some(Life {
        parent: fields.get(1)?.parse().ok()?,
        started: Duration::try_from_secs_f64(started).ok()?,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};
    use std::time::Instant;

    use super::super::scan::{PERIOD, Scan};
    use super::*;

    #[test]
    fn of_a_process_the_parent_and_the_start_are_known_until_it_has_ended() {
        let stat = |state: char| {
            format!("77 (a) R 1 (b)) {state} 12 7 7 0 -1 0 0 0 0 0 1 1 0 0 20 0 3 0 9900 1 2")
        };
        let alive = life(&stat('D')).unwrap();
        assert_eq!((alive.parent, alive.started.as_secs()), (12, 99));
        assert_eq!(life(&stat('Z')), None);
        assert_eq!(life("77 (runc"), None);
    }

    #[test]
    fn this_process_is_read_as_it_is() {
        let proc = Proc::at("/proc".into());
        let this = std::process::id();
        let life = proc.life(this).unwrap();
        assert_eq!(life.parent, std::os::unix::process::parent_id());
        assert!(life.started <= proc.uptime());
        assert!(proc.name(this).is_some() && !proc.is_session(this));
    }

    #[test]
    fn of_the_ids_a_part_is_read_as_it_is_among_all() {
        let mut proc = Proc::at("/proc".into());
        let this = std::process::id();
        let all = proc.pids(1..=u32::MAX);
        assert!(all.contains(&this) && all.is_sorted() && proc.offset.is_some());
        // Others start and end meanwhile, but none gets an id that is used.
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
    fn the_runc_of_a_session_is_known_by_its_command() {
        let folder = tempfile::tempdir().unwrap();
        let proc = Proc::at(folder.path().into());
        for (command, is_session) in [
            ("runc --root /run/runc exec --process x 12", true),
            ("runc --root /run/runc kill 12 9", false),
            ("", false),
        ] {
            let process = folder.path().join("12");
            fs::create_dir_all(&process).unwrap();
            fs::write(process.join("cmdline"), command.replace(' ', "\0")).unwrap();
            assert_eq!(proc.is_session(12), is_session, "{command}");
        }
    }

    /// A measurement: `cargo test --release -p agent --lib -- --ignored --nocapture scan_costs`.
    #[test]
    #[ignore = "starts hundreds of processes"]
    #[expect(clippy::print_stdout, reason = "a measurement")]
    fn what_a_scan_costs() {
        let mut sleepers: Vec<_> = (0..500)
            .map(|_| Command::new("sleep").arg("60").stdin(Stdio::null()).spawn())
            .collect();
        let mut state = (Scan::default(), Proc::at("/proc".into()));
        for _ in 0..2 {
            state.0.look(&mut state.1);
        }
        let before = cpu();
        let began = Instant::now();
        const LOOKS: u32 = 1000;
        for _ in 0..LOOKS {
            let look = move || {
                state.0.look(&mut state.1);
                state
            };
            state = std::thread::spawn(look).join().unwrap();
        }
        let (used, took) = (cpu() - before, began.elapsed());
        // 0.02 ms a second.
        assert!(used / LOOKS < PERIOD / 50_000, "{used:?}");
        println!(
            "{} processes: {:?} of CPU and {:?} for each look",
            state.1.pids(1..=u32::MAX).len(),
            used / LOOKS,
            took / LOOKS
        );
        for sleeper in sleepers.iter_mut().flatten() {
            sleeper.kill().unwrap();
            sleeper.wait().unwrap();
        }
    }

    /// The CPU time of this process.
    fn cpu() -> Duration {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
}
