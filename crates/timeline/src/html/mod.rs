//! The picture as one page: no network, no framework.
//!
//! ```text
//!   page.html   head, summary, causes, legend   filled in here
//!   page.css    on a screen, on paper
//!   page.js     draws the rows from the data, zooms, answers the mouse and the keys
//!   data        JSON, which the script shows only as text
//!   noscript    the SVG
//! ```
//!
//! Foreign text, such as the name of a pod or a line of a log, is escaped in HTML. In JSON, `<` is
//! escaped, and the script shows these strings only as text.

mod data;

use std::fmt::Write;

use crate::Picture;
use crate::rows::legend;
use crate::scale::title;
use crate::svg::{COLOURS, text};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Renders the whole page.
pub fn html(picture: &Picture) -> String {
    let data = data::json(picture);
    let filled = [
        ("TITLE", text(&title(picture))),
        ("NODE", node(picture)),
        ("SUMMARY", text(&picture.summary)),
        ("CAUSES", causes(picture)),
        ("NOTES", notes(picture)),
        ("LEGEND", key(picture)),
        ("SOURCES", sources(picture)),
        ("COLOURS", COLOURS.to_owned()),
        ("STYLE", STYLE.to_owned()),
        ("SCRIPT", SCRIPT.to_owned()),
        ("PICTURE", crate::svg(picture)),
        ("DATA", data),
    ];
    fill(PAGE, &filled)
}

/// Replaces each placeholder once. Placeholders in the inserted texts are not replaced.
fn fill(page: &str, filled: &[(&str, String)]) -> String {
    let mut rest = page;
    let mut out = String::with_capacity(page.len());
    while let Some((before, after)) = rest.split_once("{{") {
        let (name, after) = after.split_once("}}").unwrap_or((after, ""));
        out.push_str(before);
        let value = filled.iter().find(|(its, _)| *its == name);
        out.push_str(value.map_or("", |(_, value)| value));
        rest = after;
    }
    out.push_str(rest);
    out
}

fn node(picture: &Picture) -> String {
    let node = picture.node.as_deref();
    node.map_or(String::new(), |node| format!("{} · ", text(node)))
}

fn causes(picture: &Picture) -> String {
    if picture.advice.is_empty() {
        return String::new();
    }
    let mut out = String::from("<ol class=\"causes\">");
    for (number, advice) in picture.advice.iter().enumerate() {
        let open = if number == 0 { " open" } else { "" };
        let _ = write!(
            out,
            "<li><details{open}><summary><b>{}</b> <span class=\"quiet\">{}</span> {}</summary>",
            text(&advice.cause),
            text(&advice.confidence_note()),
            marked(&advice.sentence)
        );
        if let Some(culprit) = &advice.culprit {
            let _ = write!(out, "<p>Culprit: {}</p>", text(culprit));
        }
        if let Some(evidence) = &advice.evidence {
            let _ = write!(out, "<p class=\"quiet\">{}</p>", text(evidence));
        }
        if !advice.steps.is_empty() {
            out.push_str("<ul>");
            for step in &advice.steps {
                let _ = write!(out, "<li>{}</li>", marked(step));
            }
            out.push_str("</ul>");
        }
        out.push_str("</details></li>");
    }
    out + "</ol>"
}

/// Text in which backticks mark code.
fn marked(sentence: &str) -> String {
    let parts = sentence.split('`').enumerate();
    let part = |(number, part)| match number % 2 {
        0 => text(part),
        _ => format!("<code>{}</code>", text(part)),
    };
    parts.map(part).collect()
}

/// The legend of the colours.
fn key(picture: &Picture) -> String {
    let entry = |(class, meaning): (&str, &str)| {
        format!(
            "<span class=\"key pleg\"><svg width=\"14\" height=\"10\"><rect class=\"{class}\" x=\"1\" y=\"1\" width=\"12\" height=\"8\" rx=\"2\"/></svg> {meaning}</span>"
        )
    };
    legend(picture).into_iter().map(entry).collect()
}

fn notes(picture: &Picture) -> String {
    let line = |note: &String| format!("<p class=\"quiet\">Note: {}</p>", text(note));
    picture.notes.iter().map(line).collect()
}

fn sources(picture: &Picture) -> String {
    match picture.sources.is_empty() {
        true => String::new(),
        false => format!("<p>Read: {}.</p>", text(&picture.sources.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_the_form_of_a_placeholder_is_not_replaced() {
        let filled = [("A", "{{B}}".to_owned()), ("B", "b".to_owned())];
        assert_eq!(fill("<{{A}}{{B}}>", &filled), "<{{B}}b>");
    }
}
