//! A bundle: the facts of a node in one file, so that the node can be diagnosed elsewhere. It contains no
//! environment, no command lines, no labels and no annotations. Credentials in messages and in the sources of
//! mounts were replaced when the facts were collected.

use std::fs::{File, Permissions};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use serde::{Deserialize, Serialize};

use crate::facts::NodeFacts;

mod older;

/// Identifies a bundle.
const KIND: &str = "pleg-bundle";

/// The version of the format. Fields may be added and removed within a version: a reader
/// ignores unknown fields and tolerates absent ones. [`older`] converts older versions.
///
/// In version 1, the reason why a call failed or a fact is missing was a sentence; since version 2, it is
/// structured.
const VERSION: u32 = 2;

/// The maximum size of a bundle before compression, both for writing and for reading. The facts of any node
/// fit, because what is collected is limited.
pub(crate) const MAX_BYTES: u64 = 32 << 20;

/// How much of a parser's error message is shown.
const MAX_ERROR_CHARS: usize = 150;

/// The first bytes of a gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Written<'a> {
    kind: &'a str,
    version: u32,
    made_by: &'a str,
    facts: &'a NodeFacts,
}

/// Read first, to recognize files that are not bundles.
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
    #[error("the file cannot be read")]
    Unreadable(#[source] io::Error),
    /// The file is too large.
    #[error("it is larger than 32 MiB, the maximum size of a bundle")]
    TooLong,
    /// The file is not a bundle.
    #[error("it is not a bundle of `pleg doctor`")]
    Other,
    /// A later version of pleg wrote the file.
    #[error(
        "it was written by a newer pleg, in version {0} of the format; this pleg reads \
             versions 1 to {VERSION}"
    )]
    Newer(u32),
    /// The file is a bundle, but cannot be parsed.
    #[error("it is damaged: {}", shortened(.0))]
    Damaged(serde_json::Error),
}

/// The parser's message, which may quote a part of the file of any length.
fn shortened(error: &serde_json::Error) -> String {
    let whole = error.to_string();
    match whole.char_indices().nth(MAX_ERROR_CHARS) {
        Some((end, _)) => format!(
            "{}... at line {} column {}",
            &whole[..end],
            error.line(),
            error.column()
        ),
        None => whole,
    }
}

