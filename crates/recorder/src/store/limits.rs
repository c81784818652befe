//! How much of a recording is kept, and which segments are removed.

use std::time::Duration;

/// The limits of a recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of all segments together.
    pub max_bytes: u64,
    /// The maximum age of a segment.
    pub max_age: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_bytes: 64 << 20,
            max_age: 7 * DAY,
        }
    }
}

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The maximum size of a segment.
const MAX_SEGMENT_BYTES: u64 = 4 << 20;

impl Limits {
    /// The maximum size of a segment. A small recording has small segments too, because only whole
    /// segments are removed.
    pub(super) fn segment_bytes(&self) -> u64 {
        MAX_SEGMENT_BYTES.min(self.max_bytes / 8)
    }

    /// How long entries may be appended to a segment.
    pub(super) fn segment_age(&self) -> Duration {
        DAY.min(self.max_age / 4)
    }

    /// The number of oldest segments that must be removed so that `more` bytes can be written. The
    /// segments are `(bytes, age)`, oldest first; an age is `None` if the clock cannot be trusted.
    pub(super) fn surplus(&self, segments: &[(u64, Option<Duration>)], more: u64) -> usize {
        let mut total = more + segments.iter().map(|(bytes, _)| bytes).sum::<u64>();
        let mut surplus = 0;
        for (bytes, age) in segments {
            let is_old = age.is_some_and(|age| age > self.max_age);
            if total <= self.max_bytes && !is_old {
                break;
            }
            total -= bytes;
            surplus += 1;
        }
        surplus
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn limits() -> Limits {
        Limits {
            max_bytes: 100,
            max_age: 10 * HOUR,
        }
    }

    #[test]
    fn the_oldest_segments_are_removed_if_there_are_too_many_bytes() {
        let young = |bytes| (bytes, Some(HOUR));
        let segments = [young(40), young(40), young(10)];
        assert_eq!(limits().surplus(&segments, 10), 0);
        assert_eq!(limits().surplus(&segments, 11), 1);
        assert_eq!(limits().surplus(&segments, 51), 2);
        assert_eq!(limits().surplus(&segments, 1000), 3);
    }

    #[test]
    fn old_segments_are_removed_unless_the_clock_cannot_be_trusted() {
        let segments = [(1, Some(11 * HOUR)), (1, Some(11 * HOUR)), (1, Some(HOUR))];
        assert_eq!(limits().surplus(&segments, 0), 2);
        let segments = segments.map(|(bytes, _)| (bytes, None));
        assert_eq!(limits().surplus(&segments, 0), 0);
    }
}
