//! Maps keys to actions. If k9s has the same action, it has the same key.
//!
//! ```text
//!   a prompt is open:  characters, Backspace, Enter, Esc  --> Type, Erase, Accept, Back
//!   otherwise:         one key, one Action
//! ```

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use crate::state::sort::Column;

/// An action of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Quit.
    Quit,
    /// Show the keys.
    Help,
    /// Type a filter.
    Filter,
    /// Type a filter that hides what it matches.
    InverseFilter,
    /// Show only faults, or everything again.
    ToggleFaults,
    /// Sort the pods, or reverse the order.
    Sort(Column),
    /// Move to the next table.
    NextPanel,
    /// Move to the previous table.
    PreviousPanel,
    /// Move by this many rows.
    Step(isize),
    /// Move by this many pages.
    Page(isize),
    /// Open the selected row.
    Open,
    /// Go back to the previous view.
    Back,
    /// Run the doctor.
    Examine,
    /// In a recording: go to the next entry.
    Forward,
    /// In a recording: go to the previous entry.
    Backward,
    /// In a recording: type a time.
    GoToTime,
    /// A character for the prompt.
    Type(char),
    /// Remove the last character.
    Erase,
    /// Accept the typed text.
    Accept,
}

/// The mode of the screen, on which the meaning of keys depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A live node.
    Live,
    /// A recording.
    Replay,
    /// A prompt is open.
    Prompt,
}

/// The action of a key; `None` if the key has none in this mode.
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
