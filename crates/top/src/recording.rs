//! A [`Recording`] of a node, and a position in it.
//!
//! ```text
//!   first                    at                                  last
//!     |----*--*------*--------*----*-------------*---------*------|
//!                    ^             ^
//!              previous_before  next_after
//! ```

use std::fmt;

use pleg::model::wall_time::WallTime;

use crate::update::Update;

/// The recording of a node, in order of time.
pub trait Recording {
    /// The times of the first and of the last entry.
    fn span(&self) -> (WallTime, WallTime);
    /// The time that is shown first.
    fn opening(&self) -> WallTime;
    /// The time of the next entry after this time.
    fn next_after(&self, time: WallTime) -> Option<WallTime>;
    /// The time of the last entry before this time.
    fn previous_before(&self, time: WallTime) -> Option<WallTime>;
    /// The updates that restore the state of the node at this time: the last status, the
    /// records until then that still matter, oldest first, and then the pods, to which these
    /// records have been applied.
    fn at(&self, time: WallTime) -> Vec<Update>;
}

/// A position in a recording.
pub struct Replay {
    recording: Box<dyn Recording>,
    at: WallTime,
}

/// The position of a replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The time that is shown.
    pub at: WallTime,
    /// When the recording begins.
    pub first: WallTime,
    /// When the recording ends.
    pub last: WallTime,
}

impl Replay {
    /// Opens a recording.
    pub fn new(recording: Box<dyn Recording>) -> Self {
        let at = recording.opening();
        Self { recording, at }
    }

    /// The position.
    pub fn position(&self) -> Position {
        let (first, last) = self.recording.span();
        Position {
            at: self.at,
            first,
            last,
        }
    }

    /// Goes to the next entry, if there is one.
    pub fn forward(&mut self) {
        self.at = self.recording.next_after(self.at).unwrap_or(self.at);
    }

    /// Goes to the previous entry, if there is one.
    pub fn backward(&mut self) {
        self.at = self.recording.previous_before(self.at).unwrap_or(self.at);
    }

    /// Goes to a time, or to the nearest end of the recording.
    pub fn go_to(&mut self, time: WallTime) {
        let (first, last) = self.recording.span();
        self.at = time.max(first).min(last);
    }

    /// The updates that restore the state of the node at the position.
    pub fn updates(&self) -> Vec<Update> {
        self.recording.at(self.at)
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("position", &self.position())
            .finish_non_exhaustive()
    }
}
