//! Commands that runtimes start and wait for: runcs and CNI plugins. Each has a limit, and is judged
//! once, when the limit has passed.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use base::host::{RUNC_OVERDUE_AFTER, is_shim};

use super::Symptom;
use super::scan::{CommandLine, LiveProcess, Processes, is_daemon};

/// How long a CNI plugin may take. After this time, the doctor is certain.
const PLUGIN_OVERDUE_AFTER: Duration = Duration::from_secs(60);

/// Programs with which containerd unpacks an image, which may take minutes.
const UNPACKERS: [&str; 3] = ["unpigz", "igzip", "pigz"];

#[derive(Debug, Default)]
pub(super) struct Commands {
    commands: Vec<Command>,
    /// The deletions, by container.
    deletions: BTreeMap<String, Deletion>,
}

#[derive(Debug)]
struct Command {
    pid: u32,
    started: Duration,
    limit: Duration,
    /// The container that the command deletes, if it deletes one.
    deletes: Option<String>,
    /// Whether the command is overdue, was started by a runtime, and is not a session. `None` before the
    /// limit has passed; then it is decided once.
    is_overdue: Option<bool>,
}

/// The deletion of a container, by one or more runcs in turn.
#[derive(Debug)]
struct Deletion {
    /// When the first runc was started.
    started: Duration,
    /// runc's records of the container, which a deletion removes.
    records: PathBuf,
    is_overdue: bool,
}

impl Commands {
    /// Forgets the commands that have ended and the deletions that are done. Returns whether there was a
    /// command before.
    pub(super) fn forget_ended(&mut self, processes: &impl Processes) -> bool {
        let had_commands = !self.commands.is_empty();
        self.commands.retain(|command| command.is_alive(processes));
        self.deletions
            .retain(|_, deletion| processes.may_exist(&deletion.records));
        had_commands
    }

    pub(super) fn add_runc(&mut self, pid: u32, started: Duration, processes: &impl Processes) {
        if !self.knows(pid) {
            let deletes = self.deletion_by(pid, started, processes);
            self.commands.push(Command {
                pid,
                started,
                limit: RUNC_OVERDUE_AFTER,
                deletes,
                is_overdue: None,
            });
        }
    }

    /// Adds another process that a daemon has started: usually a CNI plugin.
    pub(super) fn add_helper(&mut self, pid: u32, process: &LiveProcess) {
        if !self.knows(pid) && !UNPACKERS.contains(&&*process.name) {
            self.commands.push(Command {
                pid,
                started: process.started,
                limit: PLUGIN_OVERDUE_AFTER,
                deletes: None,
                is_overdue: None,
            });
        }
    }

    fn knows(&self, pid: u32) -> bool {
        self.commands.iter().any(|command| command.pid == pid)
    }

    /// Judges the commands whose limit has passed. Returns the time until the next limit.
    pub(super) fn judge(&mut self, now: Duration, processes: &impl Processes) -> Duration {
        let mut next = Duration::MAX;
        for command in &mut self.commands {
            let of = command.deletes.as_ref();
            let deletion = of.and_then(|id| self.deletions.get_mut(id));
            let since = deletion.as_ref().map_or(command.started, |it| it.started);
            let left = command.judge(now, since, processes);
            next = next.min(left.unwrap_or(Duration::MAX));
            if let Some(deletion) = deletion {
                deletion.is_overdue |= command.is_overdue == Some(true);
            }
        }
        next
    }

    /// The container that this runc deletes, if it deletes one.
    fn deletion_by(
        &mut self,
        pid: u32,
        started: Duration,
        processes: &impl Processes,
    ) -> Option<String> {
        let CommandLine { command, root } = processes.command_line(pid)?;
        let container = command.container.filter(|_| command.verb == "delete")?;
        let deletion = self.deletions.entry(container.clone());
        deletion.or_insert_with(|| Deletion {
            started,
            records: root.join(&container),
            is_overdue: false,
        });
        Some(container)
    }

