//! A line with a count, on a terminal only.

use std::io::IsTerminal;

pub(crate) struct Progress {
    noun: &'static str,
    total: usize,
    is_shown: bool,
}

impl Progress {
    /// Counts up to `total`. A total of one is not shown.
    pub(crate) fn new(noun: &'static str, total: usize) -> Self {
        let is_shown = total > 1 && std::io::stderr().is_terminal();
        Self {
            noun,
            total,
            is_shown,
        }
    }

    pub(crate) fn show(&self, done: usize) {
        if self.is_shown {
            eprint!("\r{done} of {} {}", self.total, self.noun);
        }
    }
}

impl Drop for Progress {
    /// Clears the line for the next output, for example an error.
    fn drop(&mut self) {
        if self.is_shown {
            eprint!("\r\x1b[K");
        }
    }
}
