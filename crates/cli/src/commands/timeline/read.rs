//! What a picture is made of, from everything that can be read.

use std::num::NonZeroUsize;

use analyze::analysis::{Analysis, Analyzer};
use analyze::input::{self, NoObserver};
use anyhow::anyhow;
use pleg::model::wall_time::WallTime;
use timeline::{Advice, Picture};

use crate::output::sentence;

/// What was read.
pub struct Read {
    /// What to draw; none if nothing has a time.
    pub picture: Option<Picture>,
    /// The inputs, with what they are.
    pub sources: Vec<String>,
}

/// Reads all paths.
pub fn read(paths: &[String], now: WallTime) -> anyhow::Result<Read> {
    let mut analyzer = Analyzer::new();
    let unreadable = input::read(
        paths,
        now,
        NonZeroUsize::MIN,
        &mut analyzer,
        &mut NoObserver,
    );
    let analysis = analyzer.finish();
    let mut notes: Vec<String> = Vec::new();
    for error in unreadable {
        let error = anyhow::Error::from(error);
        if !analysis.inputs.iter().any(|input| input.error.is_none()) {
            return Err(error);
        }
        notes.push(format!("Not complete: {}.", sentence(&anyhow!(error))));
    }
    if analysis.dropped.episodes > 0 {
        notes.push(format!(
            "{} more episodes were read than can be kept; they are missing here.",
            analysis.dropped.episodes
        ));
    }
    let sources: Vec<String> = analysis
        .inputs
        .iter()
        .map(|input| {
            format!(
                "{} ({}, {} lines)",
                input.path,
                input.kind.as_str(),
                input.lines
            )
        })
        .collect();
    let advice = advice(&analysis);
    let summary = summary(&analysis);
    let picture = Picture::new(summary, analysis.episodes).map(|picture| Picture {
        advice,
        sources: sources.clone(),
        notes,
        ..picture
    });
    Ok(Read { picture, sources })
}

/// What the analysis says, if it found something; otherwise what the picture shows.
fn summary(analysis: &Analysis) -> String {
    let end = analysis.episodes.iter().map(|it| it.to.unwrap_or(it.from));
    match end.max() {
        Some(end) if !analysis.has_problem() => timeline::summary(&analysis.episodes, end),
        _ => analysis.summary.clone(),
    }
}

fn advice(analysis: &Analysis) -> Vec<Advice> {
    let findings = analysis.findings.iter();
    let advice = findings.map(|finding| Advice {
        cause: finding.cause.id().to_owned(),
        confidence: finding.confidence.as_str().to_owned(),
        sentence: match finding.sentence.is_empty() {
            true => finding.title.to_owned(),
            false => finding.sentence.clone(),
        },
        steps: finding.advice.iter().map(ToString::to_string).collect(),
    });
    advice.collect()
}