    pub(super) fn overdue(&self) -> impl Iterator<Item = Symptom> {
        let is_of_deletion = |command: &&Command| {
            let deletes = command.deletes.as_ref();
            deletes.is_some_and(|id| self.deletions.contains_key(id))
        };
        let commands = self.commands.iter();
        let commands = commands.filter(move |command| !is_of_deletion(command));
        let commands = commands.filter(|command| command.is_overdue == Some(true));
        let commands = commands.map(|command| Symptom::Process {
            pid: command.pid,
            started: command.started,
        });
        let deletions = self.deletions.iter().filter(|(_, it)| it.is_overdue);
        let deletions = deletions.map(|(container, deletion)| Symptom::Deletion {
            container: container.clone(),
            started: deletion.started,
        });
        commands.chain(deletions)
    }
}

impl Command {
    fn is_alive(&self, processes: &impl Processes) -> bool {
        let live = processes.live_process(self.pid);
        live.is_some_and(|live| live.started == self.started)
    }

    /// Decides whether a command that began at `since` is overdue. Before its limit, returns the
    /// remaining time.
    fn judge(
        &mut self,
        now: Duration,
        since: Duration,
        processes: &impl Processes,
    ) -> Option<Duration> {
        if self.is_overdue.is_some() {
            return None;
        }
        let left = self.limit.saturating_sub(now.saturating_sub(since));
        if !left.is_zero() {
            return Some(left);
        }
        let parent = processes.live_process(self.pid).map(|live| live.parent);
        let parent = parent.and_then(|parent| processes.live_process(parent));
        let is_ours = parent.is_some_and(|parent| is_shim(&parent.name) || is_daemon(&parent));
        let line = processes.command_line(self.pid);
        let is_session = line.is_some_and(|line| line.command.is_session());
        self.is_overdue = Some(is_ours && !is_session);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::PERIOD;
    use super::super::world::{DELETION, World};

    #[test]
    fn a_runc_is_overdue_from_its_thirtieth_second_until_it_ends() {
        for start in 1..=PERIOD.as_secs() as u32 {
            let seen = World::node().changes(200, |world, second| match second {
                150 => world.end(200),
                _ if second == start => world.start_runc(200, "kill", 20),
                _ => {}
            });
            let [(found, pids), (ended, none)] = &seen[..] else {
                panic!("{seen:?}");
            };
            assert_eq!(pids, &[200]);
            assert!((30..=31).contains(&(found - start)), "{start}: {found}");
            assert!(none.is_empty() && (150..=165).contains(ended), "{ended}");
        }
    }

    #[test]
    fn sessions_and_runcs_that_no_runtime_started_are_not_overdue() {
        let seen = World::node().changes(120, |world, second| {
            if second == 3 {
                world.start_runc(200, "exec", 30);
                world.start(201, "bash", 20);
                // Started by hand.
                world.start_runc(202, "start", 1);
                world.start(203, "crun", 30);
            }
        });
        assert_eq!(seen, [(33, vec![203])]);
    }

    /// This world does as containerd does: it ends each runc after ten seconds, and starts another one
    /// after a growing pause.
    #[test]
    fn a_deletion_that_is_retried_is_overdue_as_one_command_until_it_is_done() {
        let starts = [3, 15, 28, 43, 61, 87, 129];
        let seen = World::node().changes(400, |world, second| {
            for (pid, start) in (200..).zip(starts) {
                if second == start {
                    world.start_runc(pid, "delete", 20);
                }
                if second == start + 10 {
                    world.end(pid);
                }
            }
            world.is_deleted.set(second >= 350);
        });
        let [(found, named), (done, none)] = &seen[..] else {
            panic!("{seen:?}");
        };
        assert_eq!(named, &[DELETION]);
        assert!((33..=48).contains(found), "{found}");
        assert!(none.is_empty() && (350..=365).contains(done), "{done}");
        let quick = World::node().changes(100, |world, second| match second {
            14 => world.start_runc(200, "delete", 20),
            16 => {
                world.end(200);
                world.is_deleted.set(true);
            }
            _ => {}
        });
        assert_eq!(quick, []);
    }

    #[test]
    fn a_cni_plugin_is_overdue_after_a_minute_and_what_unpacks_an_image_never_is() {
        let seen = World::node().changes(200, |world, second| match second {
            3 => {
                world.start(200, "bridge", 10);
                world.start(201, "unpigz", 10);
                // A shim is started by containerd as well.
                world.start(202, "containerd-shim", 10);
            }
            90 => world.end(200),
            _ => {}
        });
        assert_eq!(seen, [(63, vec![200]), (93, vec![])]);
    }
}
