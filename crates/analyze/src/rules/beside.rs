//! What else must be in a line that has the text of a rule, and what must not.

use memchr::memmem::Finder;

/// The searches for it, prepared once: a log may repeat one line a million times.
#[derive(Debug)]
pub(super) struct Beside {
    any: Box<[Finder<'static>]>,
    all: Box<[Finder<'static>]>,
    without: Box<[Finder<'static>]>,
}

impl Beside {
    /// One of the first must be there, unless there are none, all of the second, and none of the third.
    pub(super) fn new(
        any: &'static [String],
        all: &'static [String],
        without: &'static [String],
    ) -> Self {
        let finders = |texts: &'static [String]| texts.iter().map(Finder::new).collect();
        Self {
            any: finders(any),
            all: finders(all),
            without: finders(without),
        }
    }

    pub(super) fn holds(&self, line: &[u8]) -> bool {
        let is_there = |finder: &Finder<'_>| finder.find(line).is_some();
        (self.any.is_empty() || self.any.iter().any(is_there))
            && self.all.iter().all(is_there)
            && !self.without.iter().any(is_there)
    }
}
