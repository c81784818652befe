//! Fixtures: the real `pleg`, correct and faulty runtimes, and
//! a client of an agent.

use std::time::{Duration, Instant};

mod agent;
mod api_server;
mod colours;
mod command;
mod exposition;
mod http;
mod raw;
mod rows;
mod runtime;
mod schema;
mod shapes;
mod tmux;

pub use agent::Agent;
pub use api_server::ApiServer;
pub use colours::without_colours;
pub use command::{Ended, Pleg, Running};
pub use exposition::{families, value};
pub use http::{Answer, Stream, connect, get, lines, request};
pub use raw::{RawAnswer, RawRuntime, RawServer, every_nonsense};
pub use rows::{container, rows_of, sandbox};
pub use runtime::{FakeRuntime, serve_on};
pub use schema::Schema;
pub use shapes::{assert_keys, assert_status_shape, assert_time};
pub use tmux::Tmux;

/// The time limit for each step on a busy machine.
pub const TEST_LIMIT: Duration = Duration::from_secs(30);

/// Repeats a check until it returns a value.
#[track_caller]
pub fn eventually<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(begun.elapsed() < TEST_LIMIT, "still not: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
