//! Colours, and their replacements without colours (NO_COLOR).

use pleg::out::health::HealthState;
use ratatui::style::{Color, Modifier, Style};

/// A set of styles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Theme {
    has_colours: bool,
}

impl Theme {
    /// A theme with colours, or with bold and reversed text instead of them.
    pub fn new(has_colours: bool) -> Self {
        Self { has_colours }
    }

    fn colour(self, colour: Color, otherwise: Modifier) -> Style {
        match self.has_colours {
            true => Style::new().fg(colour),
            false => Style::new().add_modifier(otherwise),
        }
    }

    /// A good state.
    pub fn good(self) -> Style {
        self.colour(Color::Green, Modifier::empty())
    }

    /// A state that needs attention.
    pub fn warning(self) -> Style {
        self.colour(Color::Yellow, Modifier::BOLD)
    }

    /// A fault.
    pub fn bad(self) -> Style {
        self.colour(Color::Red, Modifier::BOLD)
    }

    /// Content of less interest.
    pub fn dim(self) -> Style {
        Style::new().add_modifier(Modifier::DIM)
    }

    /// A label or a heading.
    pub fn bold(self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// The selected row, without the colours of its cells.
    pub fn selected(self) -> Style {
        Style::reset().add_modifier(Modifier::REVERSED)
    }

    /// The most prominent style.
    pub fn banner(self) -> Style {
        self.bad().add_modifier(Modifier::REVERSED | Modifier::BOLD)
    }

    /// Content that may not be current.
    pub fn stale(self) -> Style {
        Style::reset().add_modifier(Modifier::DIM)
    }

    /// A state of health.
    pub fn health(self, state: HealthState) -> Style {
        match state {
            HealthState::Healthy => self.good(),
            HealthState::Starting | HealthState::Degraded => self.warning(),
            HealthState::Unhealthy => self.bad(),
        }
    }
}
