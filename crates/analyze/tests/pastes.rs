//! What people paste when a node is NotReady. Each file has the form of a public thread. `pastes/index.tsv`
//! says which thread, what a careful expert concludes from it, and why.

mod read;

use std::num::NonZeroUsize;

use analyze::analysis::{Analysis, Analyzer};
use analyze::input::{NoObserver, read as read_files};
use causes::finding::{Confidence, Finding, Verdict};
use read::now;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/pastes");

/// A row of the index.
struct Paste<'a> {
    files: &'a str,
    kinds: Vec<&'a str>,
    /// Any of these causes is right; `-` stands for no cause.
    causes: Vec<&'a str>,
    is_healthy: bool,
    /// Whether the text itself shows that something is wrong.
    is_fault: bool,
    /// The highest confidence that the first finding may have.
    most: Option<&'a str>,
    /// Texts that the answer must not contain, because they would do harm.
    never: Vec<&'a str>,
}

fn paste(row: &str) -> Paste<'_> {
    let fields: Vec<&str> = row.split('\t').collect();
    let [files, kinds, causes, state, origin, why, ref bounds @ ..] = fields[..] else {
        panic!("six fields, or eight: {row}");
    };
    assert!(matches!(state, "healthy" | "fault" | "unclear"), "{row}");
    assert!(!origin.is_empty() && !why.is_empty(), "{row}");
    Paste {
        files,
        kinds: kinds.split(' ').collect(),
        causes: causes.split('|').collect(),
        is_healthy: state == "healthy",
        is_fault: state == "fault",
        most: bounds.first().copied().filter(|most| *most != "-"),
        never: bounds
            .get(1)
            .map_or_else(Vec::new, |texts| texts.split('|').collect()),
    }
}

fn analyze(files: &str) -> Analysis {
    let mut analyzer = Analyzer::new();
    let paths = files.split(' ').map(|name| format!("{FOLDER}/{name}"));
    let paths: Vec<_> = paths.collect();
    let one = NonZeroUsize::MIN;
    let unreadable = read_files(&paths, now(), one, &mut analyzer, &mut NoObserver);
    assert!(unreadable.is_empty(), "{unreadable:?}");
    analyzer.finish()
}

/// Whether a text has 100 characters or more, or names the id of a container or of an exec.
fn is_no_headline(said: &str) -> bool {
    let mut words = said.split(|char: char| !char.is_ascii_hexdigit());
    said.chars().count() >= 100 || words.any(|word| word.len() == 64)
}

/// What is wrong with the answer, if anything is.
fn mistake(paste: &Paste, found: &Analysis) -> Option<String> {
    let named: Vec<_> = found.findings.iter().collect();
    let leading = named.first().map_or("-", |finding| finding.cause.id());
    let surely = named
        .iter()
        .filter(|finding| finding.verdict == Verdict::Problem);
    let wrong: Vec<_> = surely
        .map(|finding| finding.cause.id())
        .filter(|id| !paste.causes.contains(id))
        .collect();
    let kinds: Vec<_> = found
        .inputs
        .iter()
        .map(|input| input.kind.as_str())
        .collect();
    let is_kind = |kind: &&str| {
        paste
            .kinds
            .iter()
            .any(|kinds| kinds.split('|').any(|one| one == *kind))
    };
    let sure = |finding: &&Finding| finding.confidence.as_str() == paste.most.unwrap_or_default();
    let too_high = Confidence::ALL.iter().map(|sure| sure.as_str());
    let too_high: Vec<_> = too_high
        .skip_while(|sure| Some(*sure) != paste.most)
        .skip(1)
        .collect();
    let too_sure = named
        .first()
        .filter(|it| too_high.contains(&it.confidence.as_str()) && !sure(it));
    let said = found
        .findings
        .iter()
        .flat_map(|it| it.evidence.iter().map(String::as_str).chain([it.said()]));
    let advised = found
        .findings
        .iter()
        .flat_map(|it| it.advice.iter().map(|advice| &**advice));
    let pleg = found.pleg.iter().map(|pleg| &*pleg.reading);
    let mut headlines = found
        .findings
        .iter()
        .map(Finding::said)
        .chain([&*found.summary]);
    let mut said = said.chain(advised).chain(pleg).chain([&*found.summary]);
    let never = |text: &&&str| !text.is_empty() && said.any(|said| said.contains(**text));
    if let Some(harmful) = paste.never.iter().find(never) {
        Some(format!("it says {harmful:?}"))
    } else if let Some(finding) = too_sure {
        Some(format!("{} is too sure", finding.confidence.as_str()))
    } else if let Some(headline) = headlines.find(|it| is_no_headline(it)) {
        Some(format!("it is too long, or names an id: {headline}"))
    } else if paste.is_healthy && found.has_problem() {
        Some(format!("healthy, and it says: {}", found.summary))
    } else if !paste.causes.contains(&leading) {
        Some(format!(
            "{:?} expected, {leading} named first",
            paste.causes
        ))
    } else if !wrong.is_empty() {
        Some(format!("{wrong:?} named for sure"))
    } else if !kinds.iter().all(is_kind) {
        Some(format!("{kinds:?} and not {:?}", paste.kinds))
    } else if paste.is_fault && !found.has_problem() {
        Some(format!("a fault, and it says: {}", found.summary))
    } else {
        None
    }
}

#[test]
fn what_people_paste_is_explained_as_an_expert_would() {
    let index = std::fs::read_to_string(format!("{FOLDER}/index.tsv")).unwrap();
    let rows: Vec<&str> = index.lines().skip(1).collect();
    assert!(rows.len() >= 30, "{} rows", rows.len());
    let mut mistakes = Vec::new();
    for row in rows {
        let paste = paste(row);
        if let Some(mistake) = mistake(&paste, &analyze(paste.files)) {
            mistakes.push(format!("{}: {mistake}", paste.files));
        }
    }
    assert!(mistakes.is_empty(), "{mistakes:#?}");
}
