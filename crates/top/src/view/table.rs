//! A table with a title: as many of its rows as fit, the selected one among them.

use ratatui::Frame;
use ratatui::layout::{Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Paragraph, Row};

use super::Theme;
use super::format::fit;

/// A table. Only the shown rows are made.
pub struct Table<'a> {
    /// The content of the table, and how much of it is shown.
    pub title: String,
    /// The names of the columns; `None` if they do not fit or are not needed.
    pub header: Option<Row<'static>>,
    /// The widths of the columns.
    pub widths: Vec<Constraint>,
    /// The number of rows.
    pub count: usize,
    /// Makes a row.
    pub row: Box<dyn Fn(usize) -> Vec<Cell<'static>> + 'a>,
    /// The selected row.
    pub selected: Option<usize>,
}

impl Table<'_> {
    /// The number of screen rows that the table would fill. An empty table is only its title.
    pub fn height(&self) -> u16 {
        let rows = match self.count {
            0 => 0,
            count => count + usize::from(self.header.is_some()),
        };
        u16::try_from(rows + 1).unwrap_or(u16::MAX)
    }

    /// Draws the table, and returns the number of shown rows.
    pub fn draw(self, frame: &mut Frame<'_>, area: Rect, is_focused: bool, theme: &Theme) -> usize {
        if area.height == 0 {
            return 0;
        }
        let width = usize::from(area.width);
        let style = match is_focused {
            true => theme.bold(),
            false => theme.dim(),
        };
        // A title that is too long ends with a mark, and no line follows it.
        let title = fit(&format!("─ {} ", self.title), width);
        let rule: String = match title.ends_with('…') {
            true => title,
            false => title
                .chars()
                .chain("─".repeat(width).chars())
                .take(width)
                .collect(),
        };
        let title_area = Rect { height: 1, ..area };
        frame.render_widget(Paragraph::new(Line::styled(rule, style)), title_area);
        let (_, area) = super::split(area, 1);
        let header = self.header.filter(|_| area.height > 1 && self.count > 0);
        let has_header = header.is_some();
        let rows = usize::from(area.height) - usize::from(has_header);
        let rows = rows.min(self.count);
        let first = match self.selected.filter(|_| is_focused) {
            // The selected row is in the middle, except at the ends of the table.
            Some(selected) => selected.saturating_sub(rows / 2).min(self.count - rows),
            None => 0,
        };
        let shown = (first..first + rows).map(|place| Row::new((self.row)(place)));
        let mut table = ratatui::widgets::Table::new(shown, self.widths).column_spacing(2);
        if let Some(header) = header {
            table = table.header(header.style(theme.dim()));
        }
        frame.render_widget(table, area);
        // Colours within a row would not be readable on the selection.
        if let Some(selected) = self.selected.filter(|_| is_focused)
            && (first..first + rows).contains(&selected)
        {
            let above = selected - first + usize::from(has_header);
            let row = Rect {
                y: area.y + u16::try_from(above).unwrap_or_default(),
                height: 1,
                ..area
            };
            frame.buffer_mut().set_style(row, theme.selected());
        }
        rows
    }
}
