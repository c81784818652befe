//! Takes the terminal over while the screen is shown, and restores it whatever ends the screen.
//!
//! ```text
//!   enter: raw mode, alternate screen, no cursor
//!     |  draw, draw, draw: a canvas writes the frames
//!   suspend, resume: while the process is stopped
//!   restore: on drop (the end, an error, a signal) and before a panic is reported
//! ```

use std::io::{self, BufWriter, IsTerminal, Stdout, stdout};
use std::panic;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use crossterm::cursor::Show;
use crossterm::execute;
use crossterm::terminal::{
    self, EndSynchronizedUpdate, EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode,
    enable_raw_mode,
};
use ratatui::layout::Size;

use crate::canvas::Canvas;
use crate::state::{Extent, State};
use crate::view::Theme;

/// Whether the terminal is taken over.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The terminal, taken over until this is dropped.
#[derive(Debug)]
pub struct Screen {
    canvas: Canvas<BufWriter<Stdout>>,
}

impl Screen {
    /// Takes the terminal over.
    pub fn enter(theme: Theme) -> io::Result<Self> {
        report_panics_on_the_restored_terminal();
        let canvas = take_over(|| {
            // One write for each frame, so that no terminal shows half of it.
            let out = BufWriter::with_capacity(1 << 16, stdout());
            Canvas::new(out, size()?, theme)
        })?;
        Ok(Self { canvas })
    }

    /// Restores the terminal until [`Screen::resume`].
    pub fn suspend(&mut self) {
        restore();
    }

    /// Takes the terminal over again. The next draw draws everything.
    pub fn resume(&mut self) -> io::Result<()> {
        take_over(|| self.canvas.redraw_all())
    }

    /// Draws a state.
    pub fn draw(&mut self, state: &State) -> io::Result<Extent> {
        self.canvas.draw(state, size()?)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        restore();
    }
}

/// Takes the terminal over and prepares it. If that fails, restores it.
fn take_over<T>(prepare: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    TAKEN.store(true, Ordering::SeqCst);
    let taken = enable_raw_mode()
        .and_then(|()| execute!(stdout(), EnterAlternateScreen))
        .and_then(|()| prepare());
    taken.inspect_err(|_| restore())
}

/// Whether both the input and the output are a terminal.
pub fn is_available() -> bool {
    io::stdin().is_terminal() && stdout().is_terminal()
}

fn size() -> io::Result<Size> {
    terminal::size().map(Size::from)
}

/// Restores the terminal, if it is taken over. Errors are ignored, because they mean that the
/// terminal is closed.
pub fn restore() {
    if TAKEN.swap(false, Ordering::SeqCst) {
        let _ = execute!(stdout(), EndSynchronizedUpdate, LeaveAlternateScreen, Show);
        let _ = disable_raw_mode();
    }
}

/// Makes a panic restore the terminal before the panic is reported, because what is written to the
/// alternate screen is lost when that is closed.
fn report_panics_on_the_restored_terminal() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let report = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            restore();
            report(info);
        }));
    });
}
