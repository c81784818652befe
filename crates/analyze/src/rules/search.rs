//! Finds which of many texts are in a line, in one pass that looks only at every sixth place.
//!
//! ```text
//!   a text of nine bytes or more     n o t   r e s p o n d
//!   four bytes at six offsets        n o t _  o t _ r  t _ r e  _ r e s  r e s p  e s p o
//!   a line                           server not responding, still trying
//!   what is looked at                serv   not_   pond    ...
//! ```
//!
//! Wherever a text is in the line, one of its six pieces is at a place that is looked at. The whole text is
//! then compared. Nearly all lines contain no such piece, so they cost only a few lookups. That is several
//! times as fast as the searches of `aho-corasick`, which read every byte.

use std::collections::HashSet;

use causes::facts::facts;

/// How many bytes are looked up at once.
const PIECE: usize = 4;

/// The distance between two places that are looked up.
const STRIDE: usize = 6;

/// The minimum length of a text, so that each of its pieces lies within it.
pub(super) const MIN_TEXT: usize = PIECE + STRIDE - 1;

/// The maximum number of texts in a search. A bit for each of them shows that it was found.
pub(super) const MAX_TEXTS: usize = 2048;

/// How many pieces at the beginning of a text are considered.
const MAX_CANDIDATES: usize = 1024;

const PIECES: usize = 1 << 16;
const BUCKETS: usize = 1 << 12;

#[derive(Clone, Copy, Debug)]
struct Piece {
    bytes: [u8; PIECE],
    text: u16,
    /// Where in the text the piece begins.
    offset: u16,
}

#[derive(Debug)]
pub(super) struct Search {
    texts: Vec<&'static str>,
    /// A bit for each hash, which is set if a piece has this hash.
    known: Box<[u64]>,
    /// The pieces, those of one bucket side by side.
    pieces: Vec<Piece>,
    /// Where each bucket begins in `pieces`, and finally where the last one ends.
    buckets: Vec<u16>,
}

impl Search {
    /// A search for at most [`MAX_TEXTS`] texts, all of them of [`MIN_TEXT`] bytes or more.
    pub(super) fn new(texts: Vec<&'static str>) -> Self {
        assert!(texts.len() <= MAX_TEXTS, "too many texts");
        let usual = facts().usual_lines.iter().flat_map(|line| windows(line));
        // A piece that also occurs in usual lines is chosen only if the text has no better one.
        let usual: HashSet<[u8; PIECE]> = usual.collect();
        let mut pieces: Vec<Piece> = Vec::with_capacity(texts.len() * STRIDE);
        for (number, text) in (0..).zip(&texts) {
            assert!(text.len() >= MIN_TEXT, "{text:?} is too short");
            let all: Vec<[u8; PIECE]> = windows(text).take(MAX_CANDIDATES).collect();
            let is_usual = |piece: &&[u8; PIECE]| usual.contains(*piece);
            let begin = (0..=all.len() - STRIDE)
                .min_by_key(|at| all[*at..][..STRIDE].iter().filter(is_usual).count());
            let begin = begin.unwrap_or(0);
            let chosen = (0..).zip(&all).skip(begin).take(STRIDE);
            pieces.extend(chosen.map(|(offset, bytes)| Piece {
                bytes: *bytes,
                text: number,
                offset,
            }));
        }
        pieces.sort_by_key(|piece| bucket(hash(piece.bytes)));
        let mut known = vec![0u64; PIECES / 64].into_boxed_slice();
        for piece in &pieces {
            let hash = hash(piece.bytes);
            known[hash / 64] |= 1 << (hash % 64);
        }
        let begin = |wanted| pieces.partition_point(|piece| bucket(hash(piece.bytes)) < wanted);
        let buckets = (0..=BUCKETS).map(|wanted| begin(wanted) as u16).collect();
        Self {
            texts,
            known,
            pieces,
            buckets,
        }
    }

