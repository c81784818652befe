//! A bundle: what was collected of a node, in one file, to be diagnosed elsewhere. It holds
//! facts and nothing else: no environment, no command lines, no labels or annotations.

use std::fs::{File, Permissions};
use std::io::{self, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::facts::NodeFacts;

/// What a bundle says that it is.
const KIND: &str = "pleg-bundle";

/// The generation of its form. A reader takes older ones too; fields may be added.
const VERSION: u32 = 1;

/// No node's facts are longer, and whoever is given a file reads no more of it.
const LONGEST: u64 = 64 << 20;

/// What all gzip files begin with.
const GZIP: [u8; 2] = [0x1f, 0x8b];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    kind: &'a str,
    version: u32,
    made_by: &'a str,
    facts: &'a NodeFacts,
}

/// Read first: what is wrong with a file that is something else.
#[derive(Deserialize)]
struct Head {
    kind: Option<String>,
    version: Option<u32>,
}

#[derive(Deserialize)]
struct Body {
    facts: NodeFacts,
}

/// Why a bundle could not be read.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The file could not be read.
    #[error("cannot read it")]
    Unreadable(#[source] io::Error),
    /// It is longer than any bundle.
    #[error("it is longer than any bundle (64 MiB)")]
    TooLong,
    /// It is something else.
    #[error("it is no bundle of `pleg doctor`")]
    Other,
    /// It was written by a later version.
    #[error("it was written by a newer pleg, in form {0}")]
    Newer(u32),
    /// It is broken.
    #[error("it is damaged: {0}")]
    Damaged(serde_json::Error),
}

/// Writes a bundle to `path`, whole or not at all, for nobody but its owner to read; in
/// gzip if the name ends in `.gz`.
pub fn write(path: &Path, facts: &NodeFacts) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    // Made with mode 0600; it is said once more, for what it is renamed over.
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o600))?;
    let bundle = Written {
        kind: KIND,
        version: VERSION,
        made_by: concat!("pleg ", env!("CARGO_PKG_VERSION")),
        facts,
    };
    if path.extension().is_some_and(|end| end == "gz") {
        let mut gzip = GzEncoder::new(&mut file, Compression::default());
        serde_json::to_writer(&mut gzip, &bundle)?;
        gzip.finish()?;
    } else {
        serde_json::to_writer_pretty(&mut file, &bundle)?;
        file.write_all(b"\n")?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Reads the facts of a bundle.
pub fn read(path: &Path) -> Result<NodeFacts, BundleError> {
    let file = File::open(path).map_err(BundleError::Unreadable)?;
    facts_of(BufReader::new(file))
}

fn facts_of(mut file: impl Read) -> Result<NodeFacts, BundleError> {
    let mut first = Vec::new();
    let head = (&mut file).take(2).read_to_end(&mut first);
    head.map_err(BundleError::Unreadable)?;
    let is_gzip = first == GZIP;
    let whole = io::Cursor::new(first).chain(file);
    let mut text = Vec::new();
    let read = match is_gzip {
        true => MultiGzDecoder::new(whole)
            .take(LONGEST + 1)
            .read_to_end(&mut text),
        false => whole.take(LONGEST + 1).read_to_end(&mut text),
    };
    read.map_err(BundleError::Unreadable)?;
    if text.len() as u64 > LONGEST {
        return Err(BundleError::TooLong);
    }
    let head: Head = serde_json::from_slice(&text).map_err(|error| {
        match text.trim_ascii_start().starts_with(b"{") {
            true => BundleError::Damaged(error),
            false => BundleError::Other,
        }
    })?;
    match head.version {
        _ if head.kind.as_deref() != Some(KIND) => Err(BundleError::Other),
        Some(version) if version > VERSION => Err(BundleError::Newer(version)),
        _ => {
            let body: Body = serde_json::from_slice(&text).map_err(BundleError::Damaged)?;
            Ok(body.facts)
        }
    }
}

#[cfg(test)]
mod tests {
    use pleg::wall_time::WallTime;

    use super::*;
    use crate::facts::probes::{Method, Outcome, Probe, ProbeFacts};
    use crate::facts::{Fact, HostFacts};

    fn facts() -> NodeFacts {
        let probes = ProbeFacts {
            endpoint: "unix:///run/x.sock".to_owned(),
            calls: vec![Probe {
                call: Method::ContainerStatus,
                id: Some("a\u{1b}[2J".to_owned()),
                outcome: Outcome::Hung,
                seconds: 2.000_123_456_789,
                message: None,
                bytes: None,
                pod: None,
                container: None,
            }],
            listener: Fact::missing("no", "x"),
            ..ProbeFacts::default()
        };
        NodeFacts {
            taken: WallTime::from_unix_nanos(1_700_000_000_123_456_789).unwrap(),
            probes,
            host: HostFacts::default(),
        }
    }

    #[test]
    fn what_was_written_is_read_the_same_and_only_by_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bundle.json", "bundle.json.gz"] {
            let path = folder.path().join(name);
            std::fs::write(&path, "an older one").unwrap();
            write(&path, &facts()).unwrap();
            assert_eq!(read(&path).unwrap(), facts());
            let mode = path.metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
        let gzip = std::fs::read(folder.path().join("bundle.json.gz")).unwrap();
        assert_eq!(gzip[..2], GZIP);
    }

    #[test]
    fn what_is_no_bundle_is_said_to_be_none() {
        let said = |text: &[u8]| facts_of(text).unwrap_err().to_string();
        for text in ["", "x", "[]", "{}", r#"{"kind":"other"}"#] {
            assert!(said(text.as_bytes()).contains("no bundle"), "{text}");
        }
        assert!(said(br#"{"kind":"pleg-bundle","version":1,"fac"#).contains("damaged"));
        assert!(said(br#"{"kind":"pleg-bundle","version":1}"#).contains("damaged"));
        assert!(said(br#"{"kind":"pleg-bundle","version":9}"#).contains("newer"));
        assert!(said(&[0x1f, 0x8b, 0, 1, 2]).contains("cannot read it"));
    }
}
