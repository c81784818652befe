//! A table as Markdown, aligned, so that it is readable on a terminal and on a page.

use std::fmt;

/// One table with its title and notes.
#[derive(Debug)]
pub struct Table {
    title: String,
    head: Vec<String>,
    rows: Vec<Vec<String>>,
    notes: Vec<String>,
}

impl Table {
    pub fn new(title: &str, head: &[&str]) -> Self {
        Self {
            title: title.to_owned(),
            head: head.iter().map(|&cell| cell.to_owned()).collect(),
            rows: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub fn row(&mut self, cells: impl Into<Vec<String>>) {
        self.rows.push(cells.into());
    }

    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = || std::iter::once(&self.head).chain(&self.rows);
        let length = |cell: &String| cell.chars().count();
        let widths: Vec<usize> = (0..self.head.len())
            .map(|column| lines().map(|line| length(&line[column])).max().unwrap_or(0))
            .collect();
        let line = |f: &mut fmt::Formatter<'_>, cells: &[String]| {
            for (column, (cell, &width)) in cells.iter().zip(&widths).enumerate() {
                match column {
                    0 => write!(f, "| {cell:<width$} ")?,
                    _ => write!(f, "| {cell:>width$} ")?,
                }
            }
            writeln!(f, "|")
        };
        writeln!(f, "## {}\n", self.title)?;
        line(f, &self.head)?;
        for (column, &width) in widths.iter().enumerate() {
            let dashes = "-".repeat(width);
            match column {
                0 => write!(f, "| {dashes} ")?,
                _ => write!(f, "| {dashes}:")?,
            }
        }
        writeln!(f, "|")?;
        for row in &self.rows {
            line(f, row)?;
        }
        for note in &self.notes {
            writeln!(f, "\n{note}")?;
        }
        Ok(())
    }
}

/// `figure` as a multiple of `base`.
pub fn ratio(figure: f64, base: f64) -> String {
    format!("{:.2} x", figure / base)
}

/// Formats nanoseconds in a suitable unit.
pub fn time(nanos: f64) -> String {
    match nanos.abs() {
        size if size < 1e3 => format!("{nanos:.0} ns"),
        size if size < 1e6 => format!("{:.2} µs", nanos / 1e3),
        _ => format!("{:.3} ms", nanos / 1e6),
    }
}
