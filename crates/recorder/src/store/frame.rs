//! Frames: encodes entries as bytes, and decodes bytes of any origin to entries.
//!
//! ```text
//!   0       4        8          12     13      21
//!   | marker | length | checksum | flags | time | payload: `length` bytes
//!                     |  CRC-32 of length, and of all that follows
//! ```
//!
//! Numbers are little-endian. The time is in nanoseconds since 1970, so that entries outside a
//! range are skipped without parsing. After damage, reading continues at the next marker whose
//! frame has the right checksum.

use std::io::{self, Read};

use flate2::read::DeflateDecoder;
use flate2::{Compress, Compression, Crc, FlushCompress, Status};
use memchr::memmem;
use pleg::model::wall_time::WallTime;

use crate::{Entry, Loss};

/// The beginning of a frame. The first byte occurs in no JSON.
const MARKER: [u8; 4] = [0xf5, b'p', b'l', b'g'];

/// The offsets of the fields. The checksum covers the length, and everything from the flags on.
const LENGTH: usize = 4;
const CHECKSUM: usize = 8;
const FLAGS: usize = 12;
const TIME: usize = 13;
const PAYLOAD: usize = 21;

/// The flag of a payload that is deflated.
const DEFLATED: u8 = 1;

/// The shortest payload that is deflated. Shorter ones would hardly become smaller.
const MIN_DEFLATED_BYTES: usize = 512;

/// The increment by which the buffer of a payload grows.
const DEFLATE_RESERVE_BYTES: usize = 4 << 10;

/// The maximum length of a payload in a file.
const MAX_PAYLOAD_BYTES: usize = 2 << 20;

/// The maximum length of an entry's JSON.
const MAX_JSON_BYTES: usize = 16 << 20;

/// Makes frames. It keeps its compressor, which takes a third of a megabyte: a new one for each
/// frame would fragment the heap, and clearing it costs more than compressing.
#[derive(Debug)]
pub(crate) struct Framer(Compress);

impl Default for Framer {
    fn default() -> Self {
        Self(Compress::new(Compression::fast(), false))
    }
}

impl Framer {
    /// The frame of a serialized entry, unless it is too large.
    pub(crate) fn frame(&mut self, time: WallTime, json: &[u8]) -> Result<Vec<u8>, Loss> {
        if json.len() > MAX_JSON_BYTES {
            return Err(Loss::TooLarge);
        }
        let mut bytes = vec![0; PAYLOAD];
        let flags = match json.len() < MIN_DEFLATED_BYTES {
            true => {
                bytes.extend_from_slice(json);
                0
            }
            false => {
                self.deflate(json, &mut bytes)?;
                DEFLATED
            }
        };
        let length = bytes.len() - PAYLOAD;
        if length > MAX_PAYLOAD_BYTES {
            return Err(Loss::TooLarge);
        }
        bytes[..LENGTH].copy_from_slice(&MARKER);
        bytes[LENGTH..CHECKSUM].copy_from_slice(&(length as u32).to_le_bytes());
        bytes[FLAGS] = flags;
        bytes[TIME..PAYLOAD].copy_from_slice(&time.as_unix_nanos().to_le_bytes());
        let checksum = checksum(&bytes).to_le_bytes();
        bytes[CHECKSUM..FLAGS].copy_from_slice(&checksum);
        Ok(bytes)
    }

    fn deflate(&mut self, json: &[u8], bytes: &mut Vec<u8>) -> Result<(), Loss> {
        self.0.reset();
        loop {
            let rest = &json[self.0.total_in() as usize..];
            bytes.reserve(DEFLATE_RESERVE_BYTES);
            match self.0.compress_vec(rest, bytes, FlushCompress::Finish) {
                Ok(Status::StreamEnd) => return Ok(()),
                Ok(_) => {}
                Err(_) => return Err(Loss::TooLarge),
            }
        }
    }
}

/// The checksum of a whole frame.
fn checksum(frame: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(&frame[LENGTH..CHECKSUM]);
    crc.update(&frame[FLAGS..]);
    crc.sum()
}

