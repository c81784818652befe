//! A folder with the causes and rules of a site.
//!
//! ```text
//!   DIR/lists.yaml             named lists, besides those of the catalogue
//!   DIR/failures.yaml          failures that support no cause
//!   DIR/<id>/page.md           a new cause: front matter and runbook
//!   DIR/<id>/rules.yaml        what supports it; <id> may be a cause of the catalogue, without page.md
//!   DIR/<id>/samples/hit/*     files in which the cause is found
//!   DIR/<id>/samples/miss/*    files in which it is not
//! ```

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use causes::{Cause, SiteCause};

use super::{Error, Rules, file};

/// The maximum size of a file: a larger one is not a file of rules.
const MAX_FILE_BYTES: u64 = 4 << 20;

/// A file that shows a cause, or does not.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) cause: Cause,
    pub(super) path: PathBuf,
    pub(super) hits: bool,
}

impl Rules {
    /// The rules of the catalogue and of these folders.
    ///
    /// # Errors
    ///
    /// All mistakes in the folders, in the order of their files.
    pub fn with_folders(folders: &[PathBuf]) -> Result<Self, Vec<Error>> {
        let mut rules = Self::built_in();
        let (mut errors, mut added) = (Vec::new(), Vec::new());
        for folder in folders {
            let first = rules.sites.len();
            rules.add_folder(folder, &mut errors);
            added.push((folder, first..rules.sites.len()));
        }
        // Causes may supersede each other, so all of them are declared first.
        for (folder, causes) in added {
            for cause in &rules.sites[causes] {
                errors.extend(check_supersedes(folder, cause).err());
            }
        }
        rules.sort();
        match errors.is_empty() {
            true => Ok(rules),
            false => Err(errors),
        }
    }

    fn add_folder(&mut self, folder: &Path, errors: &mut Vec<Error>) {
        let added = self.add_lists(&folder.join("lists.yaml"));
        errors.extend(added.err());
        let failures = folder.join("failures.yaml");
        let added = read(&failures).and_then(|text| match text {
            Some(text) => self.add(None, &shown(&failures), &text),
            None => Ok(()),
        });
        errors.extend(added.err());
        let mut causes = match entries(folder) {
            Ok(entries) => entries,
            Err(error) => return errors.push(error),
        };
        let is_hidden = |path: &PathBuf| name(path).starts_with('.');
        causes.retain(|path| path.is_dir() && !is_hidden(path));
        if causes.is_empty() {
            let says =
                "there is no cause in it: each cause is a folder with page.md and rules.yaml";
            errors.push(wrong(folder, says));
        }
        for cause in &causes {
            errors.extend(self.add_cause(cause).err());
        }
    }

    fn add_lists(&mut self, path: &Path) -> Result<(), Error> {
        let Some(text) = read(path)? else {
            return Ok(());
        };
        for (name, texts) in file::parse_lists(&shown(path), &text)? {
            if self.lists.contains_key(&name) {
                let says = format!("there is a list {name:?} already: give this one another name");
                return Err(wrong(path, says));
            }
            self.lists.insert(name, texts);
        }
        Ok(())
    }

    fn add_cause(&mut self, folder: &Path) -> Result<(), Error> {
        let cause = self.declare(folder)?;
        let rules = folder.join("rules.yaml");
        let Some(text) = read(&rules)? else {
            return Err(wrong(
                &rules,
                "it is missing: it says what supports the cause",
            ));
        };
        let before = self.count();
        self.add(Some(cause), &shown(&rules), &text)?;
        if self.count() == before {
            return Err(wrong(&rules, "there is no rule in it"));
        }
        self.add_samples(cause, folder)
    }

    pub(super) fn add_samples(&mut self, cause: Cause, folder: &Path) -> Result<(), Error> {
        for (directory, hits) in [("hit", true), ("miss", false)] {
            let directory = folder.join("samples").join(directory);
            if !directory.exists() {
                continue;
            }
            let samples = entries(&directory)?.into_iter();
            // Reading a pipe would block.
            let samples = samples.filter(|path| path.is_file() && !name(path).starts_with('.'));
            let samples = samples.map(|path| Sample { cause, path, hits });
            self.samples.extend(samples);
        }
        Ok(())
    }

    /// The cause of a folder: one of the catalogue, or a new one with a page.
    fn declare(&mut self, folder: &Path) -> Result<Cause, Error> {
        let (id, path) = (name(folder), folder.join("page.md"));
        let error = |says: String| wrong(&path, says);
        let known = Cause::ALL.into_iter().find(|cause| cause.id() == id);
        match (known, read(&path)?) {
            (Some(cause), None) => Ok(cause),
            (Some(_), Some(_)) => Err(error(format!(
                "{id} is in the catalogue and has a page: remove this one to add rules to {id}, or \
                 give the folder another name"
            ))),
            (None, None) => Err(error(format!(
                "it is missing: {id} is not in the catalogue, so it needs a page"
            ))),
            (None, Some(page)) => {
                let cause = SiteCause::declare(id, page);
                let cause =
                    cause.map_err(|it| Error::new(&shown(&path), it.line(), it.to_string()))?;
                self.sites.push(cause);
                Ok(cause)
            }
        }
    }
}

fn check_supersedes(folder: &Path, cause: &Cause) -> Result<(), Error> {
    let mut ids = cause.about().supersedes.iter();
    match ids.find(|id| id.parse::<Cause>().is_err()) {
        None => Ok(()),
        Some(unknown) => {
            let path = folder.join(cause.id()).join("page.md");
            let says = format!("it supersedes {unknown:?}, which is not the id of a cause");
            Err(wrong(&path, says))
        }
    }
}

fn name(path: &Path) -> &str {
    path.file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default()
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The text of a file, with line ends as on Linux; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<String>, Error> {
    let error = |says: String| Err(wrong(path, says));
    match std::fs::metadata(path) {
        Ok(file) if !file.is_file() => return error("it is not a regular file".to_owned()),
        Ok(file) if file.len() > MAX_FILE_BYTES => {
            return error(format!("it is larger than {} MiB", MAX_FILE_BYTES >> 20));
        }
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(path, &error)),
    }
    let text = std::fs::read_to_string(path).map_err(|error| unreadable(path, &error))?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(Some(text.replace("\r\n", "\n")))
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let read = std::fs::read_dir(folder).map_err(|error| unreadable(folder, &error))?;
    let mut paths = Vec::new();
    for entry in read {
        paths.push(entry.map_err(|error| unreadable(folder, &error))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Error {
    wrong(path, format!("cannot be read: {error}"))
}

fn wrong(path: &Path, says: impl Into<String>) -> Error {
    Error::new(&shown(path), None, says.into())
}
