//! The processes of containers, and their keepers: the shim or conmon that has started a process, and
//! reports its exit.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Symptom;
use super::scan::{LiveProcess, Processes};

/// A symptom that ends sooner is none. A killed process normally ends within milliseconds.
const LASTS: Duration = Duration::from_secs(15);

#[derive(Debug, Default)]
pub(super) struct Containers {
    known: BTreeMap<u32, Known>,
}

#[derive(Debug)]
struct Known {
    started: Duration,
    role: Role,
    /// Since when each reading has shown a symptom.
    since: Option<Duration>,
    has_symptom: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Keeper,
    Kept,
}

impl Containers {
    /// Adds a shim or conmon.
    pub(super) fn add_keeper(&mut self, pid: u32, process: &LiveProcess) {
        self.add(pid, Role::Keeper, process);
    }

    /// Adds a process if a known keeper has started it.
    pub(super) fn add_kept(&mut self, pid: u32, process: &LiveProcess) {
        if self.is_keeper(process.parent) {
            self.add(pid, Role::Kept, process);
        }
    }

    fn add(&mut self, pid: u32, role: Role, process: &LiveProcess) {
        let is_known = |known: &Known| known.started == process.started;
        if !self.known.get(&pid).is_some_and(is_known) {
            let known = Known {
                started: process.started,
                role,
                since: None,
                has_symptom: false,
            };
            self.known.insert(pid, known);
        }
    }

    fn is_keeper(&self, pid: u32) -> bool {
        let known = self.known.get(&pid);
        known.is_some_and(|known| known.role == Role::Keeper)
    }

    /// Reads `all` processes, or those that showed a symptom when they were last read.
    pub(super) fn judge(&mut self, all: bool, now: Duration, processes: &impl Processes) {
        let known = self.known.iter();
        let read = known.filter(|(_, known)| all || known.since.is_some());
        let read: Vec<_> = read
            .map(|(pid, _)| (*pid, processes.live_process(*pid)))
            .collect();
        // First those that have ended: a keeper among them is none any more.
        for (pid, live) in &read {
            let started = live.as_ref().map(|live| live.started);
            if self.known.get(pid).map(|known| known.started) != started {
                self.known.remove(pid);
            }
        }
        for (pid, live) in read {
            let Some((role, live)) = self.known.get(&pid).map(|it| it.role).zip(live) else {
                continue;
            };
            let shows_symptom = match role {
                Role::Keeper => live.is_stopped,
                Role::Kept => live.is_ending || !self.is_keeper(live.parent),
            };
            if let Some(known) = self.known.get_mut(&pid) {
                known.since = shows_symptom.then(|| known.since.unwrap_or(now));
                known.has_symptom = known.since.is_some_and(|since| now >= since + LASTS);
            }
        }
    }

    pub(super) fn symptoms(&self) -> impl Iterator<Item = Symptom> {
        let known = self.known.iter().filter(|(_, known)| known.has_symptom);
        known.map(|(pid, known)| Symptom::Process {
            pid: *pid,
            started: known.started,
        })
    }
}
#[cfg(test)]
mod tests {
    use super::super::world::World;

    /// A container (200) that the shim (20) has started, and one of CRI-O (300) with its conmon (299).
    fn node() -> World {
        let world = World::node();
        for (pid, name, parent) in [
            (200, "app", 20),
            (299, "conmon", 1),
            (300, "app", 299),
            (310, "sshd", 1),
        ] {
            world.start(pid, name, parent);
        }
        world
    }

    /// Makes the change, and returns after how many seconds this process is found.
    fn found(change: impl Fn(&World), pid: u32) -> u32 {
        let seen = node().changes(300, |world, second| match second {
            100 => change(world),
            // A runtime starts a process for each stop.
            102 => world.start(400, "runc", 1),
            103 => world.end(400),
            _ => {}
        });
        let [(found, pids)] = &seen[..] else {
            panic!("{seen:?}");
        };
        assert_eq!(pids, &[pid]);
        found - 100
    }

    #[test]
    fn a_container_that_was_killed_and_lives_on_is_found_within_45_seconds() {
        let after = found(|world| world.change(200, |app| app.is_ending = true), 200);
        assert!((15..=45).contains(&after), "{after}");
    }

    #[test]
    fn a_killed_container_is_found_as_soon_however_long_the_runc_took_that_killed_it() {
        for start in 60..=100 {
            let seen = node().changes(300, |world, second| {
                if second == start {
                    world.start_runc(400, "kill", 1);
                }
                if second == 100 {
                    world.change(200, |app| app.is_ending = true);
                }
                if second == 101 {
                    world.end(400);
                }
            });
            assert!(
                matches!(&seen[..], [(115..=145, pids)] if *pids == [200]),
                "{start}: {seen:?}"
            );
        }
    }

    #[test]
    fn a_container_whose_conmon_has_ended_and_a_stopped_shim_are_found() {
        let orphan = |world: &World| {
            world.end(299);
            world.change(300, |app| app.parent = 1);
        };
        assert!((15..=45).contains(&found(orphan, 300)));
        let stop = |world: &World| world.change(20, |shim| shim.is_stopped = true);
        assert!((15..=45).contains(&found(stop, 20)));
    }

    #[test]
    fn without_any_new_process_all_are_read_within_two_minutes() {
        let seen = node().changes(300, |world, second| {
            if second == 100 {
                world.change(200, |app| app.is_ending = true);
            }
        });
        assert!(matches!(&seen[..], [(115..=235, _)]), "{seen:?}");
    }

    #[test]
    fn what_ends_in_time_or_continues_is_no_symptom_and_one_that_ends_later_is_over() {
        let quick = node().changes(300, |world, second| match second {
            100 => world.change(20, |shim| shim.is_stopped = true),
            101 => world.change(200, |app| app.is_ending = true),
            112 => world.end(200),
            113 => world.change(20, |shim| shim.is_stopped = false),
            _ if second % 2 == 0 => world.start(1000 + second, "probe", 1),
            _ => world.end(999 + second),
        });
        assert_eq!(quick, []);
        let late = node().changes(300, |world, second| match second {
            100 => world.change(200, |app| app.is_ending = true),
            200 => world.end(200),
            _ => {}
        });
        let [(_, found), (over, none)] = &late[..] else {
            panic!("{late:?}");
        };
        assert_eq!(found, &[200]);
        assert!(none.is_empty() && (200..=215).contains(over));
    }

    #[test]
    fn a_pod_that_ends_with_its_shim_is_no_symptom() {
        let seen = node().changes(300, |world, second| {
            if second == 100 {
                world.end(20);
                world.end(200);
            }
        });
        assert_eq!(seen, []);
    }
}
