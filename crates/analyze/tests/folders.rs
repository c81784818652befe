//! Mistakes in a folder of rules: each is an error that names the file and the line, and none causes a panic
//! or a long delay.

use std::fs;
use std::path::{Path, PathBuf};

use analyze::rules::Rules;

const PAGE: &str =
    "---\nid: acme-hang\ntitle: the Acme driver hangs\nadvice:\n  - restart it\n---\n\nText.\n";

const LINE: &str =
    "- on: line\n  text: \"acme: not released\"\n  writer: runtime\n  confidence: high\n";

/// A folder with one cause.
fn folder(name: &str, page: &str, rules: &[u8]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    let cause = folder.join("acme-hang");
    fs::create_dir_all(&cause).unwrap();
    fs::write(cause.join("page.md"), page).unwrap();
    fs::write(cause.join("rules.yaml"), rules).unwrap();
    folder
}

fn errors(folder: &Path) -> String {
    let read = Rules::with_folders(&[folder.to_owned()]);
    let errors = read.err().into_iter().flatten();
    let shown = errors.map(|error| error.to_string().replace(&*folder.to_string_lossy(), ""));
    shown.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_mistake_in_rules_names_the_line() {
    let deep = "- ".repeat(20_000);
    let flow = format!("- on: line\n  text: {}", "[".repeat(50_000));
    let many = LINE.repeat(3000);
    for (rules, says) in [
        ("", ": there is no rule in it"),
        (
            "on: line\n",
            ":1: expected a list, whose items begin with `- `",
        ),
        (&*deep, ":1: "),
        (&*flow, ":2: expected a text"),
        (&*many, ": there are too many rules on lines"),
        (&format!("{LINE}  any: [\"\"]\n"), ":1: a text is empty"),
        (&format!("{LINE}  without: [\"\"]\n"), ":1: a text is empty"),
        (
            &format!("{LINE}  lines: -1\n"),
            ":5: expected a whole number, at least 0",
        ),
        (
            &format!("{LINE}  any: $none\n"),
            ":1: there is no list \"none\"",
        ),
        (
            "- on: line\n  text: \"\"\n  writer: kubelet\n  confidence: low\n",
            ":1: the text \"\" is too short",
        ),
        (
            "- on: process\n  names: []\n  confidence: low\n  says: x\n",
            ":1: `names` is empty",
        ),
        (
            "- on: kernel-stack\n  functions: []\n  confidence: low\n",
            ":1: `functions` is empty",
        ),
        (
            "- on: goroutines\n  confidence: low\n  says: x\n",
            ":1: it holds for every goroutine",
        ),
        (
            "- on: table\n  table: disk\n  confidence: low\n  says: x\n",
            ":1: there is no table \"disk\"; there are ",
        ),
        (
            "- on: table\n  table: disks\n  cells: { used: 90 }\n",
            ":3: expected keys with values",
        ),
        (
            "- on: process\n  names: [x]\n  atLeast: 99999999999999999999\n  confidence: low\n  says: x\n",
            ":3: expected a whole number",
        ),
    ] {
        let folder = folder("rules", PAGE, rules.as_bytes());
        let found = errors(&folder);
        let expected = format!("/acme-hang/rules.yaml{says}");
        let shown = &rules[..rules.len().min(80)];
        assert!(
            found.contains(says) && found.starts_with("/acme-hang/rules.yaml"),
            "{shown}: {found}, not {expected}"
        );
    }
}

#[test]
fn a_mistake_in_a_page_names_the_line() {
    for (from, to, says) in [
        (
            "id: acme-hang",
            "id: ../../etc",
            ": the front matter has the id \"../../etc\"",
        ),
        (
            "title: the Acme driver hangs\n",
            "",
            ":3: missing field `title`",
        ),
        (
            "the Acme driver hangs",
            "\"\"",
            ": the title \"\" must be a short sentence",
        ),
        (
            "the Acme driver hangs",
            "It hangs.",
            ": the title \"It hangs.\" must be a short sentence",
        ),
        ("advice:", "advise:", ":4: unknown field `advise`"),
        ("---\nid", "id", ": there is no front matter"),
    ] {
        let folder = folder("page", &PAGE.replacen(from, to, 1), LINE.as_bytes());
        let found = errors(&folder);
        assert!(
            found.starts_with(&format!("/acme-hang/page.md{says}")),
            "{to}: {found}"
        );
    }
}

#[test]
fn files_from_windows_are_read_and_special_files_are_refused() {
    let windows = |text: &str| format!("\u{feff}{}", text.replace('\n', "\r\n"));
    let crlf = folder("crlf", &windows(PAGE), windows(LINE).as_bytes());
    assert_eq!(errors(&crlf), "");
    let large = folder("large", PAGE, &b"#\n".repeat(3 << 20));
    assert_eq!(
        errors(&large),
        "/acme-hang/rules.yaml: it is larger than 4 MiB"
    );
    let binary = folder("binary", PAGE, &[0xff; 64]);
    assert!(
        errors(&binary).contains("cannot be read: "),
        "{}",
        errors(&binary)
    );
    for (name, target, says) in [
        ("device", "/dev/zero", ": it is not a regular file"),
        ("loop", "rules.yaml", ": cannot be read: "),
        ("directory", ".", ": it is not a regular file"),
    ] {
        let folder = folder(name, PAGE, b"");
        let rules = folder.join("acme-hang/rules.yaml");
        fs::remove_file(&rules).unwrap();
        std::os::unix::fs::symlink(target, &rules).unwrap();
        let found = errors(&folder);
        assert!(
            found.starts_with(&format!("/acme-hang/rules.yaml{says}")),
            "{name}: {found}"
        );
    }
}

#[test]
fn a_cause_may_supersede_one_of_a_later_folder_and_an_unknown_id_is_reported_once() {
    let page = |id: &str, supersedes: &str| {
        format!(
            "---\nid: {id}\ntitle: {id} hangs\nsupersedes: [{supersedes}]\nadvice:\n  - restart it\n---\n\nText.\n"
        )
    };
    let of = |id: &str, supersedes: &str| {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join("several")
            .join(id);
        let _ = fs::remove_dir_all(&root);
        let cause = root.join(id);
        fs::create_dir_all(&cause).unwrap();
        fs::write(cause.join("page.md"), page(id, supersedes)).unwrap();
        fs::write(cause.join("rules.yaml"), LINE).unwrap();
        root
    };
    let first = of("acme-first", "acme-second");
    let second = of("acme-second", "acme-none");
    let third = of("acme-third", "disk-full");
    let errors = Rules::with_folders(&[first, second.clone(), third]).unwrap_err();
    let page = second.join("acme-second/page.md");
    let expected = format!(
        "{}: it supersedes \"acme-none\", which is not the id of a cause",
        page.display()
    );
    assert_eq!(
        errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [expected]
    );
}
