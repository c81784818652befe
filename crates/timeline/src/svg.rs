//! The picture as SVG, without a script. States are CSS classes; the colours are for
//! a light and a dark page.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;

use episodes::Episode;
use pleg_text::escape::{printable, sentence};

use crate::Picture;
use crate::picture::{duration_text, reason_text};
use crate::rows::{Row, class, legend, rows, sections, state};
use crate::scale::{marks, title};

/// The CSS of the colours, for the SVG and the page.
pub(crate) const COLOURS: &str = include_str!("colours.css");

const WIDTH: f64 = 1200.0;
const LABELS_WIDTH: f64 = 330.0;
const ROW_HEIGHT: f64 = 20.0;
/// The height of the title with the time, and of the axis.
const HEAD_HEIGHT: f64 = 54.0;
/// The free space at the right edge.
const MARGIN: f64 = 12.0;
/// The maximum width of a character of the axis.
const AXIS_CHARACTER: f64 = 7.0;
/// The maximum width of a character in a bar.
const BAR_CHARACTER: f64 = 6.3;
/// The maximum length of a label; longer ones are cut.
const MAX_LABEL_CHARACTERS: usize = 46;
/// The maximum length of a line of the summary; longer ones are wrapped.
const MAX_SUMMARY_CHARACTERS: usize = 130;
/// The maximum length of a line of a note; longer ones are wrapped.
const MAX_NOTE_CHARACTERS: usize = 175;

/// The whole picture as one SVG file.
pub fn svg(picture: &Picture) -> String {
    let rows = rows(picture);
    let lines = rows.len() + sections(&rows).count();
    let summary = wrapped(&picture.summary, MAX_SUMMARY_CHARACTERS);
    let notes = picture.notes.iter().map(|note| format!("Note: {note}"));
    let notes = notes.flat_map(|note| wrapped(&note, MAX_NOTE_CHARACTERS));
    let notes: Vec<String> = notes.collect();
    let head = HEAD_HEIGHT + summary.len() as f64 * ROW_HEIGHT;
    let below = head + lines as f64 * ROW_HEIGHT;
    let legend_at = below + notes.len() as f64 * ROW_HEIGHT;
    let height = legend_at + ROW_HEIGHT + 10.0;
    let mut out = String::new();
    let _ = writeln!(
        out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
         width=\"{WIDTH}\" height=\"{height}\" role=\"img\" class=\"pleg\">\n\
         <title>{}</title>\n<style>{COLOURS}</style>\n\
         <rect class=\"page\" width=\"{WIDTH}\" height=\"{height}\"/>",
        text(&picture.summary),
    );
    for (number, line) in summary.iter().enumerate() {
        let y = 24.0 + number as f64 * ROW_HEIGHT;
        draw_line("summary", y, line, &mut out);
    }
    draw_line("quiet", head - 30.0, &title(picture), &mut out);
    for (number, line) in notes.iter().enumerate() {
        let y = below + 15.0 + number as f64 * ROW_HEIGHT;
        draw_line("quiet", y, line, &mut out);
    }
    for mark in marks(picture, 6) {
        let x = LABELS_WIDTH + mark.at * (WIDTH - LABELS_WIDTH - MARGIN);
        let width = mark.text.chars().count() as f64 * AXIS_CHARACTER;
        let text_x = (x + 3.0).min(WIDTH - 2.0 - width);
        let _ = writeln!(
            out,
            "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{:.0}\" y2=\"{below:.0}\"/>\
             <text class=\"quiet\" x=\"{text_x:.1}\" y=\"{:.0}\">{}</text>",
            head - 6.0,
            head - 8.0,
            text(&mark.text)
        );
    }
    let mut y = head;
    for (section, rows) in sections(&rows) {
        draw_line("section", y + 15.0, section.title(), &mut out);
        y += ROW_HEIGHT;
        for row in rows {
            draw_row(picture, row, y, &mut out);
            y += ROW_HEIGHT;
        }
    }
    draw_legend(picture, legend_at, &mut out);
    out.push_str("</svg>\n");
    out
}

/// Draws the legend: the meaning of each colour that is used, in one line.
fn draw_legend(picture: &Picture, y: f64, out: &mut String) {
    let mut x = 12.0;
    for (class, meaning) in legend(picture) {
        let _ = writeln!(
            out,
            "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{:.0}\" width=\"14\" height=\"10\" rx=\"2\"/>\
             <text class=\"quiet\" x=\"{:.1}\" y=\"{:.0}\">{meaning}</text>",
            y + 8.0,
            x + 19.0,
            y + 17.0
        );
        x += 19.0 + meaning.len() as f64 * 6.2 + 14.0;
    }
}

/// Draws a line of text at the left edge.
fn draw_line(class: &str, y: f64, line: &str, out: &mut String) {
    let line = text(line);
    let _ = writeln!(
        out,
        "<text class=\"{class}\" x=\"12\" y=\"{y:.0}\">{line}</text>"
    );
}