/// Why no bundle can be written to a path.
#[derive(Debug, thiserror::Error)]
pub enum NoPlace {
    /// The path is not a file name.
    #[error("it is not a file name; standard output is not supported")]
    NoFile,
    /// Something other than a regular file is at the path, and a bundle would replace it.
    #[error("it is {0}; only a regular file is replaced")]
    Other(&'static str),
    /// A file cannot be created there.
    #[error("no file can be created there")]
    NoFolder(#[source] io::Error),
}

/// Checks whether a bundle can be written to `path`, before anything is collected. A device or a link, such as
/// `/dev/stdout`, is not replaced.
pub fn check_place(path: &Path) -> Result<(), NoPlace> {
    if path.as_os_str() == "-" || path.file_name().is_none() {
        return Err(NoPlace::NoFile);
    }
    match std::fs::symlink_metadata(path).map(|found| found.file_type()) {
        Ok(kind) if kind.is_file() => {}
        Ok(kind) if kind.is_dir() => return Err(NoPlace::Other("a directory")),
        Ok(kind) if kind.is_symlink() => return Err(NoPlace::Other("a symbolic link")),
        Ok(_) => return Err(NoPlace::Other("a device or a socket")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(NoPlace::NoFolder(error)),
    }
    let made = tempfile::tempfile_in(folder_of(path));
    made.map(drop).map_err(NoPlace::NoFolder)
}

/// The directory that contains the file at this path; `.` for a name alone.
pub fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Writes a bundle to `path`, completely or not at all, readable by its owner only; compressed
/// with gzip if the name ends in `.gz`.
pub fn write(path: &Path, facts: &NodeFacts) -> io::Result<()> {
    // The file was created with mode 0600. The mode is set again for file systems that did not apply it.
    let mut file = tempfile::NamedTempFile::new_in(folder_of(path))?;
    file.as_file()
        .set_permissions(Permissions::from_mode(0o600))?;
    if path.extension().is_some_and(|end| end == "gz") {
        let mut gzip = GzEncoder::new(&mut file, Compression::default());
        write_to(&mut gzip, facts)?;
        gzip.write_all(b"\n")?;
        gzip.finish()?;
    } else {
        write_to(&mut file, facts)?;
        file.write_all(b"\n")?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

/// Writes the JSON of a bundle, as one line.
pub fn write_to(into: impl Write, facts: &NodeFacts) -> io::Result<()> {
    let bundle = Written {
        kind: KIND,
        version: VERSION,
        made_by: concat!("pleg ", env!("CARGO_PKG_VERSION")),
        facts,
    };
    let mut bounded = BufWriter::new(Bounded {
        into,
        left: MAX_BYTES,
    });
    serde_json::to_writer(&mut bounded, &bundle)?;
    bounded.flush()
}

/// A writer that fails before it has written more than [`read`] accepts.
struct Bounded<W> {
    into: W,
    left: u64,
}

impl<W: Write> Write for Bounded<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let Some(left) = self.left.checked_sub(bytes.len() as u64) else {
            let why = "the collected facts exceed 32 MiB, the maximum size of a bundle";
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, why));
        };
        let written = self.into.write(bytes)?;
        self.left = left + (bytes.len() - written) as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.into.flush()
    }
}

/// Whether a file is a bundle, judging by its first bytes.
pub fn is_bundle(path: &Path) -> bool {
    // Opening a pipe would take its data from its reader.
    if !path.is_file() {
        return false;
    }
    let beginning = File::open(path).and_then(|file| decompressed(BufReader::new(file), 64));
    beginning.is_ok_and(|bytes| {
        let text = String::from_utf8_lossy(&bytes);
        text.trim_start().starts_with('{') && text.contains(KIND)
    })
}

/// The first `max_bytes` of a file after decompression, if it is compressed with gzip.
fn decompressed(mut file: impl Read, max_bytes: u64) -> io::Result<Vec<u8>> {
    let mut first = Vec::new();
    (&mut file).take(2).read_to_end(&mut first)?;
    let is_gzip = first == GZIP_MAGIC;
    let whole = io::Cursor::new(first).chain(file);
    let mut text = Vec::new();
    match is_gzip {
        true => MultiGzDecoder::new(whole)
            .take(max_bytes)
            .read_to_end(&mut text)?,
        false => whole.take(max_bytes).read_to_end(&mut text)?,
    };
    Ok(text)
}

/// Reads the facts of a bundle.
pub fn read(path: &Path) -> Result<NodeFacts, BundleError> {
    let file = File::open(path).map_err(BundleError::Unreadable)?;
    read_from(BufReader::new(file))
}

/// Reads the facts of a bundle that is part of something else, such as a snapshot.
pub fn read_from(file: impl Read) -> Result<NodeFacts, BundleError> {
    let text = decompressed(file, MAX_BYTES + 1).map_err(BundleError::Unreadable)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(BundleError::TooLong);
    }
    let head: Head = serde_json::from_slice(&text).map_err(|error| {
        match text.trim_ascii_start().starts_with(b"{") {
            true => BundleError::Damaged(error),
            false => BundleError::Other,
        }
    })?;
    match head.version {
        _ if head.kind.as_deref() != Some(KIND) => return Err(BundleError::Other),
        Some(version) if version > VERSION => return Err(BundleError::Newer(version)),
        Some(VERSION) => serde_json::from_slice(&text),
        _ => serde_json::from_slice(&text).and_then(|bundle| {
            drop(text);
            serde_json::from_value(older::converted(bundle))
        }),
    }
    .map(|body: Body| body.facts)
    .map_err(BundleError::Damaged)
}

