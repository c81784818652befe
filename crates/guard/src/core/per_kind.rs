//! One value for sandboxes, and one for containers.

use std::ops::{Index, IndexMut};

use crate::wire::Kind;

/// One value for each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PerKind<T> {
    pub(super) sandboxes: T,
    pub(super) containers: T,
}

impl<T> PerKind<T> {
    /// The value that `of` returns for each kind.
    pub(super) fn new(mut of: impl FnMut(Kind) -> T) -> Self {
        Self {
            sandboxes: of(Kind::Sandbox),
            containers: of(Kind::Container),
        }
    }

    /// Both values.
    pub(super) fn iter(&self) -> std::array::IntoIter<&T, 2> {
        [&self.sandboxes, &self.containers].into_iter()
    }
}

impl<T> Index<Kind> for PerKind<T> {
    type Output = T;

    fn index(&self, kind: Kind) -> &T {
        match kind {
            Kind::Sandbox => &self.sandboxes,
            Kind::Container => &self.containers,
        }
    }
}

impl<T> IndexMut<Kind> for PerKind<T> {
    fn index_mut(&mut self, kind: Kind) -> &mut T {
        match kind {
            Kind::Sandbox => &mut self.sandboxes,
            Kind::Container => &mut self.containers,
        }
    }
}
