//! A panic in a real terminal: the terminal is restored, and the report can be read.
//!
//! ```text
//!   this test --> tmux --> this test again, with PANICS set: takes the terminal, and panics
//! ```

use std::io::Write;
use std::process::Command;
use std::time::{Duration, Instant};

use top::terminal::Screen;
use top::view::Theme;
use top::{State, terminal};

use crate::support::at;

const PANICS: &str = "PLEG_TOP_TEST_PANICS";

#[test]
fn a_panic_is_reported_on_a_terminal_that_is_restored() {
    if std::env::var_os(PANICS).is_some() {
        assert!(terminal::is_available());
        let mut screen = Screen::enter(Theme::new(true)).unwrap();
        screen.draw(&State::live(at(0.0), None)).unwrap();
        panic!("a panic under the screen");
    }
    if Command::new("tmux").arg("-V").output().is_err() {
        // Written to the process's standard error, because the harness captures
        // output of passing tests.
        let why = "SKIPPED: the screen in a terminal: tmux is not installed";
        let _ = writeln!(std::io::stderr(), "{why}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("tmux").display().to_string();
    let tmux = |args: &[&str]| {
        let mut tmux = Command::new("tmux");
        tmux.args(["-u", "-f", "/dev/null", "-S", &socket])
            .args(args);
        let output = tmux.env(PANICS, "1").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let ourselves = std::env::current_exe().unwrap();
    let name = "terminal::a_panic_is_reported_on_a_terminal_that_is_restored";
    let command = format!(
        "'{}' --exact {name} --nocapture; stty -a; exec sleep 1000",
        ourselves.display()
    );
    tmux(&["new-session", "-d", "-x", "100", "-y", "50", &command]);
    let begun = Instant::now();
    let text = loop {
        let text = tmux(&["capture-pane", "-p"]);
        if text.contains("icanon") || begun.elapsed() > Duration::from_secs(30) {
            break text;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    let modes = tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
    tmux(&["kill-server"]);
    assert!(text.contains("a panic under the screen"), "{text}");
    assert!(
        text.contains(" icanon") && !text.contains("-icanon"),
        "{text}"
    );
    assert_eq!(modes.trim(), "0 1", "no alternate screen, and a cursor");
}
