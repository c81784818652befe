//! Tests of the decisions in a simulated world: a runtime that answers late or never, views that
//! are old or incomplete, and runs that are killed.

mod calls;
mod ending;
mod random_histories;
mod restarts;
mod sandboxes;
mod visibility;
mod world;
