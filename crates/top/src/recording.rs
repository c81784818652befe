//! What happened on a node, to be looked at later: a [`Recording`], and the place in it.
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

/// What was recorded of a node, in the order of time.
pub trait Recording {
    /// The times of the first and of the last thing that was recorded.
    fn span(&self) -> (WallTime, WallTime);
    /// The time that is shown first.
    fn opening(&self) -> WallTime;
    /// When the next thing was recorded after this time.
    fn next_after(&self, time: WallTime) -> Option<WallTime>;
    /// When the last thing was recorded before this time.
    fn previous_before(&self, time: WallTime) -> Option<WallTime>;
    /// All that makes the node as it was at this time: the last status, the records until then
    /// that are still of interest, oldest first, and then the pods, which they have changed.
    fn at(&self, time: WallTime) -> Vec<Update>;
}

/// A place in a recording.
pub struct Replay {
    recording: Box<dyn Recording>,
    at: WallTime,
}

/// Where a replay is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The time that is shown.
    pub at: WallTime,
    /// When the recording begins.
    pub first: WallTime,
    /// When it ends.
    pub last: WallTime,
}

impl Replay {
    /// A recording where it opens.
    pub fn new(recording: Box<dyn Recording>) -> Self {
        let at = recording.opening();
        Self { recording, at }
    }

    /// Where it is.
    pub fn position(&self) -> Position {
        let (first, last) = self.recording.span();
        Position {
            at: self.at,
            first,
            last,
        }
    }

    /// On to the next thing that was recorded, unless this is the last.
    pub fn forward(&mut self) {
        self.at = self.recording.next_after(self.at).unwrap_or(self.at);
    }

    /// Back to the previous thing that was recorded, unless this is the first.
    pub fn backward(&mut self) {
        self.at = self.recording.previous_before(self.at).unwrap_or(self.at);
    }

    /// To a time, or to the end of the recording that is nearest to it.
    pub fn go_to(&mut self, time: WallTime) {
        let (first, last) = self.recording.span();
        self.at = time.max(first).min(last);
    }

    /// All that makes the node as it was.
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
