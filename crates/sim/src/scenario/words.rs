//! The words of a line, and the errors of unexpected ones.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::Range;
use std::time::Duration;

use pleg_text::GoDuration;

use super::ContainerName;

/// An error in a scenario: its place, the line, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    name: String,
    line: usize,
    text: String,
    unexpected: Unexpected,
}

impl std::error::Error for ScenarioError {}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unexpected { column, width, why } = &self.unexpected;
        writeln!(f, "{}:{}: {why}", self.name, self.line)?;
        writeln!(f, "  {}", self.text.replace('\t', " "))?;
        let (space, mark) = (" ".repeat(*column), "^".repeat((*width).max(1)));
        write!(f, "  {space}{mark}")
    }
}

/// An error in a line, with its place in characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unexpected {
    column: usize,
    width: usize,
    why: String,
}

impl Unexpected {
    pub(super) fn at(self, name: &str, line: usize, text: &str) -> ScenarioError {
        ScenarioError {
            name: name.to_owned(),
            line,
            text: text.trim_end().to_owned(),
            unexpected: self,
        }
    }

    /// An error in this part of the line.
    pub(super) fn part(line: &str, part: Range<usize>, why: String) -> Self {
        Self {
            column: line[..part.start].chars().count(),
            width: line[part].chars().count(),
            why,
        }
    }
}

pub(super) type Read<T> = Result<T, Unexpected>;

/// A line, word by word. A comment ends it.
pub(super) struct Words<'a> {
    line: &'a str,
    /// The offset of the next word; `end` if there is none.
    next: usize,
    end: usize,
}

/// A word and its place in the line.
#[derive(Clone, Copy)]
pub(super) struct Word<'a> {
    pub(super) text: &'a str,
    column: usize,
}

impl Word<'_> {
    pub(super) fn unexpected(&self, expected: &str) -> Unexpected {
        self.wrong(format!("expected {expected}, found {:?}", self.text))
    }

    pub(super) fn wrong(&self, why: String) -> Unexpected {
        Unexpected {
            column: self.column,
            width: self.text.chars().count(),
            why,
        }
    }
}

impl<'a> Words<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        let before = |at: usize| line[..at].chars().next_back();
        let mut marks = line.match_indices('#').map(|(at, _)| at);
        let comment = marks.find(|at| before(*at).is_none_or(char::is_whitespace));
        let end = comment.unwrap_or(line.len());
        let end = line[..end].trim_end().len();
        let next = end - line[..end].trim_start().len();
        Self { line, next, end }
    }

    pub(super) fn line(&self) -> &'a str {
        self.line
    }

    /// The part of the line that is not read yet, without the comment.
    pub(super) fn remaining(&self) -> Range<usize> {
        self.next..self.end
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.next == self.end
    }

    /// The next word. Fails if there is none.
    pub(super) fn word(&mut self, expected: &str) -> Read<Word<'a>> {
        self.optional().ok_or_else(|| Unexpected {
            column: self.line[..self.end].chars().count(),
            width: 1,
            why: format!("expected {expected}, found the end of the line"),
        })
    }

    /// The next word, if there is one.
    pub(super) fn optional(&mut self) -> Option<Word<'a>> {
        let rest = &self.line[self.next..self.end];
        let text = rest.split_whitespace().next()?;
        let column = self.line[..self.next].chars().count();
        let after = &rest[text.len()..];
        self.next = self.end - after.trim_start().len();
        Some(Word { text, column })
    }

    /// The next word, without removing it.
    pub(super) fn peek(&self) -> Option<&'a str> {
        self.line[self.next..self.end].split_whitespace().next()
    }

    /// Removes the next word if it is this keyword. Returns whether it is.
    pub(super) fn takes(&mut self, keyword: &str) -> bool {
        let is_next = self.peek() == Some(keyword);
        if is_next {
            self.optional();
        }
        is_next
    }

    /// The rest of the line.
    pub(super) fn rest(&mut self) -> &'a str {
        let rest = &self.line[self.next..self.end];
        self.next = self.end;
        rest
    }

    /// Fails if another word follows.
    pub(super) fn end(&mut self) -> Read<()> {
        match self.optional() {
            None => Ok(()),
            Some(word) => Err(word.unexpected("the end of the line")),
        }
    }

    /// Fails if the next word is not this keyword.
    pub(super) fn keyword(&mut self, keyword: &str) -> Read<()> {
        let word = self.word(keyword)?;
        match word.text == keyword {
            true => Ok(()),
            false => Err(word.unexpected(keyword)),
        }
    }

    /// A time since the beginning, or, after a `+`, since the time of the line before.
    pub(super) fn time(&mut self, last: Duration) -> Read<Duration> {
        const EXPECTED: &str = "a time (1.5s, 2m30s; +5s for after the line before)";
        let word = self.word(EXPECTED)?;
        let (text, from) = match word.text.strip_prefix('+') {
            Some(text) => (text, last),
            None => (word.text, Duration::ZERO),
        };
        let time = text.parse::<GoDuration>();
        let time = from + time.map_err(|_| word.unexpected(EXPECTED))?.0;
        if time < last {
            let last = GoDuration(last);
            return Err(word.unexpected(&format!(
                "a time that is not before that of the line before ({last})"
            )));
        }
        Ok(time)
    }

    pub(super) fn duration(&mut self) -> Read<Duration> {
        const EXPECTED: &str = "a duration (500ms, 1.5s, 2m30s)";
        let word = self.word(EXPECTED)?;
        let duration = word.text.parse::<GoDuration>();
        Ok(duration.map_err(|_| word.unexpected(EXPECTED))?.0)
    }

    /// An exit code, or the default at the end of the line.
    pub(super) fn optional_code(&mut self, default: i32) -> Read<i32> {
        match self.optional() {
            None => Ok(default),
            Some(word) => {
                let code = word.text.parse::<u8>();
                let code = code.map_err(|_| word.unexpected("an exit code from 0 to 255"));
                code.map(i32::from)
            }
        }
    }

    /// `every N`.
    pub(super) fn every(&mut self) -> Read<NonZeroU32> {
        self.keyword("every")?;
        self.positive()
    }

    /// A number from 1.
    pub(super) fn positive(&mut self) -> Read<NonZeroU32> {
        let expected = "a number from 1";
        let word = self.word(expected)?;
        word.text.parse().map_err(|_| word.unexpected(expected))
    }

    pub(super) fn pod(&mut self) -> Read<String> {
        let expected = "a pod's name";
        let word = self.word(expected)?;
        match word.text.contains('/') {
            true => Err(word.unexpected(expected)),
            false => Ok(word.text.to_owned()),
        }
    }

    pub(super) fn container(&mut self) -> Read<ContainerName> {
        let expected = "POD/CONTAINER";
        let word = self.word(expected)?;
        container_name(word.text).ok_or_else(|| word.unexpected(expected))
    }
}

/// The name of a container with its pod.
pub(super) fn container_name(text: &str) -> Option<ContainerName> {
    let (pod, container) = text.split_once('/')?;
    let is_name = |name: &str| !name.is_empty() && !name.contains('/');
    (is_name(pod) && is_name(container)).then(|| ContainerName {
        pod: pod.to_owned(),
        container: container.to_owned(),
    })
}
