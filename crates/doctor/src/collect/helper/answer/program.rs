//! The version in a Go executable, read without executing it.

use std::io::{self, BufReader, Read};
use std::path::Path;

use memchr::memmem;

use super::open_without_waiting;

/// The linker flag, which a program that was built without `-trimpath` contains.
const LINKER_FLAG: &[u8] = b"main.version=";
/// How a version that the linker set begins: such a string stands between zero bytes, and all versions of
/// runc begin with 1.
const STRING_START: &[u8] = b"\x001.";
/// The maximum length of a version.
const MAX_VERSION_BYTES: usize = 40;
/// The version as a constant: programs that were built before Go 1.18 contain only this.
const CANDIDATE: &[u8] = b"1.0.0-rc";
/// How much is searched at once.
const CHUNK_BYTES: usize = 1 << 20;
/// How much of the end of a chunk is searched again with the next one.
const OVERLAP: usize = 64;
/// How much of a program is searched; no runtime is larger.
const MAX_FILE_BYTES: u64 = 128 << 20;

pub(in super::super) fn program_version(path: &Path) -> io::Result<String> {
    let file = open_without_waiting(path)?;
    let mut file = BufReader::with_capacity(CHUNK_BYTES, file.take(MAX_FILE_BYTES));
    let mut window = Vec::with_capacity(CHUNK_BYTES + OVERLAP);
    let mut candidate = None;
    loop {
        let before = window.len();
        let read = (&mut file)
            .take(CHUNK_BYTES as u64)
            .read_to_end(&mut window)?;
        if read == 0 && before <= OVERLAP {
            break;
        }
        if let Some(version) = in_linker_flag(&window).or_else(|| set_by_linker(&window)) {
            return Ok(version);
        }
        candidate = candidate.or_else(|| release_candidate(&window));
        if read == 0 {
            break;
        }
        window.drain(..window.len().saturating_sub(OVERLAP));
    }
    candidate.ok_or_else(|| io::Error::other("the executable contains no version"))
}

fn in_linker_flag(bytes: &[u8]) -> Option<String> {
    memmem::find_iter(bytes, LINKER_FLAG).find_map(|at| {
        let rest = &bytes[at + LINKER_FLAG.len()..];
        let length = rest
            .iter()
            .position(|byte| !(byte.is_ascii_alphanumeric() || b".-+~_".contains(byte)))?;
        let version = std::str::from_utf8(&rest[..length]).ok()?;
        version
            .starts_with(|first: char| first.is_ascii_digit())
            .then(|| version.to_owned())
    })
}

fn set_by_linker(bytes: &[u8]) -> Option<String> {
    memmem::find_iter(bytes, STRING_START).find_map(|at| {
        let rest = bytes[at + 1..].iter().take(MAX_VERSION_BYTES);
        let length = rest.clone().position(|byte| *byte == 0)?;
        let version: String = rest.take(length).map(|byte| char::from(*byte)).collect();
        let numbers = version.split(['-', '+', '~']).next()?;
        let is_number =
            |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        let three = numbers.split('.').count() == 3 && numbers.split('.').all(is_number);
        let plain = |char: char| char.is_ascii_alphanumeric() || "-+~._".contains(char);
        (three && version.chars().all(plain)).then_some(version)
    })
}

fn release_candidate(bytes: &[u8]) -> Option<String> {
    memmem::find_iter(bytes, CANDIDATE).find_map(|at| {
        let rest = &bytes[at + CANDIDATE.len()..];
        let digits = rest.iter().take(2).take_while(|byte| byte.is_ascii_digit());
        let digits: String = digits.map(|digit| char::from(*digit)).collect();
        (!digits.is_empty()).then(|| format!("1.0.0-rc{digits}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version_in(bytes: &[u8]) -> Option<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("runc");
        std::fs::write(&path, bytes).expect("to write");
        program_version(&path).ok()
    }

    #[test]
    fn the_version_is_found_in_each_of_its_forms() {
        let mut program = vec![0; CHUNK_BYTES - 5];
        program.extend(b"build\t-ldflags=\"-X main.version=1.1.5+ds1 -s\"\n");
        assert_eq!(version_in(&program).as_deref(), Some("1.1.5+ds1"));
        // The bytes in /usr/sbin/runc of Debian bookworm.
        let mut program = vec![0; CHUNK_BYTES - 5];
        program.extend(b"go1.19.8\0\0\0\0\0\0\0\x001.1.5+ds1\0\0\0\x8b\x19");
        assert_eq!(version_in(&program).as_deref(), Some("1.1.5+ds1"));
        assert_eq!(version_in(b"\x001.5\0\x001.2.3 of x\0\x002.36.1\0"), None);
        assert_eq!(
            version_in(b"\x00unknown1.0.0-rc93tmpfs").as_deref(),
            Some("1.0.0-rc93")
        );
        assert_eq!(version_in(b"\x7fELF"), None);
        assert_eq!(version_in(b""), None);
    }
}
