//! The bytes that a frame writes to the terminal.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use ratatui::layout::Size;
use serde_json::json;
use top::State;
use top::canvas::Canvas;
use top::view::Theme;

use crate::support::*;

/// The sequences that begin and end a synchronized update.
const MARKS: (&[u8], &[u8]) = (b"\x1b[?2026h", b"\x1b[?2026l");

/// Sequences that clear the screen, a part of it or a line.
const CLEAR: [&[u8]; 8] = [
    b"\x1b[J", b"\x1b[0J", b"\x1b[1J", b"\x1b[2J", b"\x1b[3J", b"\x1b[K", b"\x1b[2K", b"\x1bc",
];

/// An output that keeps the written bytes.
#[derive(Clone, Default)]
struct Written(Rc<RefCell<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Written {
    fn take(&self) -> Vec<u8> {
        self.0.take()
    }
}

const SIZE: Size = Size::new(80, 24);

fn canvas() -> (Canvas<Written>, Written) {
    let written = Written::default();
    let canvas = Canvas::new(written.clone(), SIZE, Theme::new(true)).unwrap();
    written.take();
    (canvas, written)
}

fn has(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
}

/// Updates the state to this second: ages, relists and the stuck calls change in each of them.
fn pass(state: &mut State, second: u32) {
    let now = f64::from(second);
    let took = 0.002 + f64::from(second * 7919 % 50) / 1000.0;
    let mut updates = vec![connected()];
    updates.push(match second {
        0..20 => status(
            now,
            json!({"relist": {"mode": "generic", "count": second, "periodSeconds": 1.0,
                "lastDurationSeconds": took, "lastKind": "list", "sweeping": false}}),
        ),
        _ => locked(now, now - 20.0),
    });
    if second == 0 {
        let all: Vec<_> = (0..30)
            .map(|n| pod(&format!("web-{n}"), json!({})))
            .collect();
        updates.push(pods(now, &all));
    }
    if second % 5 == 4 {
        let name = format!("web-{}", second % 30);
        updates.push(event(now, &name, "ContainerDied", json!({"exitCode": 1})));
    }
    for update in updates {
        state.apply(update, at(now));
    }
}

#[test]
fn no_frame_clears_the_screen_and_each_is_one_update_of_the_changes() {
    let (mut canvas, written) = canvas();
    let mut state = State::live(at(0.0), None);
    let mut sizes = Vec::new();
    for second in 0..60 {
        pass(&mut state, second);
        canvas.draw(&state, SIZE).unwrap();
        let bytes = written.take();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!CLEAR.iter().any(|clear| has(&bytes, clear)), "{text:?}");
        assert!(
            bytes.starts_with(MARKS.0) && bytes.ends_with(MARKS.1),
            "{text:?}"
        );
        sizes.push(bytes.len());
        canvas.draw(&state, SIZE).unwrap();
        assert_eq!(written.take(), b"", "nothing has changed");
    }
    let first = sizes.remove(0);
    sizes.sort_unstable();
    let median = sizes[sizes.len() / 2];
    assert!(median < first / 2, "{first} {sizes:?}");
}

#[test]
fn after_a_frame_without_a_change_the_next_one_is_complete() {
    let (mut canvas, written) = canvas();
    let mut state = State::live(at(0.0), None);
    pass(&mut state, 0);
    for _ in 0..3 {
        canvas.draw(&state, SIZE).unwrap();
    }
    written.take();
    state.apply(event(1.0, "web-1", "ContainerDied", json!({})), at(0.0));
    canvas.draw(&state, SIZE).unwrap();
    let bytes = written.take();
    let text = String::from_utf8_lossy(&bytes);
    assert!(text.contains("ContainerDied"), "{text:?}");
    assert!(!text.contains("Kubelet"), "what is there already: {text:?}");
}

#[test]
fn a_new_size_clears_the_screen_within_the_update_that_fills_it() {
    if crossterm::terminal::size().is_err() {
        // Written to the process's standard error, because the harness captures
        // output of passing tests.
        let why = "SKIPPED: another size: there is neither a terminal nor tput";
        let _ = writeln!(io::stderr(), "{why}");
        return;
    }
    let (mut canvas, written) = canvas();
    let mut state = State::live(at(0.0), None);
    pass(&mut state, 0);
    canvas.draw(&state, SIZE).unwrap();
    written.take();
    for size in [Size::new(60, 20), SIZE] {
        canvas.draw(&state, size).unwrap();
        let bytes = written.take();
        let text = String::from_utf8_lossy(&bytes);
        assert!(
            bytes.starts_with(MARKS.0) && bytes.ends_with(MARKS.1),
            "{text:?}"
        );
        assert!(text.contains("Kubelet"), "{text:?}");
        canvas.draw(&state, size).unwrap();
        assert_eq!(written.take(), b"", "nothing has changed");
    }
}
