//! What an agent reports as it happens: a record a line, read within bounds.

use bytes::BytesMut;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use pleg::out::record::Record;
use tokio_util::codec::{Decoder, LinesCodec};

/// The longest record that is read. A [`Record::Gap`] that names every pod of a large node is shorter.
const MAX_LINE: usize = 1 << 20;

/// The records of `GET /v1/events`.
#[derive(Debug)]
pub struct Events {
    body: Incoming,
    lines: Lines,
}

impl Events {
    pub(super) fn new(body: Incoming) -> Self {
        Self {
            body,
            lines: Lines::new(),
        }
    }

    /// The next record; `None` when the connection has ended.
    pub async fn next(&mut self) -> Option<Record> {
        loop {
            if let Some(record) = self.lines.next() {
                return Some(record);
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.lines.unread.extend_from_slice(&data);
            }
        }
    }
}

/// Bytes that were received and not yet decoded, and the decoder of their lines.
#[derive(Debug)]
struct Lines {
    unread: BytesMut,
    codec: LinesCodec,
}

impl Lines {
    fn new() -> Self {
        Self {
            unread: BytesMut::new(),
            codec: LinesCodec::new_with_max_length(MAX_LINE),
        }
    }

    /// The next record that was received completely. Records of a newer agent that are unknown here
    /// are skipped, and so are lines that are too long: the codec discards the rest of such a line.
    fn next(&mut self) -> Option<Record> {
        loop {
            match self.codec.decode(&mut self.unread) {
                Ok(Some(line)) => match serde_json::from_str(&line) {
                    Ok(record) => return Some(record),
                    Err(error) => tracing::debug!("ignored a record of the agent: {error}"),
                },
                Ok(None) => return None,
                Err(error) => tracing::debug!("ignored a record of the agent: {error}"),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNCED: &str = "{\"kind\":\"synced\",\"time\":\"2026-01-02T03:04:05.000000000Z\",\
                          \"pods\":1,\"containers\":2}\n";

    fn is_synced(record: Option<Record>) -> bool {
        matches!(record, Some(Record::Synced { pods: 1, .. }))
    }

    #[test]
    fn records_arrive_whole_however_they_were_split() {
        let mut lines = Lines::new();
        for (number, byte) in SYNCED.bytes().enumerate() {
            assert_eq!(lines.next(), None, "{number}");
            lines.unread.extend_from_slice(&[byte]);
        }
        assert!(is_synced(lines.next()));
        assert_eq!(lines.next(), None);
    }

    #[test]
    fn what_is_not_a_record_is_skipped() {
        let mut lines = Lines::new();
        for odd in [
            &b"\n"[..],
            b"{}\n",
            b"\xff\xfe\n",
            b"{\"kind\":\"new\"}\n",
            b"\0\n",
        ] {
            lines.unread.extend_from_slice(odd);
            lines.unread.extend_from_slice(SYNCED.as_bytes());
            assert!(is_synced(lines.next()), "{odd:?}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept() {
        let mut lines = Lines::new();
        for _ in 0..1000 {
            lines.unread.extend_from_slice(&[b'x'; 64 << 10]);
            assert_eq!(lines.next(), None);
            assert!(lines.unread.len() <= MAX_LINE + (64 << 10));
        }
        lines.unread.extend_from_slice(b"\n");
        lines.unread.extend_from_slice(SYNCED.as_bytes());
        assert!(is_synced(lines.next()));
    }
}
