//! Requests both lists over a bare socket: of HTTP/2, only the headers of frames are read.
//!
//! This is not a complete client: it ignores the contents of answers, and their errors. It shows the
//! cost of a relist without everything that can be left out.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use anyhow::{Context, ensure};
use cri::{ApiVersion, Endpoint};
use pleg::runtime::Rpc;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const FRAME_HEADER: usize = 9;

// Types and flags of frames.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const ACK: u8 = 1;

/// The HTTP/2 window. A complete answer fits, so that the runtime never waits for this client.
const WINDOW: u32 = 1 << 20;

pub struct Node {
    socket: UnixStream,
    buffer: Vec<u8>,
    stream: u32,
}

impl Node {
    pub fn connect(endpoint: &Endpoint) -> anyhow::Result<Self> {
        let mut socket = UnixStream::connect(endpoint.path())?;
        let mut greeting = PREFACE.to_vec();
        let initial_window_size = [&[0, 4][..], &WINDOW.to_be_bytes()].concat();
        frame(&mut greeting, SETTINGS, 0, 0, &initial_window_size);
        frame(&mut greeting, WINDOW_UPDATE, 0, 0, &WINDOW.to_be_bytes());
        socket.write_all(&greeting)?;
        Ok(Self {
            socket,
            buffer: vec![0; 1 << 18],
            stream: 1,
        })
    }

    /// Requests both lists, and reads until both answers have ended.
    pub fn relist(&mut self) -> anyhow::Result<()> {
        let mut requests = Vec::new();
        for call in [Rpc::ListPodSandbox, Rpc::ListContainers] {
            frame(
                &mut requests,
                HEADERS,
                END_HEADERS,
                self.stream,
                &headers(call),
            );
            // A gRPC message of length zero: an empty request.
            frame(&mut requests, DATA, END_STREAM, self.stream, &[0; 5]);
            self.stream += 2;
        }
        self.socket.write_all(&requests)?;
        let (mut filled, mut ended, mut received) = (0, 0, 0);
        while ended < 2 {
            let read = self.socket.read(&mut self.buffer[filled..])?;
            ensure!(read > 0, "the runtime has closed the connection");
            filled += read;
            let mut reply = Vec::new();
            let mut rest = &self.buffer[..filled];
            while let Some((kind, flags, payload, after)) = split(rest) {
                rest = after;
                match kind {
                    DATA => received += payload.len(),
                    HEADERS if flags & END_STREAM != 0 => ended += 1,
                    SETTINGS if flags & ACK == 0 => frame(&mut reply, SETTINGS, ACK, 0, &[]),
                    PING if flags & ACK == 0 => frame(&mut reply, PING, ACK, 0, payload),
                    GOAWAY => anyhow::bail!("the runtime closes the connection (GOAWAY)"),
                    _ => {}
                }
            }
            let left = rest.len();
            self.buffer.copy_within(filled - left..filled, 0);
            filled = left;
            if ended == 2 {
                let received = u32::try_from(received).context("the answers are too large")?;
                frame(&mut reply, WINDOW_UPDATE, 0, 0, &received.to_be_bytes());
            }
            self.socket.write_all(&reply)?;
        }
        Ok(())
    }
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend([kind, flags]);
    out.extend(stream.to_be_bytes());
    out.extend(payload);
}

/// Type, flags and payload of the first frame, and the bytes after it. `None` while the frame is not
/// complete.
fn split(bytes: &[u8]) -> Option<(u8, u8, &[u8], &[u8])> {
    let (header, rest) = bytes.split_at_checked(FRAME_HEADER)?;
    let length = u32::from_be_bytes([0, header[0], header[1], header[2]]);
    let (payload, rest) = rest.split_at_checked(length as usize)?;
    Some((header[3], header[4], payload, rest))
}

/// The headers of a request, in HPACK without its dynamic table and without Huffman codes.
fn headers(call: Rpc) -> Vec<u8> {
    // POST and http are numbers 3 and 6 of the static table; 4 is :path, 1 is :authority.
    let mut block = vec![0x83, 0x86, 0x04];
    text(&mut block, &call.path(ApiVersion::V1));
    block.push(0x01);
    text(&mut block, "localhost");
    // 31 is content-type: 15 fits in the first byte, and the second byte is the remaining 16.
    block.extend([0x0f, 16]);
    text(&mut block, "application/grpc");
    block.push(0);
    text(&mut block, "te");
    text(&mut block, "trailers");
    block
}

/// Appends a text of fewer than 127 bytes.
fn text(block: &mut Vec<u8>, text: &str) {
    block.push(text.len() as u8);
    block.extend(text.as_bytes());
}
