//! A real terminal: tmux, with its own server.

use std::fs;
use std::io::Write;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::eventually;

/// `pleg` in a terminal of 80 columns and 24 rows. When it has ended, the terminal shows
/// `ended CODE` and its settings.
pub struct Tmux {
    folder: TempDir,
}

impl Tmux {
    /// Starts `pleg` with these arguments; `None` with a message if there is no tmux.
    pub fn start(args: &[&str]) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            let why = "SKIPPED: pleg in a terminal: tmux is not installed";
            // Written to the process's standard error, because the harness captures output of passing tests.
            let _ = writeln!(std::io::stderr(), "{why}");
            return None;
        }
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid").display().to_string();
        let pleg = env!("CARGO_BIN_EXE_pleg");
        let args = args.join(" ");
        let command = format!(
            "sh -c 'echo $$ > {pid}; exec {pleg} {args}'; echo ended $?; stty -a; exec sleep 1000"
        );
        let terminal = Self { folder };
        terminal.tmux(&["new-session", "-d", "-x", "80", "-y", "24", &command]);
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let mut command = Command::new("tmux");
        let socket = self.folder.path().join("tmux");
        command.args(["-u", "-f", "/dev/null", "-S"]).arg(socket);
        for name in ["CONTAINER_RUNTIME_ENDPOINT", "RUST_LOG", "NO_COLOR", "TMUX"] {
            command.env_remove(name);
        }
        command.env("PLEG_STATE_DIR", env!("CARGO_TARGET_TMPDIR"));
        let output = command.args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    }

    /// The text on the screen.
    pub fn text(&self) -> String {
        self.tmux(&["capture-pane", "-p"])
    }

    /// Presses keys, by their names in tmux.
    pub fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, columns: &str, rows: &str) {
        self.tmux(&["resize-window", "-x", columns, "-y", rows]);
    }

    /// Waits until the screen matches.
    #[track_caller]
    pub fn wait(&self, what: &str, wanted: impl Fn(&str) -> bool) -> String {
        let mut last = String::new();
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            eventually(what, || {
                last = self.text();
                wanted(&last).then(|| last.clone())
            })
        }));
        found.unwrap_or_else(|_| panic!("{what}:\n{}", self.text()))
    }

    /// Waits until a text is on the screen.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.wait(text, |screen| screen.contains(text))
    }

    /// Sends `pleg` a signal.
    pub fn signal(&self, signal: Signal) {
        let pid = fs::read_to_string(self.folder.path().join("pid")).unwrap();
        let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits until `pleg` has ended with exit code 0, and the terminal is restored.
    #[track_caller]
    pub fn wait_restored(&self) {
        let text = self.wait_for("icanon");
        assert!(text.contains("ended 0\n"), "{text}");
        assert!(
            !text.contains("-icanon") && !text.contains("-echo "),
            "{text}"
        );
        assert_eq!(self.modes(), "0 1", "no alternate screen, and a cursor");
    }

    /// Whether the alternate screen and the cursor are on, `0` or `1` each.
    pub fn modes(&self) -> String {
        let modes = self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]);
        modes.trim().to_owned()
    }
}

impl Drop for Tmux {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
