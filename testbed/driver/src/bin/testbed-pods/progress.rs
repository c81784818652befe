//! One line on a terminal that counts; nothing without a terminal.

use std::io::IsTerminal;

pub(crate) struct Progress {
    what: &'static str,
    total: usize,
    shown: bool,
}

impl Progress {
    /// Counts `what` up to `total`; a single one is not worth a line.
    pub(crate) fn new(what: &'static str, total: usize) -> Self {
        let shown = total > 1 && std::io::stderr().is_terminal();
        Self { what, total, shown }
    }

    pub(crate) fn show(&self, done: usize) {
        if self.shown {
            eprint!("\r{done} of {} {}", self.total, self.what);
        }
    }
}

impl Drop for Progress {
    /// Leaves the line to what comes next, an error for one.
    fn drop(&mut self) {
        if self.shown {
            eprint!("\r\x1b[K");
        }
    }
}
