//! A screen that a test feeds with updates and keys, and reads.

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use pleg::model::wall_time::WallTime;
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use serde_json::{Value, json};
use top::input::action;
use top::state::Request;
use top::update::Source;
use top::view::{Theme, draw};
use top::{State, Update};

/// The time this many seconds after the beginning of every test.
pub fn at(seconds: f64) -> WallTime {
    let nanos = 1_767_323_045_000_000_000 + (seconds * 1e9) as i64;
    WallTime::from_unix_nanos(nanos).unwrap()
}

/// The status of a healthy node, with these fields changed.
pub fn status(seconds: f64, changes: Value) -> Update {
    let mut report = json!({
        "health": {"state": "Healthy", "message": "all pods are up to date", "reason": "AllSeen",
                   "since": at(0.0), "lastSeen": at(seconds), "ageSeconds": 0.4,
                   "thresholdSeconds": 180.0},
        "kubeletView": {"ready": true, "message": "no problem expected"},
        "relist": {"mode": "generic", "count": 7, "periodSeconds": 1.0,
                   "lastDurationSeconds": 0.0032, "lastKind": "list", "sweeping": false},
        "stuck": [], "failing": [], "blind": [], "inFlight": [],
        "stream": {"state": "live", "events": 12, "missed": 0, "reconnects": 0},
        "kernel": {"state": "live", "watched": 5},
        "runtime": {"name": "containerd", "version": "1.7.24", "apiVersion": "v1",
                    "endpoint": "unix:///run/containerd/containerd.sock"},
        "pods": 3, "containers": {"running": 3, "exited": 1},
    });
    for (key, value) in changes.as_object().unwrap() {
        report[key] = value.clone();
    }
    Update::Status {
        taken: at(seconds),
        report: Box::new(serde_json::from_value(report).unwrap()),
    }
}

/// A pod with a container `app`, with these fields of the container changed.
pub fn pod(name: &str, changes: Value) -> Value {
    let mut app = json!({
        "id": format!("{name}/app.0"), "name": "app", "state": "running", "attempt": 0,
        "exitCode": null, "reason": null, "createdAt": at(-60.0), "startedAt": at(-60.0),
        "finishedAt": null, "image": "nginx",
    });
    for (key, value) in changes.as_object().unwrap() {
        app[key] = value.clone();
    }
    json!({
        "uid": format!("uid-{name}"), "namespace": "default", "name": name,
        "sandboxes": [{"id": name, "state": "ready", "attempt": 0, "createdAt": at(-60.0),
                       "ips": ["10.0.0.7"]}],
        "containers": [app], "asOf": at(0.0), "error": null,
    })
}

/// A list of all pods.
pub fn pods(seconds: f64, pods: &[Value]) -> Update {
    let pods = pods.iter().cloned();
    Update::Pods {
        taken: at(seconds),
        pods: pods
            .map(|pod| serde_json::from_value(pod).unwrap())
            .collect(),
    }
}

/// An event of the container `app` of a pod.
pub fn event(seconds: f64, name: &str, event_type: &str, changes: Value) -> Update {
    let mut event = json!({
        "kind": "event", "time": at(seconds), "type": event_type, "id": format!("{name}/app.0"),
        "pod": {"uid": format!("uid-{name}"), "namespace": "default", "name": name},
        "subject": "container", "container": "app", "exitCode": null, "reason": null,
        "initial": false, "source": "kernel",
    });
    for (key, value) in changes.as_object().unwrap() {
        event[key] = value.clone();
    }
    Update::Record(serde_json::from_value(event).unwrap())
}

pub fn connected() -> Update {
    Update::Source(Source::Connected {
        to: "agent at /run/pleg/agent.sock".to_owned(),
    })
}

/// The status of a node on which one status call has this age, and the list hangs because of it.
pub fn locked(seconds: f64, age: f64) -> Update {
    let db = json!({"uid": "uid-db", "namespace": "default", "name": "db"});
    let stuck = json!([
        {"call": "ListContainers", "id": null, "container": null, "pod": null,
         "sinceSeconds": age + 1.0},
        {"call": "ContainerStatus", "id": "db/app.0", "container": "app", "pod": db,
         "sinceSeconds": age},
    ]);
    let message = "container app of default/db is stuck and blocks ListContainers (42s); known \
                   containers are swept, new containers may be missed";
    status(
        seconds,
        json!({
            "health": {"state": "Degraded", "reason": "ContainerStuck", "since": at(seconds - age),
                       "lastSeen": at(seconds), "ageSeconds": 0.4, "thresholdSeconds": 180.0,
                       "message": message},
            "kubeletView": {"ready": true, "notReadyInSeconds": 137.2,
                "why": "list calls are stuck or failing", "message":
                "ready, but list calls are stuck or failing: NotReady in 2m17s if nothing changes"},
            "stuck": stuck,
            "inFlight": [{"call": "ListContainers", "id": null, "ageSeconds": age + 1.0},
                         {"call": "ContainerStatus", "id": "db/app.0", "ageSeconds": age},
                         {"call": "PodSandboxStatus", "id": "web", "ageSeconds": 0.02}],
        }),
    )
}

