//! A client of HTTP 1.0, in which an answer ends with the connection.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;

use serde_json::Value;

use super::TEST_LIMIT;

/// An answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub code: u16,
    pub headers: String,
    pub body: String,
}

impl Answer {
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// A TCP connection or a unix socket.
pub trait Stream: Read + Write + Send {}

impl Stream for TcpStream {}
impl Stream for UnixStream {}

/// Connects to an address, or to a socket if it is a path.
#[track_caller]
pub fn connect(address: &str) -> Box<dyn Stream> {
    if address.starts_with('/') {
        let stream = UnixStream::connect(address).unwrap();
        stream.set_read_timeout(Some(TEST_LIMIT)).unwrap();
        return Box::new(stream);
    }
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TEST_LIMIT)).unwrap();
    Box::new(stream)
}

/// `GET path` of `address`.
#[track_caller]
pub fn get(address: &str, path: &str) -> Answer {
    let (code, headers, mut rest) = open(address, path);
    let mut body = String::new();
    rest.read_to_string(&mut body).unwrap();
    Answer {
        code,
        headers,
        body,
    }
}

/// `GET path` of `address`, line by line.
#[track_caller]
pub fn lines(address: &str, path: &str) -> impl Iterator<Item = Value> + use<> {
    let (code, _, rest) = open(address, path);
    assert_eq!(code, 200);
    rest.lines()
        .map_while(Result::ok)
        .map(|line| serde_json::from_str(&line).unwrap())
}

#[track_caller]
fn open(address: &str, path: &str) -> (u16, String, BufReader<Box<dyn Stream>>) {
    let asked = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
    request(address, &asked)
}

/// Sends a request; returns code and headers of the answer, and a reader of its body.
#[track_caller]
pub fn request(address: &str, asked: &str) -> (u16, String, BufReader<Box<dyn Stream>>) {
    let mut stream = connect(address);
    stream.write_all(asked.as_bytes()).unwrap();
    let mut rest = BufReader::new(stream);
    let mut headers = String::new();
    while !headers.ends_with("\r\n\r\n") {
        assert_ne!(rest.read_line(&mut headers).unwrap(), 0, "{headers}");
    }
    let code = headers.split(' ').nth(1).unwrap().parse().unwrap();
    (code, headers.to_lowercase(), rest)
}
