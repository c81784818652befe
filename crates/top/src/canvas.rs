//! A frame as bytes: only the cells that differ from those on the screen, in one update, and
//! nothing if none does.
//!
//! ```text
//!   state --view--> buffer --is it another than the last?--> begin, cells, end --> out
//! ```

use std::fmt;
use std::io::{self, Write};

use crossterm::terminal::{BeginSynchronizedUpdate, EndSynchronizedUpdate};
use crossterm::{execute, queue};
use ratatui::backend::CrosstermBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::{Rect, Size};
use ratatui::{Terminal, TerminalOptions, Viewport};

use crate::state::{Extent, State};
use crate::view::{self, Theme};

/// Draws states on whatever understands a terminal's sequences. Terminals that know the marks of an
/// update show no half of a frame.
pub struct Canvas<W: Write> {
    terminal: Terminal<CrosstermBackend<W>>,
    theme: Theme,
    /// What is on the screen.
    shown: Buffer,
}

impl<W: Write> Canvas<W> {
    /// Draws on a terminal of this size, which is empty.
    pub fn new(out: W, size: Size, theme: Theme) -> io::Result<Self> {
        let area = Rect::from(size);
        let options = TerminalOptions {
            viewport: Viewport::Fixed(area),
        };
        let mut terminal = Terminal::with_options(CrosstermBackend::new(out), options)?;
        terminal.hide_cursor()?;
        Ok(Self {
            terminal,
            theme,
            shown: Buffer::empty(area),
        })
    }

    /// Others have used the terminal meanwhile: the next draw draws everything.
    pub fn begin_anew(&mut self) -> io::Result<()> {
        self.shown = Buffer::empty(Rect::ZERO);
        self.terminal.hide_cursor()
    }

    /// Draws a state on the terminal, which has this size now.
    pub fn draw(&mut self, state: &State, size: Size) -> io::Result<Extent> {
        let area = Rect::from(size);
        let is_resized = self.shown.area != area;
        if is_resized {
            // Another size is the one reason to clear the screen, and belongs to the update.
            queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
            self.terminal.resize(area)?;
        }
        let mut frame = self.terminal.get_frame();
        let extent = view::draw(&mut frame, state, &self.theme);
        if *frame.buffer_mut() == self.shown {
            // Even without a cell, a frame of the library is a few sequences long.
            self.terminal.current_buffer_mut().reset();
            return Ok(extent);
        }
        self.shown.clone_from(frame.buffer_mut());
        if !is_resized {
            queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
        }
        self.terminal.flush()?;
        self.terminal.swap_buffers();
        execute!(self.terminal.backend_mut(), EndSynchronizedUpdate)?;
        Ok(extent)
    }
}

impl<W: Write> fmt::Debug for Canvas<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Canvas").finish_non_exhaustive()
    }
}