/// A screen, and the state that it shows.
pub struct Screen {
    pub state: State,
    pub now: WallTime,
    theme: Theme,
    size: (u16, u16),
}

impl Screen {
    /// A screen of 80 columns and 24 rows, without colours.
    pub fn new() -> Self {
        Self::sized(80, 24)
    }

    pub fn sized(width: u16, height: u16) -> Self {
        Self {
            state: State::live(at(0.0), None),
            now: at(0.0),
            theme: Theme::new(false),
            size: (width, height),
        }
    }

    pub fn coloured(mut self) -> Self {
        self.theme = Theme::new(true);
        self
    }

    /// Applies updates at a time.
    pub fn feed(&mut self, seconds: f64, updates: impl IntoIterator<Item = Update>) -> &mut Self {
        self.now = at(seconds);
        for update in updates {
            self.state.apply(update, self.now);
        }
        self
    }

    /// Presses keys: characters, and names in angle brackets.
    #[track_caller]
    pub fn press(&mut self, keys: &str) -> Option<Request> {
        let mut request = None;
        let mut rest = keys;
        while !rest.is_empty() {
            let (key, after) = match rest.strip_prefix('<') {
                Some(named) => {
                    let (name, after) = named.split_once('>').expect("a closed name");
                    (key_named(name), after)
                }
                None => {
                    let mut characters = rest.chars();
                    let character = characters.next().unwrap();
                    (
                        KeyEvent::new(KeyCode::Char(character), KeyModifiers::NONE),
                        characters.as_str(),
                    )
                }
            };
            rest = after;
            // The end of a page is known only after it was drawn.
            self.buffer();
            let wanted = action(key, self.state.mode());
            request = wanted.and_then(|action| self.state.act(action));
        }
        request
    }

    pub fn buffer(&mut self) -> Buffer {
        self.state.tick(self.now);
        let backend = TestBackend::new(self.size.0, self.size.1);
        let mut terminal = Terminal::new(backend).unwrap();
        let mut extent = Default::default();
        terminal
            .draw(|frame| extent = draw(frame, &self.state, &self.theme))
            .unwrap();
        self.state.drawn(extent);
        terminal.backend().buffer().clone()
    }

    /// The content of the screen: a line for each row.
    pub fn text(&mut self) -> String {
        let buffer = self.buffer();
        let width = usize::from(self.size.0);
        let mut text = String::new();
        for row in buffer.content().chunks(width) {
            let mut line = String::new();
            let mut covered = 0;
            for cell in row {
                if covered > 0 {
                    covered -= 1;
                    continue;
                }
                line.push_str(cell.symbol());
                covered = ratatui::text::Span::raw(cell.symbol())
                    .width()
                    .saturating_sub(1);
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }

    /// The line that contains a text.
    #[track_caller]
    pub fn line(&mut self, part: &str) -> String {
        let text = self.text();
        let line = text.lines().find(|line| line.contains(part));
        line.unwrap_or_else(|| panic!("no {part:?} in\n{text}"))
            .to_owned()
    }

    /// The first words of the rows of the pods.
    pub fn shown_pods(&mut self) -> Vec<String> {
        let text = self.text();
        let rows = text.lines().skip_while(|line| !line.starts_with("─ Pods"));
        let rows = rows.skip(1).take_while(|line| !line.starts_with('─'));
        let names = rows.filter_map(|line| line.split_whitespace().next());
        // The names of the columns come first, if there are rows.
        names.skip(1).map(str::to_owned).collect()
    }
}

/// Pods with a running, an exited and a restarted container.
pub fn three_pods() -> [Value; 3] {
    [
        pod("db", json!({})),
        pod(
            "job",
            json!({"state": "exited", "exitCode": 3, "reason": "Error",
                          "finishedAt": at(-5.0), "attempt": 2}),
        ),
        pod("web", json!({"startedAt": at(-10.0), "attempt": 4})),
    ]
}

/// Shows a node on which the status lock of one pod is held.
pub fn locked_node(screen: &mut Screen) {
    screen.feed(
        42.0,
        [
            connected(),
            pods(0.0, &three_pods()),
            event(
                1.25,
                "web",
                "ContainerDied",
                json!({"exitCode": 137, "reason": "Error"}),
            ),
            event(1.5, "web", "ContainerStarted", json!({"source": "relist"})),
            locked(42.0, 41.2),
        ],
    );
}

fn key_named(name: &str) -> KeyEvent {
    let code = match name {
        "enter" => KeyCode::Enter,
        "esc" => KeyCode::Esc,
        "tab" => KeyCode::Tab,
        "backtab" => KeyCode::BackTab,
        "up" => KeyCode::Up,
        "down" => KeyCode::Down,
        "pgdn" => KeyCode::PageDown,
        "backspace" => KeyCode::Backspace,
        "ctrl-z" => return KeyEvent::new(KeyCode::Char('z'), KeyModifiers::CONTROL),
        "ctrl-c" => return KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL),
        name => panic!("no key {name:?}"),
    };
    KeyEvent::new(code, KeyModifiers::NONE)
}
