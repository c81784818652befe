//! The state of the screen: what is known of the node, and the reader's choices.
//!
//! ```text
//!   Update --> node: status, pods, events, outstanding calls, the doctor's examination
//!                        |  filter, sort, faults only
//!                        v
//!                      rows of each panel, with a cursor
//!   Action --> act: panel, cursor, pages, prompt --> Request, for what a state cannot do
//! ```

use pleg::model::wall_time::WallTime;

use crate::input::Mode;
use crate::recording::Position;
use crate::update::{Source, Update};

mod act;
pub mod cursor;
pub mod events;
pub mod filter;
pub mod node;
pub mod outstanding;
pub mod page;
pub mod pods;
mod rows;
pub mod sort;

pub use act::Request;
use filter::Filter;
use node::Node;
use page::{Page, Panel, Prompt};
use rows::Cursors;
use sort::Sort;

/// A status that is older than this is not shown as current.
const STALE_AFTER_SECONDS: u64 = 5;

/// The state of the screen.
#[derive(Debug)]
pub struct State {
    /// The current time of the screen, from which ages are computed.
    pub now: WallTime,
    /// What is known of the node.
    pub node: Node,
    /// The position in a recording; `None` for a live node.
    pub position: Option<Position>,
    /// Only the pods of this namespace are shown, if there is one.
    pub namespace: Option<String>,
    /// The filter of the rows.
    pub filter: Filter,
    /// Whether only faults are shown.
    pub is_faults_only: bool,
    /// The order of the pods.
    pub sort: Sort,
    /// The table with the focus.
    pub panel: Panel,
    /// The pages over the tables, the topmost last.
    pub pages: Vec<Page>,
    /// The open prompt.
    pub prompt: Option<Prompt>,
    cursors: Cursors,
    extent: Extent,
}

/// What the last draw measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The rows of the table, or the lines of the page, that are on the screen.
    pub rows: usize,
    /// The maximum scroll position of the page.
    pub max_scroll: usize,
}

impl State {
    /// The initial state for a live node: nothing is known yet.
    pub fn live(now: WallTime, namespace: Option<String>) -> Self {
        Self {
            now,
            node: Node::default(),
            position: None,
            namespace,
            filter: Filter::default(),
            is_faults_only: false,
            sort: Sort::default(),
            panel: Panel::default(),
            pages: Vec::new(),
            prompt: None,
            cursors: Cursors::default(),
            extent: Extent::default(),
        }
    }

    /// Applies an update of a live node.
    pub fn apply(&mut self, update: Update, now: WallTime) {
        self.now = now;
        self.node.apply(update);
    }

    /// Shows a recording at a position, restored from these updates.
    pub fn replay(&mut self, position: Position, updates: Vec<Update>) {
        self.now = position.at;
        self.position = Some(position);
        self.node = Node::default();
        for update in updates {
            self.node.apply(update);
        }
        self.node.show_recorded_finding();
    }

    /// Advances the time of a live node; the time of a recording is its position.
    pub fn tick(&mut self, now: WallTime) {
        if self.position.is_none() {
            self.now = now;
        }
    }

    /// Stores the extent of the last draw.
    pub fn drawn(&mut self, extent: Extent) {
        self.extent = extent;
    }

    /// The mode for keys.
    pub fn mode(&self) -> Mode {
        match (&self.prompt, self.position) {
            (Some(_), _) => Mode::Prompt,
            (None, Some(_)) => Mode::Replay,
            (None, None) => Mode::Live,
        }
    }

    /// The time since which the content has not been current; `None` while it is current.
    pub fn stale_since(&self) -> Option<WallTime> {
        let taken = self.node.status.as_ref().map(|status| status.at);
        match (&self.node.source, self.position) {
            // A gap in a recording is replayed as a loss of the source.
            (Source::Disconnected { since, .. }, Some(_)) => Some(*since),
            // The loss of the source is noticed some time after its last answer.
            (Source::Disconnected { since, .. }, None) => Some(taken.unwrap_or(*since)),
            (_, Some(_)) => None,
            (_, None) => taken.filter(|at| self.now.since(*at).as_secs() >= STALE_AFTER_SECONDS),
        }
    }

    /// The time until which the state of the node is known. Ages end at this time: a fault does not
    /// grow older while the node is not observed.
    pub fn known_until(&self) -> WallTime {
        self.stale_since().unwrap_or(self.now)
    }

    /// Whether a list of pods has arrived from an agent or engine that has completed a relist.
    pub fn has_observed_pods(&self) -> bool {
        let status = self.node.status.as_ref();
        let is_before_first_relist = status.is_some_and(|status| status.value.relist.count == 0);
        self.node.pods_taken.is_some() && !is_before_first_relist
    }
}
