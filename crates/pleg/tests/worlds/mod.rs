//! Runs many random worlds side by side, each in virtual time, and prints the seeds of those that
//! fail. Most seeds are the same in each run, so that a failure is caused by a change; one in ten is
//! fresh, so that each run also tries new ones.
//!
//! `PLEG_WORLDS=100000` tries this many fresh seeds; a failure prints its seed, and `PLEG_SEED=n`
//! replays it.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// One in this many worlds has a fresh seed.
const FRESH: u64 = 10;

/// Runs the worlds of these seeds, and `worlds` more. A world that panics has failed.
pub fn live_each<World: Future<Output = ()>>(
    seeds: &[u64],
    worlds: u64,
    world: impl Fn(u64) -> World + Sync,
) {
    if let Ok(seed) = std::env::var("PLEG_SEED") {
        live(world(seed.parse().expect("PLEG_SEED is a number")));
        return;
    }
    let (known, fresh) = match std::env::var("PLEG_WORLDS") {
        Ok(fresh) => (0, fresh.parse().expect("PLEG_WORLDS is a number")),
        Err(_) => (worlds - worlds / FRESH, worlds / FRESH),
    };
    let first = fastrand::u64(..);
    eprintln!("{fresh} fresh worlds from PLEG_SEED={first} on, and {known} known ones");
    let fresh = move || (0..fresh).map(move |number| first.wrapping_add(number));
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (wrong, world, fresh) = (&wrong, &world, &fresh);
            scope.spawn(move || {
                let seeds = seeds.iter().copied().chain(0..known).chain(fresh());
                for seed in seeds.skip(thread).step_by(threads) {
                    if catch_unwind(AssertUnwindSafe(|| live(world(seed)))).is_err() {
                        eprintln!("the world of PLEG_SEED={seed} is wrong");
                        wrong
                            .lock()
                            .expect("no thread panics while it holds the lock")
                            .push(seed);
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("all are done");
    assert!(
        wrong.is_empty(),
        "{} worlds are wrong: {wrong:?}",
        wrong.len()
    );
}

fn live(world: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build();
    runtime.expect("a runtime needs nothing").block_on(world);
}
