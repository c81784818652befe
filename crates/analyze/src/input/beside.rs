//! Reads several sources at once, each in a thread.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use pleg_text::WallTime;

use super::Observer;
use super::source::{Ended, Source};

/// The observer, which the threads share.
struct Shared<'a, 'b>(&'a Mutex<&'b mut dyn Observer>);

impl Observer for Shared<'_, '_> {
    fn begins(&mut self, path: &str, bytes: Option<u64>) {
        lock(self.0).begins(path, bytes);
    }

    fn read(&mut self, bytes: u64) {
        lock(self.0).read(bytes);
    }

    fn waits(&mut self, path: &str) {
        lock(self.0).waits(path);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads all sources, `at_once` of them in parallel; returns the results in the order of the sources.
pub(super) fn read_all(
    sources: Vec<Source>,
    now: WallTime,
    at_once: NonZeroUsize,
    observer: &mut dyn Observer,
) -> Vec<Ended> {
    let threads = at_once.get().min(sources.len());
    let left = Mutex::new(sources.into_iter().enumerate());
    let observer = Mutex::new(observer);
    let next = || lock(&left).next();
    let work = || {
        let mut ended = Vec::new();
        while let Some((number, source)) = next() {
            ended.push((number, source.read(now, &mut Shared(&observer))));
        }
        ended
    };
    let mut all: Vec<(usize, Ended)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        ended
            .flat_map(|it| it.unwrap_or_else(|panic| resume_unwind(panic)))
            .collect()
    });
    all.sort_by_key(|(number, _)| *number);
    all.into_iter().map(|(_, ended)| ended).collect()
}
