//! A walk through the hierarchies of control groups, of version 1 and 2.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::read;
use crate::facts::host::process::is_within;
use crate::facts::host::{FrozenCgroup, MemoryCgroups, PidsUse};
use crate::facts::{Fact, Missing};

/// The walk ends after this many cgroups; no node has more.
const MAX_CGROUPS: usize = 100_000;
/// How many cgroups of each kind are kept.
const MAX_KEPT: usize = 200;
/// A cgroup that uses at least this share of its limit on tasks is kept.
const NEAR_SHARE: f64 = 0.8;

/// What the walk found.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct CgroupWalk {
    pub(crate) frozen: Fact<Vec<FrozenCgroup>>,
    pub(crate) pids: Fact<Vec<PidsUse>>,
    pub(crate) memory: Fact<MemoryCgroups>,
    /// Whether this process is in a container that does not contain process 1.
    pub(crate) in_container: bool,
}

impl CgroupWalk {
    pub(crate) fn missing(why: &Missing, source: &str) -> Self {
        Self {
            frozen: Fact::missing(why, source),
            pids: Fact::missing(why, source),
            memory: Fact::missing(why, source),
            in_container: false,
        }
    }
}

pub(in super::super) fn cgroups(proc: &Path, sys: &Path) -> CgroupWalk {
    let base = sys.join("fs/cgroup");
    if !is_whole(proc, &base) {
        let why = Missing::from("only the control groups of this container are visible");
        return CgroupWalk {
            in_container: true,
            ..CgroupWalk::missing(&why, &base.display().to_string())
        };
    }
    let unified = [base.clone(), base.join("unified")]
        .into_iter()
        .find(|folder| folder.join("cgroup.controllers").exists());
    CgroupWalk {
        frozen: frozen(&base, unified.as_deref()),
        pids: pids(&base, unified.as_deref()),
        memory: memory(proc, &base, unified.as_deref()),
        in_container: false,
    }
}

/// Whether the mounted hierarchies contain process 1. In a container that shares the host's PID namespace,
/// they do not: their root is the container's own control group, because of its mount (version 1) or its
/// namespace (version 2).
fn is_whole(proc: &Path, base: &Path) -> bool {
    let init = read(&proc.join("1/cgroup")).unwrap_or_default();
    let paths = || init.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let mounts = read(&proc.join("self/mountinfo")).unwrap_or_default();
    let mut roots = mounts.lines().filter_map(|line| {
        let mut fields = line.split(' ').skip(3);
        let root = fields.next()?;
        let is_here = Path::new(fields.next()?).starts_with(base);
        (is_here && line.contains(" - cgroup")).then_some(root)
    });
    let has_init = |root: &str| root == "/" || paths().any(|path| is_within(path, root));
    !paths().any(|path| path.starts_with("/..")) && roots.all(has_init)
}

/// Visits a hierarchy from its root; `visit` receives each directory and its path in the hierarchy. Returns the
/// number of directories.
fn walk(root: &Path, mut visit: impl FnMut(&Path, &str)) -> usize {
    let mut left = vec![PathBuf::new()];
    let mut seen = 0;
    while let Some(inner) = left.pop() {
        seen += 1;
        if seen >= MAX_CGROUPS {
            break;
        }
        let folder = root.join(&inner);
        visit(&folder, &format!("/{}", inner.display()));
        // A directory that has been removed meanwhile counts as empty.
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        for entry in entries {
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                left.push(inner.join(entry.file_name()));
            }
        }
    }
    seen
}

fn word(folder: &Path, file: &str) -> Option<String> {
    Some(read(&folder.join(file)).ok()?.trim().to_owned())
}

fn number(folder: &Path, file: &str) -> Option<u64> {
    word(folder, file)?.parse().ok()
}