#[cfg(test)]
mod tests {
    use cri::Rpc;
    use pleg::model::wall_time::WallTime;

    use super::*;
    use crate::facts::probes::{End, Probe, ProbeFacts};
    use crate::facts::{Fact, HostFacts};

    fn facts() -> NodeFacts {
        let probes = ProbeFacts {
            endpoint: "unix:///run/x.sock".to_owned(),
            calls: vec![Probe {
                id: Some("a\u{1b}[2J".to_owned()),
                ..Probe::new(Rpc::ContainerStatus, End::Hung, 2.000_123_456_789)
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
    fn a_bundle_can_be_read_back_and_only_by_its_owner() {
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
        assert_eq!(gzip[..2], GZIP_MAGIC);
    }

    #[test]
    fn a_bundle_that_is_too_large_to_be_read_is_not_written() {
        let folder = tempfile::tempdir().unwrap();
        let mut longest = facts();
        // The rest of the bundle takes some of the space.
        let around = serde_json::to_vec(&facts()).unwrap().len();
        let text = |length: usize| Fact::known("x".repeat(length), "os");
        let path = folder.path().join("bundle.json.gz");
        longest.host.versions.os = text(MAX_BYTES as usize);
        let error = write(&path, &longest).unwrap_err();
        assert!(error.to_string().contains("32 MiB"), "{error}");
        assert_eq!(folder.path().read_dir().unwrap().count(), 0);
        longest.host.versions.os = text(MAX_BYTES as usize - around - 200);
        write(&path, &longest).unwrap();
        assert_eq!(read(&path).unwrap(), longest);
    }

    #[test]
    fn only_a_regular_file_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(check_place(&file).is_ok());
        assert!(check_place(&folder.path().join("new")).is_ok());
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let said = |path: &Path| check_place(path).unwrap_err().to_string();
        assert!(said(&link).starts_with("it is a symbolic link"));
        assert!(said(folder.path()).starts_with("it is a directory"));
        assert!(said(Path::new("/dev/null")).starts_with("it is a device"));
        for name in ["-", "/", "..", ""] {
            assert!(
                said(Path::new(name)).starts_with("it is not a file name"),
                "{name}"
            );
        }
        assert!(said(&folder.path().join("none/new")).starts_with("no file can be created"));
    }

    #[test]
    fn unknown_fields_are_ignored_and_absent_ones_tolerated() {
        let mut bundle = serde_json::json!({"kind": KIND, "version": VERSION, "facts": facts()});
        let cost = serde_json::json!({"call": "Version", "count": 1, "p95": 0.5, "max": 0.5});
        bundle["facts"]["probes"]["costs"] = serde_json::json!([cost]);
        let read = read_from(bundle.to_string().as_bytes()).unwrap();
        assert_eq!(read.probes.costs[0].max, 0.5);
    }

    #[test]
    fn files_that_are_not_bundles_are_reported() {
        let said = |text: &[u8]| read_from(text).unwrap_err().to_string();
        for text in ["", "x", "[]", "{}", r#"{"kind":"other"}"#] {
            assert!(said(text.as_bytes()).contains("not a bundle"), "{text}");
        }
        assert!(said(br#"{"kind":"pleg-bundle","version":2,"fac"#).contains("damaged"));
        assert!(said(br#"{"kind":"pleg-bundle","version":2}"#).contains("damaged"));
        let newer = said(br#"{"kind":"pleg-bundle","version":9}"#);
        assert!(
            newer.ends_with("in version 9 of the format; this pleg reads versions 1 to 2"),
            "{newer}"
        );
        let quoted = r#"{"kind":"pleg-bundle","version":2,"facts":{"taken":"@"}}"#;
        let quoted = said(quoted.replace('@', &"a".repeat(100_000)).as_bytes());
        assert!(quoted.len() < 300, "{}", quoted.len());
        assert!(said(&[0x1f, 0x8b, 0, 1, 2]).contains("the file cannot be read"));
    }
}
