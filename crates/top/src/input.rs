//! What keys mean: where k9s has a key for it, the same one.
//!
//! ```text
//!   a prompt is open:  characters, Backspace, Enter, Esc  --> Type, Erase, Accept, Back
//!   otherwise:         one key, one Action
//! ```

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::state::sort::Column;

/// What the reader wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Leave.
    Quit,
    /// See the keys.
    Help,
    /// Type a filter.
    Filter,
    /// Type a filter that leaves out what it matches.
    InverseFilter,
    /// Show only faults, or everything again.
    ToggleFaults,
    /// Sort the pods, or turn the order round.
    Sort(Column),
    /// Move to the next table.
    NextPanel,
    /// Move to the previous one.
    PreviousPanel,
    /// Move by so many rows.
    Step(isize),
    /// Move by so many pages.
    Page(isize),
    /// See what is selected.
    Open,
    /// Back to what was there before.
    Back,
    /// Ask the doctor.
    Examine,
    /// In a recording: to the next thing that was recorded.
    Forward,
    /// In a recording: to the previous one.
    Backward,
    /// In a recording: type a time.
    GoToTime,
    /// A character for the prompt.
    Type(char),
    /// Take the last one back.
    Erase,
    /// What was typed is right.
    Accept,
}

/// What a key means depends on what is on the screen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A live node.
    Live,
    /// A recording.
    Replay,
    /// A prompt is open.
    Prompt,
}

/// What a key means; `None` if it means nothing here.
pub fn action(key: KeyEvent, mode: Mode) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if control && key.code == KeyCode::Char('c') {
        return Some(Action::Quit);
    }
    match mode {
        Mode::Prompt => typed(key.code, control),
        Mode::Live | Mode::Replay => pressed(key.code, control, mode),
    }
}

fn typed(code: KeyCode, control: bool) -> Option<Action> {
    Some(match code {
        KeyCode::Char(character) if !control => Action::Type(character),
        KeyCode::Backspace => Action::Erase,
        KeyCode::Enter => Action::Accept,
        KeyCode::Esc => Action::Back,
        _ => return None,
    })
}

fn pressed(code: KeyCode, control: bool, mode: Mode) -> Option<Action> {
    Some(match (code, mode) {
        (KeyCode::Char('z'), _) if control => Action::ToggleFaults,
        (KeyCode::Char('f'), _) if control => Action::Page(1),
        (KeyCode::Char('b'), _) if control => Action::Page(-1),
        (KeyCode::Char(_), _) if control => return None,
        (KeyCode::Char('j'), Mode::Replay) => Action::Forward,
        (KeyCode::Char('k'), Mode::Replay) => Action::Backward,
        (KeyCode::Char('t'), Mode::Replay) => Action::GoToTime,
        (KeyCode::Char('j') | KeyCode::Down, _) => Action::Step(1),
        (KeyCode::Char('k') | KeyCode::Up, _) => Action::Step(-1),
        (KeyCode::PageDown, _) => Action::Page(1),
        (KeyCode::PageUp, _) => Action::Page(-1),
        (KeyCode::Char('g') | KeyCode::Home, _) => Action::Step(isize::MIN),
        (KeyCode::Char('G') | KeyCode::End, _) => Action::Step(isize::MAX),
        (KeyCode::Tab, _) => Action::NextPanel,
        (KeyCode::BackTab, _) => Action::PreviousPanel,
        (KeyCode::Enter, _) => Action::Open,
        (KeyCode::Esc, _) => Action::Back,
        (KeyCode::Char('/'), _) => Action::Filter,
        (KeyCode::Char('!'), _) => Action::InverseFilter,
        (KeyCode::Char('d'), Mode::Live) => Action::Examine,
        (KeyCode::Char('?'), _) => Action::Help,
        (KeyCode::Char('q'), _) => Action::Quit,
        (KeyCode::Char('S'), _) => Action::Sort(Column::State),
        (KeyCode::Char('N'), _) => Action::Sort(Column::Name),
        (KeyCode::Char('T'), _) => Action::Sort(Column::Restarts),
        (KeyCode::Char('A'), _) => Action::Sort(Column::Changed),
        (KeyCode::Char('L'), _) => Action::Sort(Column::Latency),
        _ => return None,
    })
}
