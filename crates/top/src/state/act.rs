//! Applies actions, and returns requests for what a state cannot do by itself.

use pleg::model::wall_time::WallTime;
use pleg_text::GoDuration;

use super::State;
use super::filter::Filter;
use super::node::Examination;
use super::page::{Page, Panel, Prompt, Topic};
use crate::input::Action;
use crate::recording::Position;

/// A request for what a state cannot do by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// End the session.
    Quit,
    /// Run the doctor.
    Examine,
    /// In a recording: go to the next entry.
    Forward,
    /// In a recording: go to the previous entry.
    Backward,
    /// In a recording: go to this time.
    GoTo(WallTime),
}

impl State {
    /// Applies an action. Returns a request if the state cannot carry it out by itself.
    pub fn act(&mut self, action: Action) -> Option<Request> {
        match action {
            Action::Quit => return Some(Request::Quit),
            Action::Forward => return Some(Request::Forward),
            Action::Backward => return Some(Request::Backward),
            Action::Examine => return self.examine(),
            Action::Accept => return self.accept(),
            Action::Help => self.open(Topic::Help),
            Action::Filter => self.prompt = Some(Prompt::Filter(String::new())),
            Action::InverseFilter => self.prompt = Some(Prompt::Filter("!".to_owned())),
            Action::GoToTime => {
                self.prompt = Some(Prompt::Time {
                    typed: String::new(),
                    error: None,
                });
            }
            Action::ToggleFaults => self.is_faults_only = !self.is_faults_only,
            Action::Sort(column) => self.sort = self.sort.by(column),
            Action::NextPanel => self.panel = self.panel.step(1),
            Action::PreviousPanel => self.panel = self.panel.step(-1),
            Action::Step(rows) => self.advance(rows),
            Action::Page(pages) => {
                let rows = self.extent.rows.max(1) as isize;
                self.advance(pages.saturating_mul(rows));
            }
            Action::Open => self.open_selected(),
            Action::Back => self.back(),
            Action::Type(character) => self.edit_prompt(|typed| typed.push(character)),
            Action::Erase => self.edit_prompt(|typed| {
                typed.pop();
            }),
        }
        None
    }

    /// Scrolls the open page, or moves the cursor if no page is open.
    fn advance(&mut self, rows: isize) {
        let last = self.extent.max_scroll;
        match self.pages.last_mut() {
            Some(page) => {
                page.scroll = page.scroll.min(last).saturating_add_signed(rows).min(last);
            }
            None => self.step(rows),
        }
    }

    fn open(&mut self, topic: Topic) {
        if self.pages.last().is_none_or(|page| page.topic != topic) {
            self.pages.push(Page { topic, scroll: 0 });
        }
    }

    fn open_selected(&mut self) {
        if !self.pages.is_empty() {
            return;
        }
        if let Some(pod) = self.selected_pod() {
            let name = pod.to_string();
            self.open(Topic::Pod { uid: pod.uid, name });
        } else if self.panel == Panel::Findings
            && let Some(place) = self.selected(Panel::Findings)
        {
            self.open(Topic::Finding(place));
        }
    }

    /// Goes back by one step, the first of these that is possible: closes the prompt, closes the page,
    /// removes the filter, shows more than faults, selects the first table.
    fn back(&mut self) {
        if let Some(prompt) = self.prompt.take() {
            if matches!(prompt, Prompt::Filter(_)) {
                self.filter = Filter::default();
            }
        } else if self.pages.pop().is_some() {
        } else if !self.filter.is_empty() {
            self.filter = Filter::default();
        } else if self.is_faults_only {
            self.is_faults_only = false;
        } else {
            self.panel = Panel::default();
        }
    }

    fn examine(&mut self) -> Option<Request> {
        self.panel = Panel::Findings;
        if matches!(self.node.examination, Examination::Running { .. }) {
            return None;
        }
        self.node.examination = Examination::Running { since: self.now };
        Some(Request::Examine)
    }

    /// Changes the typed text of the prompt. A filter applies while it is typed, as in k9s.
    fn edit_prompt(&mut self, change: impl FnOnce(&mut String)) {
        if let Some(prompt) = &mut self.prompt {
            change(prompt.typed_mut());
            if let Prompt::Filter(typed) = prompt {
                self.filter = Filter::new(typed);
            }
        }
    }

    fn accept(&mut self) -> Option<Request> {
        let (Some(Prompt::Time { typed, .. }), Some(position)) =
            (self.prompt.take(), self.position)
        else {
            return None;
        };
        match time(&typed, position) {
            Ok(time) => Some(Request::GoTo(time)),
            Err(error) => {
                let error = Some(error);
                self.prompt = Some(Prompt::Time { typed, error });
                None
            }
        }
    }
}

/// Parses a time of a recording: `14:33:52` of the day that is shown, RFC 3339, or a step (`+30s`,
/// `-2m`).
fn time(typed: &str, position: Position) -> Result<WallTime, String> {
    let typed = typed.trim();
    if let Some(later) = typed.strip_prefix('+') {
        let GoDuration(later) = duration(later)?;
        let time = position.at.timestamp().checked_add(later);
        return time.map(WallTime::from).map_err(|error| error.to_string());
    }
    if let Some(earlier) = typed.strip_prefix('-') {
        let GoDuration(earlier) = duration(earlier)?;
        return Ok(position.at.before(earlier));
    }
    if let Ok(time) = typed.parse::<jiff::Timestamp>() {
        return Ok(time.into());
    }
    let time = typed
        .parse::<jiff::civil::Time>()
        .map_err(|_| "expected a time such as 14:33:52, +30s or -2m".to_owned())?;
    let utc = jiff::tz::TimeZone::UTC;
    let day = position.at.timestamp().to_zoned(utc.clone()).date();
    let zoned = day.to_datetime(time).to_zoned(utc);
    let zoned = zoned.map_err(|error| error.to_string())?;
    Ok(zoned.timestamp().into())
}

fn duration(text: &str) -> Result<GoDuration, String> {
    text.parse::<GoDuration>()
        .map_err(|error| error.to_string())
}
