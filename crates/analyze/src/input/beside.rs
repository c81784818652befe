//! Reads several sources at once, each in a thread; the observer is called in one thread.

use std::num::NonZeroUsize;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use pleg_text::WallTime;

use super::Observer;
use super::source::{Ended, Source};
use crate::rules::LineSearch;

/// A message from a thread.
enum Word {
    Begins(String, Option<u64>),
    Read(u64),
    Waits(String),
    Ended(usize, Box<Ended>),
}

struct Teller(SyncSender<Word>);

impl Teller {
    fn tell(&self, word: Word) {
        // The receiver is gone only when the process ends.
        let _ = self.0.send(word);
    }
}

impl Observer for Teller {
    fn begins(&mut self, path: &str, bytes: Option<u64>) {
        self.tell(Word::Begins(path.to_owned(), bytes));
    }

    fn read(&mut self, bytes: u64) {
        self.tell(Word::Read(bytes));
    }

    fn waits(&mut self, path: &str) {
        self.tell(Word::Waits(path.to_owned()));
    }
}

/// Reads all of them; returns the results in their order.
pub(super) fn read_all(
    sources: Vec<Source>,
    now: WallTime,
    at_once: NonZeroUsize,
    search: &Arc<LineSearch>,
    observer: &mut dyn Observer,
) -> Vec<Ended> {
    let mut all: Vec<Option<Ended>> = sources.iter().map(|_| None).collect();
    let threads = at_once.get().min(sources.len());
    let left = Mutex::new(sources.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    thread::scope(|scope| {
        let (words, heard) = sync_channel(64);
        for _ in 0..threads {
            let (mut teller, next) = (Teller(words.clone()), &next);
            scope.spawn(move || {
                while let Some((number, source)) = next() {
                    let ended = source.read(now, search, &mut teller);
                    teller.tell(Word::Ended(number, Box::new(ended)));
                }
            });
        }
        drop(words);
        for word in heard {
            match word {
                Word::Begins(path, bytes) => observer.begins(&path, bytes),
                Word::Read(bytes) => observer.read(bytes),
                Word::Waits(path) => observer.waits(&path),
                Word::Ended(number, ended) => all[number] = Some(*ended),
            }
        }
    });
    all.into_iter().flatten().collect()
}
