//! Parses profiles (`debug=1`): stacks with counts, without ids, states and times.
//!
//! ```text
//! goroutine profile: total 15003
//! 14990 @ 0x43a1c5 0x44ab3a
//! #  0x46e2d3  sync.runtime_SemacquireMutex+0x43  /usr/local/go/src/runtime/sema.go:71
//! ```

use super::{Call, Stack};
use crate::line::first_chars;

/// Only a stack has this many addresses after a count, so it is recognised without the head of a profile.
const MIN_DEPTH: usize = 3;

/// Reads a profile line by line.
#[derive(Debug, Default)]
pub struct ProfileReader {
    current: Option<Stack>,
    total: Option<u64>,
    seen: u64,
    done: Vec<Stack>,
}

impl ProfileReader {
    /// Parses a line; returns whether it belongs to a profile.
    pub fn line(&mut self, line: &str, number: u64) -> bool {
        if let Some(total) = line.strip_prefix("goroutine profile: total ") {
            self.finish();
            let total = total.trim().parse::<u64>().ok();
            self.total = Some(self.total.unwrap_or(0).saturating_add(total.unwrap_or(0)));
            return true;
        }
        let is_address = |word: &str| word.starts_with("0x") || word == "...";
        if let Some((count, addresses)) = line.split_once(" @ ")
            && let Ok(count) = count.trim().parse::<u64>()
            && addresses.split_ascii_whitespace().all(is_address)
            && (self.total.is_some() || addresses.split_ascii_whitespace().count() >= MIN_DEPTH)
        {
            // A part of a profile, cut out of it.
            self.total.get_or_insert(0);
            self.finish();
            self.seen = self.seen.saturating_add(count);
            self.current = Some(Stack {
                count,
                line: number,
                ..Stack::default()
            });
            return true;
        }
        self.total.is_some() && self.call(line)
    }

    fn call(&mut self, line: &str) -> bool {
        let Some(rest) = line.strip_prefix('#') else {
            return false;
        };
        let mut words = rest.split_ascii_whitespace();
        let function = match (words.next(), words.next()) {
            (Some(address), Some(function)) if address.starts_with("0x") => function,
            // "# labels: {...}"
            (Some("labels:"), _) | (None, _) => return true,
            _ => return false,
        };
        let end = function.rfind("+0x").unwrap_or(function.len());
        let function = &function[..end];
        if let Some(stack) = &mut self.current {
            stack.calls.push(Call {
                function: first_chars(function, 400),
                first: None,
            });
        }
        true
    }

    /// The number of goroutines that the profile counts but does not list.
    pub fn unlisted(&self) -> u64 {
        self.total.unwrap_or(0).saturating_sub(self.seen)
    }

    /// Whether a stack is being read.
    pub fn is_inside(&self) -> bool {
        self.current.is_some()
    }

    /// The stacks that are complete.
    pub fn take_done(&mut self) -> Vec<Stack> {
        std::mem::take(&mut self.done)
    }

    /// Ends the current stack.
    pub fn finish(&mut self) {
        self.done.extend(self.current.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_is_read() {
        let mut reader = ProfileReader::default();
        for line in [
            "goroutine profile: total 15003",
            "14990 @ 0x43a1c5 0x44ab3a",
            "# labels: {\"a\":\"b\"}",
            "#\t0x46e2d3\tsync.runtime_SemacquireMutex+0x43\t\t/usr/local/go/src/runtime/sema.go:71",
            "#\t0x47\ta.com/b.(*T).M+0x1\t/x.go:1",
            "",
            "12 @ 0x1",
            "#\t0x1\tmain.main+0x1\t/main.go:5",
        ] {
            let took = reader.line(line, 1);
            assert_eq!(took, !line.is_empty(), "{line}");
        }
        reader.finish();
        let stacks = reader.take_done();
        assert_eq!(
            stacks.iter().map(|stack| stack.count).collect::<Vec<_>>(),
            [14990, 12]
        );
        assert_eq!(stacks[0].calls.get(1).unwrap().function, "a.com/b.(*T).M");
        assert_eq!(reader.unlisted(), 1);
    }

    #[test]
    fn a_stack_that_was_cut_out_of_a_profile_is_read() {
        let mut reader = ProfileReader::default();
        assert!(reader.line("1 @ 0x434790 0x444a6b 0xdc8c2f", 1));
        assert!(reader.line("#\t0xdc8c2e\ta.com/b.(*T).M+0xce\t/x.go:318", 2));
        reader.finish();
        assert_eq!(
            reader.take_done()[0].calls.get(0).unwrap().function,
            "a.com/b.(*T).M"
        );
        assert_eq!(reader.unlisted(), 0);
    }

    #[test]
    fn lines_before_a_profile_are_not_part_of_it() {
        assert!(!ProfileReader::default().line("14990 @ 0x43a1c5", 1));
        assert!(!ProfileReader::default().line("# HELP x y", 1));
    }
}