/// The value of `name` in a file whose lines each contain a name and a value.
fn named(folder: &Path, file: &str, name: &str) -> Option<u64> {
    let text = word(folder, file)?;
    let mut rows = text.lines().filter_map(|line| line.split_once(' '));
    let (_, value) = rows.find(|(found, _)| *found == name)?;
    value.trim().parse().ok()
}

fn no_hierarchy<T>(of: &str, base: &Path) -> Fact<T> {
    let why = format!("there is no {of} cgroup hierarchy");
    Fact::missing(why, base.display().to_string())
}

fn frozen(base: &Path, unified: Option<&Path>) -> Fact<Vec<FrozenCgroup>> {
    let v1 = Some(base.join("freezer")).filter(|folder| folder.is_dir());
    let hierarchies = [
        (v1.as_deref(), "freezer.state", "THAWED"),
        (unified, "cgroup.freeze", "0"),
    ];
    let mut frozen = Vec::new();
    let mut sources = Vec::new();
    for (root, file, thawed) in hierarchies {
        let Some(root) = root else {
            continue;
        };
        sources.push(root.display().to_string());
        walk(root, |folder, path| {
            let Some(state) = word(folder, file).filter(|state| state != thawed) else {
                return;
            };
            // In version 1, all cgroups below a frozen one are frozen, but only that one can be thawed.
            if number(folder, "freezer.self_freezing") != Some(0) && frozen.len() < MAX_KEPT {
                frozen.push(FrozenCgroup {
                    path: path.to_owned(),
                    file: folder.join(file).display().to_string(),
                    state,
                    thaw: thawed.to_owned(),
                });
            }
        });
    }
    match sources.is_empty() {
        true => no_hierarchy("freezing", base),
        false => Fact::known(frozen, sources.join(", ")),
    }
}

fn pids(base: &Path, unified: Option<&Path>) -> Fact<Vec<PidsUse>> {
    let old = Some(base.join("pids")).filter(|folder| folder.is_dir());
    let Some(root) = old.as_deref().or(unified) else {
        return no_hierarchy("tasks", base);
    };
    let mut near = Vec::new();
    walk(root, |folder, path| {
        let limits = number(folder, "pids.current").zip(number(folder, "pids.max"));
        let Some((current, max)) = limits.filter(|(_, max)| *max > 0) else {
            return;
        };
        if current as f64 >= max as f64 * NEAR_SHARE && near.len() < MAX_KEPT {
            near.push(PidsUse {
                path: path.to_owned(),
                current,
                max,
                refused: named(folder, "pids.events", "max"),
            });
        }
    });
    Fact::known(near, root.display().to_string())
}

fn memory(proc: &Path, base: &Path, unified: Option<&Path>) -> Fact<MemoryCgroups> {
    let old = base.join("memory");
    if old.is_dir() {
        let file = proc.join("cgroups");
        let table = match read(&file) {
            Ok(table) => table,
            Err(error) => return Fact::missing(error, file.display().to_string()),
        };
        let counted = table.lines().find_map(|line| {
            let mut row = line.split_ascii_whitespace();
            (row.next()? == "memory").then(|| row.nth(1)?.parse().ok())?
        });
        let source = format!("{}, {}", file.display(), old.display());
        let Some(counted) = counted else {
            return Fact::missing("it has no line for memory", source);
        };
        let folders = walk(&old, |_, _| ()) as u64;
        let found = MemoryCgroups {
            counted,
            folders,
            left_over: counted.saturating_sub(folders),
            version: 1,
        };
        return Fact::known(found, source);
    }
    let Some(root) = unified else {
        return no_hierarchy("memory", base);
    };
    let source = root.join("cgroup.stat").display().to_string();
    let stat = |name| named(root, "cgroup.stat", name);
    let counts = stat("nr_descendants").zip(stat("nr_dying_descendants"));
    let found = counts.map(|(folders, left_over)| MemoryCgroups {
        counted: folders + left_over,
        folders,
        left_over,
        version: 2,
    });
    Fact::of(found.ok_or("it does not count dying cgroups"), source)
}
