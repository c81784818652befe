//! Runs many random worlds side by side, each in virtual time, and prints the seeds of those that
//! are wrong. Each run has fresh seeds, after those of worlds that were wrong once.
//!
//! `PLEG_WORLDS=100000` tries more; a failure prints its seed, and `PLEG_SEED=n` replays it.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

/// Runs the worlds of these seeds, and so many fresh ones; a world that panics is wrong.
pub fn live_each<World: Future<Output = ()>>(
    seeds: &[u64],
    more: u64,
    world: impl Fn(u64) -> World + Sync,
) {
    if let Ok(seed) = std::env::var("PLEG_SEED") {
        live(world(seed.parse().expect("PLEG_SEED is a number")));
        return;
    }
    let more = std::env::var("PLEG_WORLDS").map_or(more, |worlds| {
        worlds.parse().expect("PLEG_WORLDS is a number")
    });
    let first = fastrand::u64(..);
    eprintln!("{more} worlds from PLEG_SEED={first} on");
    let fresh = move || (0..more).map(move |number| first.wrapping_add(number));
    let threads = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let wrong = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (wrong, world, fresh) = (&wrong, &world, &fresh);
            scope.spawn(move || {
                let seeds = seeds.iter().copied().chain(fresh());
                for seed in seeds.skip(thread).step_by(threads) {
                    if catch_unwind(AssertUnwindSafe(|| live(world(seed)))).is_err() {
                        eprintln!("the world of PLEG_SEED={seed} is wrong");
                        wrong.lock().expect("nobody panics with it").push(seed);
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
