//! Groups goroutines with the same state and the same functions.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, Hash, Hasher};

use foldhash::fast::RandomState;

use super::call::{is_library, receiver_type};
use super::waits::LockCalls;
use super::{Program, ShownGroup, Stack, Wait, idle};

/// Where a group was first seen.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The input.
    pub file: String,
    /// The line in which the stack begins.
    pub line: u64,
}

/// Goroutines with the same state and functions.
#[derive(Clone, Debug)]
pub struct Group {
    /// The number of goroutines.
    pub count: u64,
    /// The goroutine that has waited longest; the lowest number among equals.
    pub oldest: Stack,
    /// The shortest wait, in minutes.
    pub min_minutes: Option<u64>,
    /// The longest wait, in minutes.
    pub max_minutes: Option<u64>,
    /// Addresses of locks, and the number of goroutines that wait for each.
    pub locks: BTreeMap<u64, u64>,
    lock_calls: LockCalls,
    /// What the goroutines wait for.
    pub wait: Wait,
    /// Whether the goroutines wait as in a healthy process.
    pub idle: bool,
    /// The program that the goroutines belong to.
    pub program: Option<Program>,
    /// Where the first goroutine was seen.
    pub place: Place,
}

/// All groups, up to a limit.
#[derive(Debug, Default)]
pub struct Groups {
    /// The indices of groups, by a hash of what all stacks of a group have in common.
    index: HashMap<u64, Vec<usize>, RandomState>,
    hashes: RandomState,
    groups: Vec<Group>,
    bytes: usize,
    total: u64,
    dropped: u64,
}

/// The maximum number of groups. No program has more different stacks.
const MAX_GROUPS: usize = 2048;
/// The maximum total length of the stacks that are kept.
const MAX_STACK_BYTES: usize = 6 << 20;
const MAX_LOCKS: usize = 64;

impl Groups {
    /// Adds a stack.
    pub fn add(&mut self, stack: Stack, file: &str) {
        self.total = self.total.saturating_add(stack.count);
        match self.place_of(&stack, || Group::new(&stack, file)) {
            Some(at) => self.groups[at].add(stack),
            None => self.dropped = self.dropped.saturating_add(stack.count),
        }
    }

    /// Adds the groups of another input.
    pub fn absorb(&mut self, other: Self) {
        self.total = self.total.saturating_add(other.total);
        self.dropped = self.dropped.saturating_add(other.dropped);
        for group in other.groups {
            let empty = || Group {
                count: 0,
                min_minutes: None,
                max_minutes: None,
                locks: BTreeMap::new(),
                ..group.clone()
            };
            match self.place_of(&group.oldest, empty) {
                Some(at) => self.groups[at].absorb(group),
                None => self.dropped = self.dropped.saturating_add(group.count),
            }
        }
    }

    /// The index of the group for this stack; it is created if there is room.
    fn place_of(&mut self, stack: &Stack, make: impl FnOnce() -> Group) -> Option<usize> {
        let hash = self.hash(stack);
        let known = self.index.get(&hash).into_iter().flatten();
        let mut alike = known.filter(|at| are_alike(&self.groups[**at].oldest, stack));
        if let Some(at) = alike.next() {
            return Some(*at);
        }
        let bytes = 2 * stack.calls.names().len() + 64 * stack.calls.len();
        if self.groups.len() >= MAX_GROUPS || self.bytes + bytes > MAX_STACK_BYTES {
            return None;
        }
        self.bytes += bytes;
        let group = make();
        self.index.entry(hash).or_default().push(self.groups.len());
        self.groups.push(group);
        Some(self.groups.len() - 1)
    }

    fn hash(&self, stack: &Stack) -> u64 {
        let mut hasher = self.hashes.build_hasher();
        stack.state.hash(&mut hasher);
        stack.calls.names().hash(&mut hasher);
        hasher.finish()
    }

    /// Counts goroutines without a stack.
    pub fn add_unlisted(&mut self, count: u64) {
        self.total = self.total.saturating_add(count);
    }

    /// The groups, the largest first, the number of all goroutines, and how many of these were dropped.
    pub fn sorted(mut self) -> (Vec<Group>, u64, u64) {
        self.groups.sort_by_key(|group| {
            (
                std::cmp::Reverse(group.count),
                std::cmp::Reverse(group.max_minutes),
                group.oldest.id,
            )
        });
        (self.groups, self.total, self.dropped)
    }
}

fn are_alike(one: &Stack, other: &Stack) -> bool {
    one.state == other.state && one.calls.are_like(&other.calls)
}

