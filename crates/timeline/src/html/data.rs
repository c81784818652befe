//! The data of the page. An episode is an array without names, because a day has thousands of episodes.

use std::collections::{BTreeMap, HashMap};

use pleg_text::WallTime;
use pleg_text::escape::line;
use serde::Serialize;

use crate::Picture;
use crate::picture::{drawn_until, reason_text};
use crate::rows::{class, rows, state};

#[derive(Serialize)]
struct Data {
    /// The beginning of the picture, in milliseconds since 1970.
    from: i64,
    /// The end of the picture, in milliseconds since 1970.
    to: i64,
    rows: Vec<RowData>,
    /// Texts, which episodes reference by number.
    texts: Vec<String>,
    /// What to do, by the id of the cause.
    remedies: BTreeMap<String, Vec<String>>,
    episodes: Vec<EpisodeData>,
}

#[derive(Serialize)]
struct RowData {
    label: String,
    section: &'static str,
}

/// Row, class, from, to (negative: still lasting at that time), title, object, reason, file, line,
/// text, count, id, state. Times are milliseconds after the beginning of the picture. Texts other than
/// the class are numbers of `texts`.
type EpisodeData = (
    usize,
    &'static str,
    i64,
    i64,
    usize,
    usize,
    usize,
    usize,
    u64,
    usize,
    u64,
    usize,
    usize,
);

/// Texts without duplicates.
#[derive(Default)]
struct Texts {
    all: Vec<String>,
    known: HashMap<String, usize>,
}

impl Texts {
    /// The number of a text, which is added if it is new. Its control and format characters are
    /// escaped, so that they have no effect on the page.
    fn number(&mut self, text: &str) -> usize {
        let text = line(text);
        if let Some(number) = self.known.get(&*text) {
            return *number;
        }
        let number = self.all.len();
        self.all.push(text.clone().into_owned());
        self.known.insert(text.into_owned(), number);
        number
    }
}

fn remedies(picture: &Picture) -> BTreeMap<String, Vec<String>> {
    let steps = picture.advice.iter().map(|advice| {
        let steps = advice.steps.iter().map(|step| line(step).into_owned());
        (line(&advice.cause).into_owned(), steps.collect())
    });
    steps.collect()
}

/// The data as JSON for a script element.
pub(super) fn json(picture: &Picture) -> String {
    let rows = rows(picture);
    let mut row_of = vec![0; picture.episodes.len()];
    for (number, row) in rows.iter().enumerate() {
        for index in &row.episodes {
            row_of[*index] = number;
        }
    }
    let millis = |time: WallTime| time.as_unix_nanos() / 1_000_000;
    let begin = millis(picture.from);
    let mut texts = Texts::default();
    texts.number("");
    let episodes = picture.episodes.iter().zip(row_of).map(|(episode, row)| {
        let source = episode.source.as_ref();
        let from = millis(episode.from) - begin;
        // 0 has no sign, so an end within the first millisecond is moved to the next one.
        let to = (millis(drawn_until(episode)) - begin).max(1);
        let to = if episode.to.is_none() { -to } else { to };
        (
            row,
            class(&episode.what),
            from,
            to,
            texts.number(&episode.what.title()),
            texts.number(&episode.subject_name()),
            texts.number(&reason_text(episode)),
            source.map_or(0, |source| texts.number(&source.file)),
            source.and_then(|source| source.line).unwrap_or(0),
            source.map_or(0, |source| texts.number(&source.text)),
            episode.count,
            texts.number(episode.subject.id.as_deref().unwrap_or_default()),
            texts.number(state(&episode.what)),
        )
    });
    let episodes = episodes.collect();
    let shown = rows.iter().map(|row| RowData {
        label: line(&row.label).into_owned(),
        section: row.section.title(),
    });
    let data = Data {
        from: begin,
        to: millis(picture.to),
        rows: shown.collect(),
        texts: texts.all,
        remedies: remedies(picture),
        episodes,
    };
    // In JSON, these characters occur only within strings.
    serde_json::to_string(&data)
        .unwrap_or_default()
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
}

#[cfg(test)]
mod tests {
    use causes::finding::{Culprit, PodName};
    use episodes::{Episode, What};

    use super::*;

    #[test]
    fn no_name_closes_the_script() {
        let time = WallTime::from_unix_nanos(1_700_000_000_000_000_000).unwrap();
        let name = "</script><!--\u{202e}\u{1b}[2J".to_owned();
        let who = Culprit {
            pod: Some(PodName {
                name: Some(name),
                ..PodName::default()
            }),
            ..Culprit::default()
        };
        let episode = Episode::at(time, What::PodWaited, "</script>").about(who);
        let json = json(&Picture::new("", vec![episode]).unwrap());
        assert!(!json.contains(['<', '>', '\u{202e}', '\u{1b}']), "{json}");
        let read: serde_json::Value = serde_json::from_str(&json).unwrap();
        let label = read["rows"][0]["label"].as_str().unwrap();
        assert_eq!(label, "</script><!--\\u{202e}\\u{1b}[2J (0s)");
    }
}
