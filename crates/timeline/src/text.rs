//! The picture for a terminal.

use std::fmt::Write;
use std::time::Duration;

use episodes::{Episode, What};
use pleg_text::escape::{printable, sentence};

use crate::Picture;
use crate::picture::{duration_text, reason_text};
use crate::rows::{Row, rows, sections};
use crate::scale::{marks, title};
use crate::svg::cut_beginning;

/// The maximum number of episodes that are listed.
const MAX_LINES: usize = 60;
const LABEL_WIDTH: usize = 42;
const DAY: Duration = Duration::from_secs(86_400);

/// The picture in lines of `width` characters: its rows, and a description of each bar.
pub fn text(picture: &Picture, width: usize) -> String {
    let bars = width.saturating_sub(LABEL_WIDTH + 1).max(20);
    let mut page = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(page, "{}\n\n{}", title(picture), sentence(&picture.summary));
    if !picture.notes.is_empty() {
        page.push('\n');
    }
    for note in &picture.notes {
        let _ = writeln!(page, "Note: {}", sentence(note));
    }
    let axis = axis(picture, bars);
    let _ = writeln!(page, "\n{:LABEL_WIDTH$} {}", "", axis.trim_end());
    for (section, rows) in sections(&rows(picture)) {
        let _ = writeln!(page, "{}", section.title());
        for row in rows {
            let width = LABEL_WIDTH - 2;
            let label = cut_beginning(&printable(&row.label), width);
            let _ = writeln!(page, "  {label:width$} {}", bar(picture, row, bars));
        }
    }
    page.push_str("█ lasted   | one moment   ▶ no end seen\n\n");
    list_episodes(picture, &mut page);
    causes(picture, &mut page);
    if !picture.sources.is_empty() {
        let sources = picture.sources.join(", ");
        let _ = writeln!(page, "\nRead: {}", sentence(&sources));
    }
    page
}

/// The probable causes, and what to do.
fn causes(picture: &Picture, page: &mut String) {
    for advice in &picture.advice {
        let _ = writeln!(
            page,
            "\n{} ({}): {}",
            advice.cause,
            advice.confidence_note(),
            sentence(&advice.sentence)
        );
        if let Some(culprit) = &advice.culprit {
            let _ = writeln!(page, "  Culprit: {}", sentence(culprit));
        }
        if let Some(evidence) = &advice.evidence {
            let _ = writeln!(page, "  {}", sentence(evidence));
        }
        for step in &advice.steps {
            let _ = writeln!(page, "  -> {}", sentence(step));
        }
    }
}

fn axis(picture: &Picture, width: usize) -> String {
    let mut axis = vec![' '; width];
    let mut free = 0;
    for mark in marks(picture, width / 12) {
        let at = (mark.at * width as f64) as usize;
        let end = at + mark.text.chars().count();
        if at >= free && end <= width {
            for (place, character) in axis[at..end].iter_mut().zip(mark.text.chars()) {
                *place = character;
            }
            free = end + 1;
        }
    }
    axis.into_iter().collect()
}

fn bar(picture: &Picture, row: &Row, width: usize) -> String {
    let mut cells = vec!['·'; width];
    for episode in row.episodes.iter().map(|index| &picture.episodes[*index]) {
        let (from, to) = picture.place(episode);
        let first = ((from * width as f64) as usize).min(width - 1);
        let last = ((to * width as f64).ceil() as usize).clamp(first + 1, width);
        let drawn = if episode.is_moment() { '|' } else { '█' };
        for cell in &mut cells[first..last] {
            if *cell != '█' {
                *cell = drawn;
            }
        }
        if episode.to.is_none() {
            cells[last - 1] = '▶';
        }
    }
    cells.into_iter().collect()
}

/// Lists episodes in order of time. If there are too many lines, events of containers are only counted.
fn list_episodes(picture: &Picture, page: &mut String) {
    let is_event = |episode: &&Episode| matches!(episode.what, What::Event { .. });
    let events = picture.episodes.iter().filter(is_event).count();
    let show_events = picture.episodes.len() <= MAX_LINES;
    let is_shown = |episode: &&Episode| show_events || !is_event(episode);
    let shown: Vec<&Episode> = picture.episodes.iter().filter(is_shown).collect();
    // In a picture that spans a day or more, times have the date.
    let form = match picture.spans() < DAY {
        true => "%H:%M:%S",
        false => "%Y-%m-%d %H:%M:%S",
    };
    for episode in shown.iter().take(MAX_LINES) {
        let time = episode.from.timestamp().strftime(form);
        let _ = writeln!(page, "{time}  {}", line(episode));
    }
    let more = shown.len().saturating_sub(MAX_LINES);
    if more > 0 {
        let _ = writeln!(page, "and {more} more; -o html or -o json shows all");
    }
    if !show_events && events > 0 {
        let _ = writeln!(page, "and {events} events of containers");
    }
}

fn line(episode: &Episode) -> String {
    let lasted = match episode.to {
        None => "no end seen".to_owned(),
        Some(_) => duration_text(episode),
    };
    let (title, reason) = (episode.what.title(), reason_text(episode));
    let mut line = format!("{lasted:12} {title}:");
    let subject = episode.subject_name();
    if !subject.is_empty() {
        line += &format!(" {}:", printable(&subject));
    }
    line += &format!(" {}", sentence(&reason));
    if let Some(source) = &episode.source {
        let number = source.line.map_or(String::new(), |line| format!(":{line}"));
        line += &format!("  [{}{number}]", printable(&source.file));
    }
    line
}
