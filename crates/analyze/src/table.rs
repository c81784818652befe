//! Rows of tables, and single figures: readers of tools' output fill named cells, and rules decide what they
//! mean. `facts.yaml` has the names of the tables and of their cells.
//!
//! ```
//! use analyze::table::TableRow;
//!
//! let row = TableRow::new("disks", 3).text("mount", "/var").number("used", 98.0);
//! assert_eq!(row.fill("{mount} is {used} % full"), "/var is 98 % full");
//! ```

use causes::facts::facts;
use causes::finding::Culprit;

/// The names of the cells of a table; `None` if there is no such table.
pub fn cells_of(table: &str) -> Option<&'static [String]> {
    facts().tables.get(table).map(Vec::as_slice)
}

/// What a cell contains.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A number.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// A row of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct TableRow {
    /// The name of the table.
    pub table: &'static str,
    /// The number of the line in the input; 0 if no single line shows the row.
    pub line: u64,
    cells: Vec<(&'static str, Cell)>,
    culprit: Culprit,
}

impl TableRow {
    /// An empty row.
    pub fn new(table: &'static str, line: u64) -> Self {
        Self {
            table,
            line,
            cells: Vec::new(),
            culprit: Culprit::default(),
        }
    }

    /// Sets the culprit.
    pub fn of(self, culprit: Culprit) -> Self {
        Self { culprit, ..self }
    }

    /// A row that is a figure: it has the one cell `value`.
    pub fn figure(figure: &'static str, value: u64, line: u64) -> Self {
        Self::new(figure, line).number("value", value as f64)
    }

    /// Adds a number, if it is known.
    pub fn number(self, name: &'static str, number: impl Into<Option<f64>>) -> Self {
        self.with(name, number.into().map(Cell::Number))
    }

    /// Adds a text, if it is known.
    pub fn text<'a>(self, name: &'static str, text: impl Into<Option<&'a str>>) -> Self {
        let text = text.into().map(|text| Cell::Text(text.to_owned()));
        self.with(name, text)
    }

    /// Adds the process, if its name or its id is known.
    pub fn process(self, name: Option<&str>, pid: Option<u32>) -> Self {
        let pid = pid.map(|pid| pid.to_string());
        self.text("process", name).text("pid", pid.as_deref())
    }

    fn with(mut self, name: &'static str, cell: Option<Cell>) -> Self {
        debug_assert!(self.has(name), "{}: {name}", self.table);
        self.cells.extend(cell.map(|cell| (name, cell)));
        self
    }

    fn has(&self, name: &str) -> bool {
        cells_of(self.table).is_some_and(|cells| cells.iter().any(|cell| cell == name))
    }

    /// What this cell contains, if it is known.
    pub fn cell(&self, name: &str) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|(cell, _)| *cell == name).map(|(_, cell)| cell)
    }

    /// The culprit that was set, with what the cells `unit`, `process`, `pid` and `container` add.
    pub fn culprit(&self) -> Culprit {
        let text = |name| match self.cell(name)? {
            Cell::Text(text) => Some(text.clone()),
            Cell::Number(_) => None,
        };
        let mut culprit = self.culprit.clone();
        culprit.learn(Culprit {
            unit: text("unit"),
            process: text("process"),
            pid: text("pid").and_then(|pid| pid.parse().ok()),
            id: text("container"),
            ..Culprit::default()
        });
        culprit
    }

    /// Replaces the names of cells in braces with the contents of the cells.
    pub fn fill(&self, sentence: &str) -> String {
        let mut filled = sentence.to_owned();
        for (name, cell) in &self.cells {
            let text = match cell {
                Cell::Number(number) => ((number * 10.0).round() / 10.0).to_string(),
                Cell::Text(text) => text.clone(),
            };
            filled = filled.replace(&format!("{{{name}}}"), &text);
        }
        filled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_document_has_each_table_with_its_cells() {
        let document = include_str!("../../../docs/rules.md");
        for (name, cells) in &facts().tables {
            let row = document
                .lines()
                .find(|row| row.starts_with(&format!("| `{name}` |")));
            let row = row.unwrap_or_else(|| panic!("{name}"));
            let is_there = |cell: &String| cell == "value" || row.contains(&format!("`{cell}`"));
            assert!(cells.iter().all(is_there), "{row}");
        }
    }
}
