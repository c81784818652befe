//! Encodes a frame as bytes: only the cells that differ from the screen, in one update, and
//! nothing if no cell differs.
//!
//! ```text
//!   state --view--> buffer --does it differ from the last?--> begin, cells, end --> out
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

/// Draws states on any output that understands a terminal's sequences. A terminal that supports
/// synchronized updates shows no partial frame.
pub struct Canvas<W: Write> {
    terminal: Terminal<CrosstermBackend<W>>,
    theme: Theme,
    /// The content of the screen.
    shown: Buffer,
}

impl<W: Write> Canvas<W> {
    /// Draws on an empty terminal of this size.
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

    /// Makes the next draw draw everything, because another program has used the terminal.
    pub fn redraw_all(&mut self) -> io::Result<()> {
        self.shown = Buffer::empty(Rect::ZERO);
        self.terminal.hide_cursor()
    }

    /// Draws a state on the terminal, whose size may have changed.
    pub fn draw(&mut self, state: &State, size: Size) -> io::Result<Extent> {
        let area = Rect::from(size);
        let is_resized = self.shown.area != area;
        if is_resized {
            // Only a new size clears the screen, so clearing it is part of the update.
            queue!(self.terminal.backend_mut(), BeginSynchronizedUpdate)?;
            self.terminal.resize(area)?;
        }
        let mut frame = self.terminal.get_frame();
        let extent = view::draw(&mut frame, state, &self.theme);
        if *frame.buffer_mut() == self.shown {
            // The library would write a few sequences even for a frame without a changed cell.
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
