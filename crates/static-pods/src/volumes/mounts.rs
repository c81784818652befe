//! The mount points that the kernel reports for this process.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Whether something is mounted at the path itself.
pub(super) fn is_mounted(path: &Path) -> io::Result<bool> {
    let path = path.canonicalize()?;
    Ok(mount_points()?.contains(&path))
}

/// The mount points at a path and below it, the last mounted first. The path must not contain
/// links.
pub(super) fn below(path: &Path) -> io::Result<Vec<PathBuf>> {
    let points = mount_points()?.into_iter().rev();
    Ok(points.filter(|point| point.starts_with(path)).collect())
}

fn mount_points() -> io::Result<Vec<PathBuf>> {
    let text = fs::read("/proc/self/mountinfo")?;
    let lines = text.split(|byte| *byte == b'\n');
    Ok(lines.filter_map(mount_point).collect())
}

/// The fifth field of a line. Blanks in it are escaped as `\040`.
fn mount_point(line: &[u8]) -> Option<PathBuf> {
    let field = line.split(|byte| *byte == b' ').nth(4)?;
    let mut path = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, after @ ..] = rest {
        let escaped = match (first, after) {
            (b'\\', [a, b, c, ..]) => octal([*a, *b, *c]),
            _ => None,
        };
        path.push(escaped.unwrap_or(*first));
        rest = escaped.map_or(after, |_| &after[3..]);
    }
    Some(PathBuf::from(OsString::from_vec(path)))
}

fn octal(digits: [u8; 3]) -> Option<u8> {
    digits.iter().try_fold(0_u8, |value, digit| {
        let digit = digit.checked_sub(b'0').filter(|digit| *digit < 8)?;
        value.checked_mul(8)?.checked_add(digit)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_with_blanks_is_unescaped() {
        let line = br"36 35 98:0 / /var/lib/a\040b\134c rw,noatime master:1 - ext3 /dev/root rw";
        assert_eq!(mount_point(line), Some(PathBuf::from(r"/var/lib/a b\c")));
        assert_eq!(mount_point(b""), None);
        assert_eq!(
            mount_point(br"1 2 3 / /a\9 -"),
            Some(PathBuf::from(r"/a\9"))
        );
    }
}
