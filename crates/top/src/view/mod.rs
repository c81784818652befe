//! Draws a state, and changes nothing.
//!
//! ```text
//!   pleg top  containerd 1.7.24 at unix:///run/containerd/…     14:33:52 UTC   |
//!   Source    agent at /run/pleg/agent.sock · 12 pods, 23 running, 1 exited    |
//!   Health    Degraded: container postgres of defa… (ContainerStuck for 41s)   | header
//!   Kubelet   would be NotReady in 2m17s: list calls are stuck or failing      |
//!   Relist    generic, every 1s, 3ms by list, seen 400ms ago      ▁▁▂▁▁▃       |
//!   Guard     off  Stream  off  Kernel  live, 23 processes                     |
//!   ─ Pods 12 ───────────────────────────────────────────────────────────      |
//!   POD               STATE    RESTARTS  CHANGED  LATENCY                      | pods
//!   default/db        Stuck    0         41s      12ms                         |
//!   ─ Outstanding 1 ─────────────────────────────────────────────────────      |
//!   ContainerStatus  0123456789abc  default/db postgres  41s  ███│███░░░░░░    | outstanding
//!   ─ Events 7 ──────────────────────────────────────────────────────────      |
//!   14:33:11.024  ContainerDied  default/web nginx  exit 137, by kernel, 2ms … | events
//!   ─ Doctor, 3s ago ────────────────────────────────────────────────────      |
//!   problem  certain  containerd holds the status lock of …                    | findings
//!   / filter  ^z faults  tab table  enter open  d doctor  ? help  q quit       | footer
//! ```
//!
//! `pod_page`, `finding` and `help` are pages over the tables.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::Line;
use ratatui::widgets::Paragraph;

use crate::state::page::{Panel, Topic};
use crate::state::{Extent, State};

mod events;
mod finding;
mod findings;
mod footer;
pub mod format;
mod header;
mod heights;
mod help;
mod outstanding;
mod pod_page;
mod pods;
mod table;
mod theme;

pub use theme::Theme;

/// The minimum width and height of the screen; a smaller one shows nothing useful.
const MIN_SIZE: (u16, u16) = (40, 12);

/// Draws a state, and returns how much of it fits.
pub fn draw(frame: &mut Frame<'_>, state: &State, theme: &Theme) -> Extent {
    let area = frame.area();
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let text = format!(
            "The terminal is too small: {} columns and {} rows. 80 and 24 are enough.",
            area.width, area.height
        );
        let lines = format::wrapped(&text, area.width, Style::new());
        frame.render_widget(Paragraph::new(lines), area);
        return Extent::default();
    }
    let header = header::lines(state, area.width, theme);
    let (top, rest) = split(area, header.len() as u16);
    let (body, bottom) = split(rest, rest.height.saturating_sub(1));
    frame.render_widget(Paragraph::new(header), top);
    header::sparkline(frame, state, top, theme);
    let extent = match state.pages.last() {
        Some(page) => {
            let lines = match &page.topic {
                Topic::Pod { uid, name } => pod_page::lines(state, (uid, name), body.width, theme),
                Topic::Finding(place) => finding::lines(state, *place, body.width, theme),
                Topic::Help => help::lines(state, body.width, theme),
            };
            scrolled(frame, body, lines, page.scroll)
        }
        None => tables(frame, body, state, theme),
    };
    // Content that is not current is grey, except the banner in the header that reports it.
    if state.stale_since().is_some() {
        for row in area.top()..area.bottom().saturating_sub(1) {
            if row != top.y + header::SOURCE_ROW {
                let line = Rect::new(area.x, row, area.width, 1);
                frame.buffer_mut().set_style(line, theme.stale());
            }
        }
    }
    frame.render_widget(Paragraph::new(footer::line(state, theme)), bottom);
    extent
}

/// Splits an area into the first rows and the rest.
fn split(area: Rect, rows: u16) -> (Rect, Rect) {
    let rows = rows.min(area.height);
    let first = Rect {
        height: rows,
        ..area
    };
    let rest = Rect {
        y: area.y + rows,
        height: area.height - rows,
        ..area
    };
    (first, rest)
}

/// The lines of a page from `scroll` on.
fn scrolled(frame: &mut Frame<'_>, area: Rect, lines: Vec<Line<'static>>, scroll: usize) -> Extent {
    let rows = usize::from(area.height);
    let max_scroll = lines.len().saturating_sub(rows);
    let lines = lines.into_iter().skip(scroll.min(max_scroll)).take(rows);
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()), area);
    Extent { rows, max_scroll }
}

/// Draws the tables one below the other. The one with the focus gets the remaining rows.
fn tables(frame: &mut Frame<'_>, area: Rect, state: &State, theme: &Theme) -> Extent {
    let tables = [
        pods::table(state, area.width, theme),
        outstanding::table(state, area.width, theme),
        events::table(state, area.width, theme),
        findings::table(state, area.width, theme),
    ];
    let wanted = tables.each_ref().map(|table| table.height());
    let heights = heights::heights(area.height, wanted, state.panel);
    let mut rest = area;
    let mut rows = 0;
    for ((table, height), panel) in tables.into_iter().zip(heights).zip(Panel::ALL) {
        let (place, below) = split(rest, height);
        rest = below;
        let is_focused = panel == state.panel;
        let shown = table.draw(frame, place, is_focused, theme);
        if is_focused {
            rows = shown;
        }
    }
    Extent {
        rows,
        max_scroll: 0,
    }
}