impl Group {
    fn new(stack: &Stack, file: &str) -> Self {
        let state = stack.state.as_deref();
        let created_by = stack.created_by.as_deref();
        Self {
            count: 0,
            min_minutes: None,
            max_minutes: None,
            locks: BTreeMap::new(),
            lock_calls: LockCalls::of(&stack.calls),
            wait: Wait::of(state, &stack.calls),
            idle: idle::is_idle(state, &stack.calls, created_by),
            program: Program::of(&stack.calls, created_by)
                .or_else(|| Program::of_name(&stack.ident)),
            place: Place {
                file: file.to_owned(),
                line: stack.line,
            },
            oldest: stack.clone(),
        }
    }

    fn add(&mut self, stack: Stack) {
        if self.wait == Wait::Lock
            && let Some(address) = self.lock_calls.address(&stack.calls)
        {
            self.waits_for(address, stack.count);
        }
        // Waits of less than a minute are not printed.
        let minutes = stack.minutes.unwrap_or(0);
        let is_known = stack.minutes.is_some() || self.max_minutes.is_some();
        if stack.state.is_some() && is_known {
            self.waited(minutes, minutes);
        }
        self.count(stack.count, stack);
    }

    fn absorb(&mut self, other: Self) {
        for (address, count) in other.locks {
            self.waits_for(address, count);
        }
        let is_known = other.max_minutes.is_some() || self.max_minutes.is_some();
        if other.oldest.state.is_some() && is_known {
            let min = other.min_minutes.unwrap_or(0);
            self.waited(min, other.max_minutes.unwrap_or(0));
        }
        self.count(other.count, other.oldest);
    }

    /// Adds this many goroutines; `oldest` is the one that has waited longest.
    fn count(&mut self, more: u64, oldest: Stack) {
        self.count = self.count.saturating_add(more);
        if age(&oldest) > age(&self.oldest) {
            self.oldest = oldest;
        }
    }

    fn waits_for(&mut self, lock: u64, count: u64) {
        if self.locks.len() < MAX_LOCKS || self.locks.contains_key(&lock) {
            *self.locks.entry(lock).or_default() += count;
        }
    }

    fn waited(&mut self, least: u64, most: u64) {
        let known = self
            .min_minutes
            .unwrap_or(if self.count > 0 { 0 } else { least });
        self.min_minutes = Some(known.min(least));
        self.max_minutes = Some(self.max_minutes.unwrap_or(0).max(most));
    }

    /// The function that shows the purpose: the innermost one outside Go's standard library.
    pub fn function(&self) -> &str {
        let calls = &self.oldest.calls;
        let own = calls.iter().find(|call| !is_library(call.function));
        own.or(calls.get(0)).map_or("", |call| call.function)
    }

    /// Whether the name of a function among the calls contains this text.
    pub fn calls(&self, text: &str) -> bool {
        let mut calls = self.oldest.calls.iter();
        calls.any(|call| call.function.contains(text))
    }

    /// Whether it is a relist of the kubelet.
    pub fn is_relist(&self) -> bool {
        self.calls("pleg.(*GenericPLEG).relist") || self.calls("pleg.(*GenericPLEG).Relist")
    }

    /// The type whose lock the goroutines wait for.
    pub fn lock_type(&self) -> Option<&str> {
        (self.wait == Wait::Lock)
            .then(|| receiver_type(self.function()))
            .flatten()
    }

    /// The outermost call of a method of this type.
    pub fn outermost_call_of(&self, kind: Option<&str>) -> Option<&str> {
        let kind = kind?;
        let mut calls = self.oldest.calls.iter().rev().map(|call| call.function);
        calls.find(|function| receiver_type(function) == Some(kind))
    }

    /// The call that shows the purpose, not the wait: for netlink the request, not the socket.
    pub fn purpose(&self) -> &str {
        let inner = [
            "netlink/nl.",
            "netlink.(*Handle)",
            "grpc.",
            "ttrpc.",
            "dbus.",
        ];
        let mut calls = self.oldest.calls.iter().map(|call| call.function);
        let outer =
            calls.find(|name| !is_library(name) && !inner.iter().any(|text| name.contains(text)));
        outer.unwrap_or_else(|| self.function())
    }

    /// The group as it is reported.
    pub fn shown(&self) -> ShownGroup {
        let lock = self.locks.iter().max_by_key(|(_, count)| **count);
        ShownGroup {
            count: self.count,
            state: self.oldest.state.clone(),
            min_wait_minutes: self.min_minutes,
            max_wait_minutes: self.max_minutes,
            function: self.function().to_owned(),
            frames: {
                let calls = self.oldest.calls.iter();
                calls.map(|call| call.function.to_owned()).collect()
            },
            created_by: self.oldest.created_by.clone(),
            idle: self.idle,
            lock: lock.map(|(address, _)| format!("{address:#x}")),
            lock_waiters: lock.map(|(_, count)| *count),
        }
    }
}

/// The greater key is that of the older goroutine: the longest wait first, then the lowest number.
fn age(stack: &Stack) -> (Option<u64>, std::cmp::Reverse<u64>) {
    let number = stack.id.unwrap_or(u64::MAX);
    (stack.minutes, std::cmp::Reverse(number))
}
