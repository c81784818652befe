//! The processes of containers, and their keepers. A keeper is the shim or conmon that has started a
//! process, and reports its exit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Symptom;
use super::scan::{LiveProcess, Processes};

/// How long a process must show a symptom until it counts as one. A killed process normally ends within
/// milliseconds.
const MIN_DURATION: Duration = Duration::from_secs(15);

/// Which processes are read, in addition to those that showed a symptom when they were last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Extent {
    /// No others.
    #[default]
    Symptoms,
    /// All keepers, and the containers that may have been stopped since their keeper was last read.
    Keepers,
    /// All keepers and all processes of containers.
    All,
}

#[derive(Debug, Default)]
pub(super) struct Containers {
    keepers: BTreeMap<u32, Keeper>,
    kept: BTreeMap<u32, Kept>,
}

#[derive(Debug)]
struct Keeper {
    readings: Readings,
    /// The page faults of the children for which a shim has waited. They grow when it stops a container,
    /// because it waits for the runc that does this. `None` for a conmon, which does not show when it
    /// stops its container.
    child_faults: Option<u64>,
}

#[derive(Debug)]
struct Kept {
    readings: Readings,
    keeper: u32,
}

/// What the readings of a process have shown.
#[derive(Debug)]
struct Readings {
    started: Duration,
    /// The first of the latest consecutive readings that have all shown a symptom.
    since: Option<Duration>,
    has_symptom: bool,
}

impl Containers {
    /// Adds a shim or conmon.
    pub(super) fn add_keeper(&mut self, pid: u32, process: &LiveProcess, now: Duration) {
        let known = self.keepers.get(&pid);
        if known.is_none_or(|known| known.readings.started != process.started) {
            let keeper = Keeper {
                readings: Readings::new(process, process.is_stopped, now),
                child_faults: child_faults(process),
            };
            self.keepers.insert(pid, keeper);
        }
    }

    /// Adds a process if a known keeper has started it.
    pub(super) fn add_kept(&mut self, pid: u32, process: &LiveProcess, now: Duration) {
        let known = self.kept.get(&pid);
        if self.keepers.contains_key(&process.parent)
            && known.is_none_or(|known| known.readings.started != process.started)
        {
            let kept = Kept {
                readings: Readings::new(process, process.is_ending, now),
                keeper: process.parent,
            };
            self.kept.insert(pid, kept);
        }
    }

    pub(super) fn judge(&mut self, extent: Extent, now: Duration, processes: &impl Processes) {
        let mut may_have_stopped = BTreeSet::new();
        self.keepers.retain(|pid, keeper| {
            if extent < Extent::Keepers && keeper.readings.since.is_none() {
                return true;
            }
            let Some(live) = keeper.readings.read(*pid, processes) else {
                return false;
            };
            keeper.readings.add(live.is_stopped, now);
            let child_faults = child_faults(&live);
            if child_faults.is_none() || child_faults != keeper.child_faults {
                may_have_stopped.insert(*pid);
            }
            keeper.child_faults = child_faults;
            true
        });
        self.kept.retain(|pid, kept| {
            let has_keeper = |pid: &u32| self.keepers.contains_key(pid);
            let is_read = extent == Extent::All
                || kept.readings.since.is_some()
                || may_have_stopped.contains(&kept.keeper)
                || !has_keeper(&kept.keeper);
            if !is_read {
                return true;
            }
            let live = kept.readings.read(*pid, processes);
            if let Some(live) = &live {
                let shows_symptom = live.is_ending || !has_keeper(&live.parent);
                kept.readings.add(shows_symptom, now);
            }
            live.is_some()
        });
    }

    pub(super) fn symptoms(&self) -> impl Iterator<Item = Symptom> {
        let keepers = self.keepers.iter().map(|(pid, it)| (pid, &it.readings));
        let kept = self.kept.iter().map(|(pid, it)| (pid, &it.readings));
        let all = keepers.chain(kept);
        all.filter(|(_, it)| it.has_symptom)
            .map(|(pid, it)| Symptom::Process {
                pid: *pid,
                started: it.started,
            })
    }
}

/// The value for [`Keeper::child_faults`].
fn child_faults(keeper: &LiveProcess) -> Option<u64> {
    (keeper.name != "conmon").then_some(keeper.child_faults)
}

impl Readings {
    fn new(process: &LiveProcess, shows_symptom: bool, now: Duration) -> Self {
        Self {
            started: process.started,
            since: shows_symptom.then_some(now),
            has_symptom: false,
        }
    }

    /// The process, unless it has ended.
    fn read(&self, pid: u32, processes: &impl Processes) -> Option<LiveProcess> {
        let live = processes.live_process(pid);
        live.filter(|live| live.started == self.started)
    }

    fn add(&mut self, shows_symptom: bool, now: Duration) {
        self.since = shows_symptom.then(|| self.since.unwrap_or(now));
        self.has_symptom = self.since.is_some_and(|since| now >= since + MIN_DURATION);
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

    /// Makes the change, and returns the number of seconds after which this process is found.
    fn found(change: impl Fn(&World), pid: u32) -> u32 {
        let seen = node().changes(300, |world, second| match second {
            100 => change(world),
            // A shim starts a process for each stop.
            102 => world.start(400, "runc", 20),
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
                    world.start_runc(400, "kill", 20);
                }
                if second == 100 {
                    world.change(200, |app| app.is_ending = true);
                }
                if second == 101 {
                    world.end(400);
                }
            });
            let found = seen.iter().find(|(_, pids)| pids.contains(&200));
            assert!(matches!(found, Some((115..=145, _))), "{start}: {seen:?}");
        }
    }

    #[test]
    fn a_killed_container_of_a_conmon_is_found_as_soon_without_a_runc() {
        let after = found(|world| world.change(300, |app| app.is_ending = true), 300);
        assert!((15..=45).contains(&after), "{after}");
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
    fn a_container_that_no_runc_has_killed_is_found_within_three_minutes() {
        let seen = node().changes(300, |world, second| {
            if second == 100 {
                world.change(200, |app| app.is_ending = true);
            }
        });
        assert!(matches!(&seen[..], [(115..=235, _)]), "{seen:?}");
    }

    #[test]
    fn a_process_that_ends_in_time_or_continues_is_no_symptom_and_one_that_ends_later_is_over() {
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