    /// Calls `found` once for each text that is in the line, with the text's number. A long line may
    /// contain a text thousands of times, and the caller may read the whole line for each call.
    pub(super) fn each(&self, line: &[u8], mut found: impl FnMut(usize)) {
        let mut seen = [0; MAX_TEXTS / 64];
        let mut first = |text: usize| {
            let (word, bit) = (&mut seen[text / 64], 1u64 << (text % 64));
            if *word & bit == 0 {
                *word |= bit;
                found(text);
            }
        };
        let mut at = 0;
        while let Some(bytes) = line.get(at..).and_then(|rest| rest.first_chunk::<PIECE>()) {
            let hash = hash(*bytes);
            if self.known[hash / 64] & 1 << (hash % 64) != 0 {
                self.compare(line, at, *bytes, hash, &mut first);
            }
            at += STRIDE;
        }
    }

    #[cold]
    fn compare(
        &self,
        line: &[u8],
        at: usize,
        bytes: [u8; PIECE],
        hash: usize,
        found: &mut impl FnMut(usize),
    ) {
        let bucket = bucket(hash);
        let range = usize::from(self.buckets[bucket])..usize::from(self.buckets[bucket + 1]);
        for piece in &self.pieces[range] {
            let text = usize::from(piece.text);
            let begins = at.checked_sub(usize::from(piece.offset));
            let is_there = |begins: usize| line[begins..].starts_with(self.texts[text].as_bytes());
            if piece.bytes == bytes && begins.is_some_and(is_there) {
                found(text);
            }
        }
    }
}

fn windows(text: &str) -> impl Iterator<Item = [u8; PIECE]> {
    let windows = text.as_bytes().windows(PIECE);
    windows.filter_map(|window| window.first_chunk().copied())
}

/// The hash of a piece, which is below [`PIECES`].
fn hash(bytes: [u8; PIECE]) -> usize {
    // Knuth's multiplicative hash: the upper half depends on all bytes.
    (u32::from_le_bytes(bytes).wrapping_mul(0x9e37_79b1) >> 16) as usize
}

fn bucket(hash: usize) -> usize {
    hash % BUCKETS
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(search: &Search, line: &str) -> Vec<usize> {
        let mut found = Vec::new();
        search.each(line.as_bytes(), |text| found.push(text));
        found.sort_unstable();
        found
    }

    #[test]
    fn a_text_is_found_once_wherever_it_stands() {
        let texts = vec!["connection refused", "connection", "NodeReady"];
        let search = Search::new(texts.clone());
        for before in 0..20 {
            for after in 0..9 {
                for (number, text) in texts.iter().enumerate() {
                    let line = format!("{}{text}{}", "-".repeat(before), "=".repeat(after));
                    let expected: &[usize] = if number == 0 { &[0, 1] } else { &[number] };
                    assert_eq!(found(&search, &line), expected, "{line}");
                    let cut = &line[..before + text.len() - 1];
                    assert!(!found(&search, cut).contains(&number), "{cut}");
                }
            }
        }
    }

    #[test]
    fn a_text_that_occurs_many_times_is_reported_once() {
        let search = Search::new(vec!["aaaaaaaaa"]);
        assert_eq!(found(&search, &"a".repeat(20)), [0]);
        for short in ["", "a", "aaaaaaaa"] {
            assert_eq!(found(&search, short), [0; 0]);
        }
    }

    #[test]
    fn a_text_of_any_length_is_found() {
        let usual = &facts().usual_lines[0];
        let usual = usual.repeat((1 << 16) / usual.len() + 1);
        let text: &str = Box::leak(format!("{usual} the array is lost").into_boxed_str());
        assert_eq!(found(&Search::new(vec![text]), text), [0]);
    }

    #[test]
    #[should_panic(expected = "too short")]
    fn a_text_that_could_be_missed_is_refused() {
        Search::new(vec!["NodeRead"]);
    }
}
