//! A service that owns systemd's name and answers with chosen serial numbers. It implements the protocol
//! itself, so that the doctor's implementation is not tested only against itself.

use std::io::{self, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

/// A service that ends when it is dropped.
pub struct Service {
    stream: Option<UnixStream>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

/// A call as it arrived.
#[derive(Clone)]
pub struct Asked {
    /// Its member and its arguments.
    pub what: String,
    pub flags: u8,
}

/// A unit that is loaded. `restarts` is `None` if this systemd does not know that property.
#[derive(Clone)]
pub struct Unit {
    pub name: &'static str,
    pub state: &'static str,
    pub main_pid: u32,
    pub restarts: Option<u32>,
}

impl Service {
    /// Starts a service on a bus. `counter` is the serial number of its next answer; once it is u32::MAX,
    /// the service no longer answers.
    pub fn on_bus(socket: &Path, counter: Arc<AtomicU32>) -> Self {
        Self::with_units(socket, counter, Vec::new())
    }

    /// Starts a service on a bus, with these units.
    pub fn with_units(socket: &Path, counter: Arc<AtomicU32>, units: Vec<Unit>) -> Self {
        let mut stream = UnixStream::connect(socket).expect("a bus");
        stream
            .write_all(b"\0AUTH EXTERNAL 30\r\n")
            .expect("to write");
        let mut answer = [0; 64];
        let length = stream.read(&mut answer).expect("to read");
        assert!(answer[..length].starts_with(b"OK "));
        stream.write_all(b"BEGIN\r\n").expect("to write");
        let bus = "org.freedesktop.DBus";
        let hello = call(1, bus, "Hello", b"", &[]);
        stream.write_all(&hello).expect("to write");
        let mut body = text("org.freedesktop.systemd1");
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(0u32.to_le_bytes());
        let request = call(2, bus, "RequestName", b"su", &body);
        stream.write_all(&request).expect("to write");
        // Reads the answers to both calls, and the signals around them.
        let mut owned = false;
        while !owned {
            let message = read(&mut stream).expect("a message");
            owned = message.answers == Some(2);
        }
        let kept = stream.try_clone().expect("a socket");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || serve(stream, &counter, &units, &log));
        Self {
            stream: Some(kept),
            asked,
        }
    }

    /// All calls that the service has received.
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().expect("a list").clone()
    }

    /// Starts a service on systemd's private socket, without a bus in between.
    pub fn private(path: &Path, counter: Arc<AtomicU32>) -> Self {
        let listener = UnixListener::bind(path).expect("a socket");
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        thread::spawn(move || {
            while let Ok((mut stream, _)) = listener.accept() {
                let mut hello = [0; 128];
                let _ = stream.read(&mut hello);
                let _ = stream.write_all(b"OK 0123456789abcdef0123456789abcdef\r\n");
                let mut begin = [0; 7];
                let _ = stream.read_exact(&mut begin);
                serve(stream, &counter, &[], &log);
            }
        });
        Self {
            stream: None,
            asked,
        }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        if let Some(stream) = &self.stream {
            let _ = stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

fn serve(mut stream: UnixStream, counter: &AtomicU32, units: &[Unit], asked: &Mutex<Vec<Asked>>) {
    while let Ok(message) = read(&mut stream) {
        if message.kind != 1 {
            continue;
        }
        asked.lock().expect("a list").push(Asked {
            what: format!("{} {}", message.member, message.arguments.join(" ")),
            flags: message.flags,
        });
        let serial = counter.load(Ordering::SeqCst);
        if serial == u32::MAX {
            continue;
        }
        counter.store(serial + 1, Ordering::SeqCst);
        let mut fields = vec![5, 1, b'u', 0];
        fields.extend(message.serial.to_le_bytes());
        if let Some(sender) = &message.sender {
            field(&mut fields, 6, b's', sender);
        }
        let answer = Answer::to(&message, units);
        if let Answer::Error(name) = answer {
            field(&mut fields, 4, b's', name);
        }
        let (signature, body) = answer.body();
        pad(&mut fields, 8);
        fields.extend([8, 1, b'g', 0, 1, signature, 0]);
        let kind = if let Answer::Error(_) = answer { 3 } else { 2 };
        let answer = message_of(kind, serial, &fields, &body);
        if stream.write_all(&answer).is_err() {
            return;
        }
    }
}

enum Answer {
    Path(String),
    Text(&'static str),
    Number(u32),
    Error(&'static str),
}

impl Answer {
    fn to(message: &Received, units: &[Unit]) -> Self {
        let about = |unit: &&Unit| match message.member.as_str() {
            "GetUnit" => message.arguments[0] == unit.name,
            _ => message.path == path_of(unit),
        };
        let property = message.arguments.get(1).map(String::as_str);
        match (message.member.as_str(), units.iter().find(about)) {
            ("GetUnit", Some(unit)) => Self::Path(path_of(unit)),
            ("GetUnit", None) => Self::Error("org.freedesktop.systemd1.NoSuchUnit"),
            ("Get", Some(unit)) => match (property, unit.restarts) {
                (Some("SubState"), _) => Self::Text(unit.state),
                (Some("MainPID"), _) => Self::Number(unit.main_pid),
                (Some("NRestarts"), Some(restarts)) => Self::Number(restarts),
                _ => Self::Error("org.freedesktop.DBus.Error.UnknownProperty"),
            },
            // The caller of a ping ignores the answer.
            _ => Self::Text("219"),
        }
    }

    /// The type of the answer, and the answer. The value of a property is a variant.
    fn body(&self) -> (u8, Vec<u8>) {
        match self {
            Self::Path(path) => (b'o', text(path)),
            Self::Error(name) => (b's', text(name)),
            Self::Text(value) => {
                let mut body = vec![1, b's', 0, 0];
                body.extend(text(value));
                (b'v', body)
            }
            Self::Number(value) => {
                let mut body = vec![1, b'u', 0, 0];
                body.extend(value.to_le_bytes());
                (b'v', body)
            }
        }
    }
}

fn path_of(unit: &Unit) -> String {
    let escaped = unit.name.replace('.', "_2e");
    format!("/org/freedesktop/systemd1/unit/{escaped}")
}

#[derive(Default)]
struct Received {
    kind: u8,
    flags: u8,
    serial: u32,
    answers: Option<u32>,
    sender: Option<String>,
    path: String,
    member: String,
    arguments: Vec<String>,
}

fn read(stream: &mut UnixStream) -> io::Result<Received> {
    let mut front = [0; 16];
    stream.read_exact(&mut front)?;
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().expect("four bytes"));
    let fields = number(&front[12..]) as usize;
    let mut rest = vec![0; fields.next_multiple_of(8) + number(&front[4..]) as usize];
    stream.read_exact(&mut rest)?;
    let mut received = Received {
        kind: front[1],
        flags: front[2],
        serial: number(&front[8..]),
        ..Received::default()
    };
    let text = |value: &[u8]| {
        let end = 4 + number(value) as usize;
        String::from_utf8_lossy(&value[4..end]).into_owned()
    };
    let mut signature = String::new();
    let mut at = 0;
    while at < fields {
        let (code, kind) = (rest[at], rest[at + 2]);
        at += 4;
        let value = &rest[at..];
        at += match kind {
            b'u' => 4,
            b'g' => usize::from(value[0]) + 2,
            _ => number(value) as usize + 5,
        };
        match code {
            1 => received.path = text(value),
            3 => received.member = text(value),
            5 => received.answers = Some(number(value)),
            7 => received.sender = Some(text(value)),
            8 => {
                let end = 1 + usize::from(value[0]);
                signature = String::from_utf8_lossy(&value[1..end]).into_owned();
            }
            _ => {}
        }
        at = at.next_multiple_of(8);
    }
    let mut at = fields.next_multiple_of(8);
    for _ in signature.chars().take_while(|kind| *kind == 's') {
        at = at.next_multiple_of(4);
        received.arguments.push(text(&rest[at..]));
        at += number(&rest[at..]) as usize + 5;
    }
    Ok(received)
}

fn call(serial: u32, to: &str, member: &str, signature: &[u8], body: &[u8]) -> Vec<u8> {
    let mut fields = Vec::new();
    field(&mut fields, 1, b'o', "/org/freedesktop/DBus");
    field(&mut fields, 2, b's', to);
    field(&mut fields, 3, b's', member);
    field(&mut fields, 6, b's', to);
    if !signature.is_empty() {
        pad(&mut fields, 8);
        fields.extend([8, 1, b'g', 0, signature.len() as u8]);
        fields.extend(signature);
        fields.push(0);
    }
    message_of(1, serial, &fields, body)
}

fn message_of(kind: u8, serial: u32, fields: &[u8], body: &[u8]) -> Vec<u8> {
    let mut message = vec![b'l', kind, 0, 1];
    message.extend((body.len() as u32).to_le_bytes());
    message.extend(serial.to_le_bytes());
    message.extend((fields.len() as u32).to_le_bytes());
    message.extend(fields);
    pad(&mut message, 8);
    message.extend(body);
    message
}

fn field(fields: &mut Vec<u8>, code: u8, kind: u8, value: &str) {
    pad(fields, 8);
    fields.extend([code, 1, kind, 0]);
    fields.extend(text(value));
}

fn text(text: &str) -> Vec<u8> {
    let mut bytes = (text.len() as u32).to_le_bytes().to_vec();
    bytes.extend(text.as_bytes());
    bytes.push(0);
    bytes
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}
