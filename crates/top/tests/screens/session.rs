//! The loop in virtual time: its draws and its requests.

use std::cell::RefCell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use futures_util::stream;
use pleg::model::wall_time::WallClock;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use top::recording::Replay;
use top::session::{Feed, Live, run};
use top::state::Extent;
use top::state::node::Examination;
use top::{State, Update};

use crate::replay::recording;
use crate::support::*;

fn clock() -> WallClock {
    let begun = Instant::now();
    Arc::new(move || at(begun.elapsed().as_secs_f64()))
}

fn key(character: char) -> io::Result<Event> {
    Ok(Event::Key(KeyEvent::new(
        KeyCode::Char(character),
        KeyModifiers::NONE,
    )))
}

/// A stream of keys, each preceded by a pause in milliseconds.
fn keys(
    keys: &'static [(u64, char)],
) -> impl futures_util::Stream<Item = io::Result<Event>> + Unpin {
    let keys = stream::unfold(keys.iter(), |mut keys| async move {
        let (millis, character) = keys.next()?;
        sleep(Duration::from_millis(*millis)).await;
        Some((key(*character), keys))
    });
    Box::pin(keys)
}

fn live(updates: mpsc::Receiver<Update>) -> Feed {
    Feed::Live(Live {
        updates,
        examine: Box::new(|| {
            Box::pin(async {
                sleep(Duration::from_secs(5)).await;
                Err("exit code 2".to_owned())
            })
        }),
    })
}

#[tokio::test(start_paused = true)]
async fn an_idle_screen_is_drawn_once_a_second() {
    let (_sender, updates) = mpsc::channel(1);
    let frames = RefCell::new(0);
    let state = State::live(at(0.0), None);
    let draw = |_: &State| {
        *frames.borrow_mut() += 1;
        Ok(Extent::default())
    };
    run(state, live(updates), keys(&[(10_500, 'q')]), &clock(), draw)
        .await
        .unwrap();
    assert_eq!(*frames.borrow(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_updates_makes_ten_frames_a_second() {
    let (sender, updates) = mpsc::channel(16);
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            let update = event(1.0, "web", "ContainerStarted", json!({}));
            if sender.send(update).await.is_err() {
                return;
            }
        }
    });
    let frames = RefCell::new(0);
    let state = State::live(at(0.0), None);
    let draw = |_: &State| {
        *frames.borrow_mut() += 1;
        Ok(Extent::default())
    };
    run(state, live(updates), keys(&[(10_000, 'q')]), &clock(), draw)
        .await
        .unwrap();
    let frames = *frames.borrow();
    assert!((90..=101).contains(&frames), "{frames}");
}

#[tokio::test(start_paused = true)]
async fn a_key_has_an_effect_at_once() {
    let (_sender, updates) = mpsc::channel(1);
    let drawn = RefCell::new(Vec::new());
    let begun = Instant::now();
    let draw = |state: &State| {
        drawn
            .borrow_mut()
            .push((begun.elapsed().as_millis(), state.pages.len()));
        Ok(Extent::default())
    };
    let state = State::live(at(0.0), None);
    run(
        state,
        live(updates),
        keys(&[(130, '?'), (100, 'q')]),
        &clock(),
        draw,
    )
    .await
    .unwrap();
    assert_eq!(*drawn.borrow(), [(0, 0), (130, 1)]);
}

#[tokio::test(start_paused = true)]
async fn the_screen_is_updated_while_the_doctor_runs() {
    let (_sender, updates) = mpsc::channel(1);
    let seen = RefCell::new(Vec::new());
    let draw = |state: &State| {
        seen.borrow_mut().push(match &state.node.examination {
            Examination::NotRun => "not run",
            Examination::Running { .. } => "running",
            Examination::Done { .. } => "done",
            Examination::Failed { .. } => "failed",
        });
        Ok(Extent::default())
    };
    let state = State::live(at(0.0), None);
    run(
        state,
        live(updates),
        keys(&[(500, 'd'), (7_000, 'q')]),
        &clock(),
        draw,
    )
    .await
    .unwrap();
    let mut seen = seen.into_inner();
    assert!(
        seen.iter().filter(|it| **it == "running").count() >= 5,
        "{seen:?}"
    );
    seen.dedup();
    assert_eq!(seen, ["not run", "running", "failed"]);
}

#[tokio::test(start_paused = true)]
async fn a_recording_is_stepped_through_by_keys() {
    let feed = Feed::Recorded(Replay::new(Box::new(recording())));
    let seen = RefCell::new(Vec::new());
    let draw = |state: &State| {
        seen.borrow_mut().push(state.now);
        Ok(Extent::default())
    };
    let state = State::live(at(0.0), None);
    let pressed = keys(&[(300, 'j'), (300, 'j'), (300, 'k'), (300, 'q')]);
    run(state, feed, pressed, &clock(), draw).await.unwrap();
    assert_eq!(*seen.borrow(), [at(0.0), at(10.0), at(40.0), at(10.0)]);
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_with_its_keys_and_with_an_error_of_the_terminal() {
    let (_sender, updates) = mpsc::channel(1);
    let state = State::live(at(0.0), None);
    let draw = |_: &State| Ok(Extent::default());
    run(state, live(updates), stream::empty(), &clock(), draw)
        .await
        .unwrap();
    let (_sender, updates) = mpsc::channel(1);
    let state = State::live(at(0.0), None);
    let draw = |_: &State| Err(io::Error::other("gone"));
    run(state, live(updates), keys(&[(9_000, 'q')]), &clock(), draw)
        .await
        .unwrap_err();
}