/// The next part of the bytes of a segment.
#[derive(Debug)]
pub(crate) enum Next<'a> {
    /// An undamaged frame.
    Frame(Frame<'a>),
    /// The number of bytes that belong to no frame.
    Damaged(usize),
    /// A frame that was not completely written: at the end of a segment whose writer was killed, or
    /// still writes.
    Torn,
    /// The end of the segment.
    End,
}

/// A frame with the right checksum.
#[derive(Debug)]
pub(crate) struct Frame<'a> {
    /// The time of its entry, in nanoseconds since 1970.
    pub(crate) nanos: i64,
    flags: u8,
    payload: &'a [u8],
}

/// Reads the frames of a segment in order.
#[derive(Debug)]
pub(crate) struct Frames<'a> {
    rest: &'a [u8],
    /// How many more bytes may be hashed to find the next frame: a hostile file may consist of
    /// markers.
    search_budget: usize,
}

/// The kind of the next bytes.
enum Beginning<'a> {
    Frame(Frame<'a>, usize),
    /// A frame begins here, but its end is missing.
    Torn,
    /// No frame begins here; this many bytes were hashed.
    None(usize),
}

impl<'a> Frames<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            search_budget: bytes.len().saturating_mul(4),
        }
    }

    pub(crate) fn next(&mut self) -> Next<'a> {
        match beginning(self.rest) {
            _ if self.rest.is_empty() => Next::End,
            Beginning::Frame(frame, length) => {
                self.rest = &self.rest[length..];
                Next::Frame(frame)
            }
            beginning => {
                let next = self.next_frame();
                let skipped = next.unwrap_or(self.rest.len());
                self.rest = &self.rest[skipped..];
                match (beginning, next) {
                    (Beginning::Torn, None) => Next::Torn,
                    _ => Next::Damaged(skipped),
                }
            }
        }
    }

    /// The offset of the next frame after the first byte.
    fn next_frame(&mut self) -> Option<usize> {
        let mut from = 1;
        loop {
            let after = self.rest.get(from..)?;
            let place = from + memmem::find(after, &MARKER)?;
            match beginning(&self.rest[place..]) {
                Beginning::Frame(..) => return Some(place),
                Beginning::Torn => {}
                Beginning::None(hashed) => {
                    self.search_budget = self.search_budget.checked_sub(hashed)?;
                }
            }
            from = place + 1;
        }
    }
}

fn beginning(bytes: &[u8]) -> Beginning<'_> {
    let number = |place: usize| -> Option<u32> {
        let bytes = bytes.get(place..place + 4)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    if !bytes.starts_with(&MARKER) && !MARKER.starts_with(bytes) {
        return Beginning::None(0);
    }
    let (Some(length), Some(sum)) = (number(LENGTH), number(CHECKSUM)) else {
        return Beginning::Torn;
    };
    let length = length as usize;
    if length > MAX_PAYLOAD_BYTES {
        return Beginning::None(0);
    }
    let Some(frame) = bytes.get(..PAYLOAD + length) else {
        return Beginning::Torn;
    };
    if checksum(frame) != sum {
        return Beginning::None(frame.len());
    }
    let nanos = frame[TIME..PAYLOAD].try_into().map(i64::from_le_bytes);
    let frame = Frame {
        nanos: nanos.unwrap_or_default(),
        flags: frame[FLAGS],
        payload: &frame[PAYLOAD..],
    };
    Beginning::Frame(frame, PAYLOAD + length)
}

impl Frame<'_> {
    /// The entry; `None` if this version of pleg cannot read it.
    pub(crate) fn entry(&self) -> Option<Entry> {
        match self.flags {
            0 => serde_json::from_slice(self.payload).ok(),
            DEFLATED => serde_json::from_slice(&inflated(self.payload).ok()?).ok(),
            _ => None,
        }
    }
}

/// Inflates a payload, up to a limit: a few bytes may inflate to gigabytes.
fn inflated(payload: &[u8]) -> io::Result<Vec<u8>> {
    let mut json = Vec::new();
    let mut bounded = DeflateDecoder::new(payload).take(MAX_JSON_BYTES as u64 + 1);
    bounded.read_to_end(&mut json)?;
    match json.len() > MAX_JSON_BYTES {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(json),
    }
}