fn draw_row(picture: &Picture, row: &Row, y: f64, out: &mut String) {
    let label = cut_beginning(&printable(&row.label), MAX_LABEL_CHARACTERS);
    let _ = writeln!(
        out,
        "<g><title>{}</title><text class=\"label\" x=\"24\" y=\"{:.0}\">{}</text>",
        text(&printable(&row.label)),
        y + 14.0,
        text(&label)
    );
    let room = WIDTH - LABELS_WIDTH - MARGIN;
    // The end of the last text in a bar.
    let mut written = 0.0;
    // If several bars have the same pixels, only the first one is drawn.
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
        if let Some(inside) = bar_text(episode, width).filter(|_| x >= written) {
            written = x + width;
            let _ = writeln!(
                out,
                "<text class=\"inside\" x=\"{:.1}\" y=\"{:.0}\">{}</text>",
                x + 5.0,
                y + 14.0,
                text(&inside)
            );
        }
    }
    out.push_str("</g>\n");
}

/// The state and the duration, or the state alone, whichever fits a bar of this width.
fn bar_text(episode: &Episode, width: f64) -> Option<String> {
    let state = state(&episode.what);
    let both = format!("{state} {}", duration_text(episode));
    let fits = |text: &&str| text.chars().count() as f64 * BAR_CHARACTER + 10.0 <= width;
    let inside = [both.trim_end(), state].into_iter().find(fits)?;
    (!state.is_empty()).then(|| printable(inside).into_owned())
}

/// The tooltip of a bar: `12:29:55 ContainerStatus hangs default/web-0/app: the reason`.
fn tooltip(episode: &Episode) -> String {
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

/// Cuts the beginning of a long name, because names differ at their ends.
pub(crate) fn cut_beginning(text: &str, max: usize) -> String {
    let length = text.chars().count();
    match length <= max {
        true => text.to_owned(),
        false => ['…']
            .into_iter()
            .chain(text.chars().skip(length - max + 1))
            .collect(),
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
    use episodes::{Episode, What};
    use pleg_text::WallTime;

    use super::*;

    /// The positions and the texts of all text elements of a class.
    fn texts<'a>(svg: &'a str, class: &str) -> Vec<(f64, &'a str)> {
        let start = format!("<text class=\"{class}\" x=\"");
        let elements = svg.split(&start).skip(1);
        let read = elements.map(|element| {
            let (x, rest) = element.split_once('"').unwrap();
            let (_, rest) = rest.split_once('>').unwrap();
            let (text, _) = rest.split_once('<').unwrap();
            (x.parse().unwrap(), text)
        });
        read.collect()
    }

    fn second(second: i64) -> WallTime {
        WallTime::from_unix_nanos((1_714_997_400 + second) * 1_000_000_000).unwrap()
    }

    #[test]
    fn no_text_of_the_axis_or_the_legend_is_clipped() {
        for length in [1, 7, 50, 59, 60, 61, 300, 3599, 86_400, 86_400 * 40] {
            let what = [
                What::NotReady,
                What::NoRelist,
                What::NotRecorded,
                What::Guarding,
            ];
            let call = What::HungCall {
                call: "ContainerStatus".into(),
            };
            let health = What::Health {
                state: "Degraded".into(),
            };
            let all = what.into_iter().chain([call, health, What::KubeletStarted]);
            let episodes = all.map(|what| Episode::new(second(0), Some(second(length)), what, ""));
            let open = Episode::new(second(0), None, What::NoRelist, "");
            let picture = Picture::new("", episodes.chain([open]).collect()).unwrap();
            let svg = svg(&picture);
            for (x, text) in texts(&svg, "quiet") {
                let end = x + text.chars().count() as f64 * 6.2;
                assert!(end <= WIDTH, "{length}: {text} ends at {end}");
            }
        }
    }

    #[test]
    fn a_bar_says_its_state_and_duration_if_there_is_room() {
        let call = |from, to| {
            let what = What::HungCall {
                call: "ContainerStatus".into(),
            };
            Episode::new(second(from), to, what, "")
        };
        let long = call(0, Some(second(28)));
        let short = call(60, Some(second(63)));
        let open = Episode::new(second(40), None, What::NotReady, "");
        let open = open.seen_until(Some(second(100)));
        let picture = Picture::new("", vec![long, short, open]).unwrap();
        let svg = svg(&picture);
        let inside: Vec<&str> = texts(&svg, "inside")
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        assert_eq!(inside, ["no answer 28s", "NotReady"]);
        let legend: Vec<&str> = texts(&svg, "quiet")
            .into_iter()
            .map(|(_, text)| text)
            .collect();
        for part in ["call not answered, or task blocked", "end not known"] {
            assert!(legend.contains(&part), "{legend:?}");
        }
        assert!(!legend.contains(&"event"), "{legend:?}");
    }

    #[test]
    fn no_name_closes_an_element() {
        let name = "<script>alert('1')</script>\u{202e}&\"\u{1b}[2J";
        let shown = text(name);
        assert!(!shown.contains(['<', '>', '"', '\'', '\u{202e}', '\u{1b}']));
    }
}
