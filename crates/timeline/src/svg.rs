//! The picture as SVG: no script, states are classes, light and dark.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use pleg_text::escape::{printable, sentence};

use crate::Picture;
use crate::picture::reason_text;
use crate::rows::{Row, class, rows};
use crate::scale::{marks, title};

/// The colours, for both pictures.
pub(crate) const COLOURS: &str = include_str!("colours.css");

const WIDTH: f64 = 1200.0;
const LABELS_WIDTH: f64 = 330.0;
const ROW_HEIGHT: f64 = 20.0;
/// The height of the time and the axis.
const HEAD_HEIGHT: f64 = 54.0;
/// Longer labels are cut.
const MAX_LABEL_CHARACTERS: usize = 46;
/// Longer lines are wrapped at the width of the picture.
const MAX_SUMMARY_CHARACTERS: usize = 130;
const MAX_NOTE_CHARACTERS: usize = 175;

/// The whole picture as one SVG file.
pub fn svg(picture: &Picture) -> String {
    let rows = rows(picture);
    let mut lines = Vec::new();
    let mut section = None;
    for row in &rows {
        if section.replace(row.section) != Some(row.section) {
            lines.push(Line::Section(row.section.title()));
        }
        lines.push(Line::Row(row));
    }
    let summary = wrapped(&picture.summary, MAX_SUMMARY_CHARACTERS);
    let notes = picture.notes.iter().map(|note| format!("Note: {note}"));
    let notes = notes.flat_map(|note| wrapped(&note, MAX_NOTE_CHARACTERS));
    let notes: Vec<String> = notes.collect();
    let head = HEAD_HEIGHT + summary.len() as f64 * ROW_HEIGHT;
    let below = head + lines.len() as f64 * ROW_HEIGHT;
    let height = below + notes.len() as f64 * ROW_HEIGHT + 10.0;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" class=\"pleg\">\n\
         <title>{}</title>\n<style>{COLOURS}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>",
        text(&picture.summary),
    );
    let mut heading = |class: &str, y: f64, line: &str| {
        let line = text(line);
        let _ = writeln!(
            out,
            "<text class=\"{class}\" x=\"12\" y=\"{y:.0}\">{line}</text>"
        );
    };
    for (number, line) in summary.iter().enumerate() {
        heading("summary", 24.0 + number as f64 * ROW_HEIGHT, line);
    }
    heading("quiet", head - 30.0, &title(picture));
    for (number, line) in notes.iter().enumerate() {
        heading("quiet", below + 15.0 + number as f64 * ROW_HEIGHT, line);
    }
    for mark in marks(picture, 9) {
        let x = LABELS_WIDTH + mark.at * (WIDTH - LABELS_WIDTH - 12.0);
        let _ = writeln!(
            out,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{below:.0}\"/>\
             <text class=\"quiet\" x=\"{:.1}\" y=\"{:.0}\">{}</text>",
            head - 6.0,
            x + 3.0,
            head - 8.0,
            text(&mark.text)
        );
    }
    for (number, line) in lines.iter().enumerate() {
        let y = head + number as f64 * ROW_HEIGHT;
        match line {
            Line::Section(title) => {
                let _ = writeln!(
                    out,
                    "<text class=\"section\" x=\"12\" y=\"{:.0}\">{title}</text>",
                    y + 15.0
                );
            }
            Line::Row(row) => draw(picture, row, y, &mut out),
        }
    }
    out.push_str("</svg>\n");
    out
}

enum Line<'a> {
    Section(&'static str),
    Row(&'a Row),
}

fn draw(picture: &Picture, row: &Row, y: f64, out: &mut String) {
    let label = cut_beginning(&printable(&row.label), MAX_LABEL_CHARACTERS);
    let _ = writeln!(
        out,
        "<g><title>{}</title><text class=\"label\" x=\"24\" y=\"{:.0}\">{}</text>",
        text(&printable(&row.label)),
        y + 14.0,
        text(&label)
    );
    let room = WIDTH - LABELS_WIDTH - 12.0;
    // Of several bars on the same pixels only one is drawn.
    let mut drawn: BTreeMap<(i64, i64), u64> = BTreeMap::new();
    for episode in row.episodes.iter().map(|index| &picture.episodes[*index]) {
        let (from, to) = picture.place(episode);
        let x = LABELS_WIDTH + from * room;
        let width = ((to - from) * room).max(2.0);
        let pixels = (x.round() as i64, (x + width).round() as i64);
        let count = drawn.entry(pixels).or_default();
        *count += 1;
        if *count > 1 {
            continue;
        }
        let open = if episode.to.is_none() { " open" } else { "" };
        let _ = writeln!(
            out,
            "<rect class=\"{}{open}\" x=\"{x:.1}\" y=\"{:.0}\" width=\"{width:.1}\" \
             height=\"{:.0}\" rx=\"2\"><title>{}</title></rect>",
            class(&episode.what),
            y + 3.0,
            ROW_HEIGHT - 6.0,
            text(&tooltip(episode)),
        );
    }
    out.push_str("</g>\n");
}

/// `12:29:55 ContainerStatus hangs default/web-0/app: the reason`.
fn tooltip(episode: &episodes::Episode) -> String {
    let subject = episode.subject_name();
    let from = episode.from.timestamp().strftime("%H:%M:%S");
    let what = episode.what.title();
    let line = format!("{from} {what} {subject}: {}", reason_text(episode));
    sentence(&line).into_owned()
}

/// Wraps the sentence in lines of at most `max` characters.
fn wrapped(text: &str, max: usize) -> Vec<String> {
    let text = sentence(text);
    let lines = textwrap::wrap(&text, max).into_iter();
    lines.map(Cow::into_owned).collect()
}

/// Cuts the beginning of a name, because names differ at their ends.
pub(crate) fn cut_beginning(text: &str, max: usize) -> String {
    let length = text.chars().count();
    match length <= max {
        true => text.to_owned(),
        false => {
            let tail = text.chars().skip(length - max + 1);
            format!("…{}", tail.collect::<String>())
        }
    }
}

/// Escapes text for an element or an attribute.
pub(crate) fn text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in pleg_text::escape::line(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            character => escaped.push(character),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_closes_an_element() {
        let name = "<script>alert('1')</script>\u{202e}&\"\u{1b}[2J";
        let shown = text(name);
        assert!(!shown.contains(['<', '>', '"', '\'', '\u{202e}', '\u{1b}']));
    }
}
