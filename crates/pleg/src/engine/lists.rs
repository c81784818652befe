//! One value for each of the two lists, and what is common to both.

use std::ops::{Index, IndexMut};
use std::time::Duration;

use super::call::List;

/// One value for each of the two lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PerList<T> {
    pub(crate) sandboxes: T,
    pub(crate) containers: T,
}

impl<T> PerList<T> {
    pub(crate) fn as_ref(&self) -> PerList<&T> {
        PerList {
            sandboxes: &self.sandboxes,
            containers: &self.containers,
        }
    }

    pub(crate) fn map<U>(self, mut of: impl FnMut(T) -> U) -> PerList<U> {
        PerList {
            sandboxes: of(self.sandboxes),
            containers: of(self.containers),
        }
    }

    pub(crate) fn zip<U>(self, with: PerList<U>) -> PerList<(T, U)> {
        PerList {
            sandboxes: (self.sandboxes, with.sandboxes),
            containers: (self.containers, with.containers),
        }
    }

    /// For each list, the value of the other one.
    pub(crate) fn of_the_other(self) -> Self {
        Self {
            sandboxes: self.containers,
            containers: self.sandboxes,
        }
    }

    pub(crate) fn both(self) -> [T; 2] {
        [self.sandboxes, self.containers]
    }
}

impl<T> Index<List> for PerList<T> {
    type Output = T;

    fn index(&self, list: List) -> &T {
        match list {
            List::Sandboxes => &self.sandboxes,
            List::Containers => &self.containers,
        }
    }
}

impl<T> IndexMut<List> for PerList<T> {
    fn index_mut(&mut self, list: List) -> &mut T {
        match list {
            List::Sandboxes => &mut self.sandboxes,
            List::Containers => &mut self.containers,
        }
    }
}

impl PerList<bool> {
    pub(crate) fn any(self) -> bool {
        self.sandboxes || self.containers
    }

    /// The list for which this is true, if it is true for exactly one.
    pub(crate) fn single(self) -> Option<List> {
        match (self.sandboxes, self.containers) {
            (true, false) => Some(List::Sandboxes),
            (false, true) => Some(List::Containers),
            _ => None,
        }
    }

    pub(crate) fn or(self, other: Self) -> Self {
        self.zip(other).map(|(one, other)| one || other)
    }

    pub(crate) fn but_not(self, other: Self) -> Self {
        self.zip(other).map(|(one, other)| one && !other)
    }

    /// Whether this is true for every list for which `other` is true.
    pub(crate) fn covers(self, other: Self) -> bool {
        !other.but_not(self).any()
    }

    /// The names of the calls for which this is true.
    pub(crate) fn calls(self) -> &'static str {
        match (self.sandboxes, self.containers) {
            (false, false) => "none",
            (true, false) => "ListPodSandbox",
            (false, true) => "ListContainers",
            (true, true) => "ListPodSandbox and ListContainers",
        }
    }
}

/// How long the calls for the whole node have been outstanding.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ages {
    pub(crate) version: Option<Duration>,
    pub(crate) lists: PerList<Option<Duration>>,
}

impl Ages {
    /// The age of the list call that has been outstanding longest.
    pub(crate) fn oldest_list(self) -> Option<Duration> {
        self.lists.sandboxes.max(self.lists.containers)
    }
}
