//! What else must be in a line that has a text, and what must not.

use memchr::memmem::Finder;

/// The searches for it, prepared once: a log may repeat one line a million times.
#[derive(Debug)]
pub(super) struct Beside {
    with: Box<[Finder<'static>]>,
    without: Box<[Finder<'static>]>,
}

impl Beside {
    /// One of the first must be there, unless there are none, and none of the second.
    pub(super) fn new(with: &[&'static str], without: &[&'static str]) -> Self {
        let finders =
            |texts: &[&'static str]| texts.iter().map(|text| Finder::new(*text)).collect();
        Self {
            with: finders(with),
            without: finders(without),
        }
    }

    pub(super) fn holds(&self, line: &[u8]) -> bool {
        let is_there = |finder: &Finder<'_>| finder.find(line).is_some();
        (self.with.is_empty() || self.with.iter().any(is_there))
            && !self.without.iter().any(is_there)
    }
}
