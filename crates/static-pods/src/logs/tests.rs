use std::io::Read;

use pleg::model::wall_time::WallTime;
use tempfile::TempDir;

use super::rotation::{LogFile, RotationStep, plan};
use super::*;

fn pod() -> PodRef {
    PodRef {
        uid: "0b2c".into(),
        namespace: "kube-system".into(),
        name: "web".into(),
    }
}

fn folders(place: &TempDir) -> LogFolders {
    LogFolders {
        pods: place.path().join("pods"),
        links: place.path().join("containers"),
    }
}

fn now() -> WallTime {
    // 2006-01-02T15:04:05Z
    WallTime::from_unix_nanos(1_136_214_245_000_000_000).unwrap()
}

fn files(names: &[(&str, u64)]) -> Vec<LogFile> {
    let file = |(name, size): &(&str, u64)| LogFile {
        name: (*name).to_owned(),
        size: *size,
    };
    names.iter().map(file).collect()
}

const BIG: u64 = (10 << 20) + 1;

#[test]
fn a_log_up_to_the_limit_is_not_rotated() {
    let files = files(&[("0.log", 10 << 20), ("0.log.20060101-000000", 1)]);
    assert_eq!(plan("0.log", &files, Limits::default(), now()), []);
}

#[test]
fn five_files_are_kept_and_all_but_the_newest_are_compressed() {
    let files = files(&[
        ("0.log.20060102-140000", 5),
        ("0.log", BIG),
        ("0.log.20060102-110000.gz", 1),
        ("0.log.20060102-100000.gz", 1),
        ("0.log.20060102-130000.gz", 1),
        // An unfinished file of a rotation that was killed.
        ("0.log.20060102-140000.tmp", 1),
        ("0.log.20060102-130000", 5),
        // Files of other attempts.
        ("1.log", BIG),
        ("1.log.20060102-090000", 1),
        ("10.log.20060102-090000", 1),
    ]);
    let remove = |name: &str| RotationStep::Remove(name.to_owned());
    assert_eq!(
        plan("0.log", &files, Limits::default(), now()),
        [
            remove("0.log.20060102-130000"),
            remove("0.log.20060102-140000.tmp"),
            remove("0.log.20060102-100000.gz"),
            RotationStep::Compress("0.log.20060102-140000".to_owned()),
            RotationStep::PutAside("0.log.20060102-150405".to_owned()),
        ]
    );
}

#[test]
fn a_log_that_was_renamed_and_never_reopened_is_reopened() {
    let files = files(&[("0.log.20060102-140000", BIG)]);
    let steps = plan("0.log", &files, Limits::default(), now());
    assert_eq!(steps, [RotationStep::Reopen]);
}

#[test]
fn a_second_rotation_within_a_second_overwrites_nothing() {
    for name in ["0.log.20060102-150405", "0.log.20060102-150405.gz"] {
        let files = files(&[("0.log", BIG), (name, 1)]);
        assert_eq!(plan("0.log", &files, Limits::default(), now()), []);
    }
}

#[test]
fn rotations_keep_every_line_in_order_until_the_oldest_file_is_removed() {
    let place = tempfile::tempdir().unwrap();
    let folders = folders(&place);
    folders.make(&pod(), "app").unwrap();
    let log = folders.log(&pod(), "app", 0).unwrap();
    let limits = Limits { size: 3, files: 3 };
    for second in 0..4 {
        fs::write(&log, format!("second {second}\n")).unwrap();
        let time = WallTime::from_unix_nanos(now().as_unix_nanos() + second * 1_000_000_000);
        let mut reopen = || fs::write(&log, "");
        let rotated = rotate(&log, limits, time.unwrap(), &mut reopen).unwrap();
        assert_eq!(rotated, Rotated::Yes);
    }
    let folder = log.parent().unwrap();
    let mut names = names(folder).unwrap();
    names.sort();
    let zipped = "0.log.20060102-150407.gz";
    assert_eq!(names, ["0.log", zipped, "0.log.20060102-150408"]);
    let mut text = String::new();
    let file = fs::File::open(folder.join(zipped)).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    assert_eq!(text, "second 2\n");
}

#[test]
fn a_log_gets_its_name_back_when_the_runtime_does_not_reopen_it() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("0.log");
    fs::write(&log, "line\n").unwrap();
    let limits = Limits { size: 1, files: 5 };
    let mut refuse = || Err(io::Error::other("no"));
    rotate(&log, limits, now(), &mut refuse).unwrap_err();
    assert_eq!(names(place.path()).unwrap(), ["0.log"]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "line\n");
}

#[test]
fn a_log_that_was_reopened_without_an_answer_is_not_overwritten() {
    let place = tempfile::tempdir().unwrap();
    let log = place.path().join("0.log");
    fs::write(&log, "old\n").unwrap();
    let limits = Limits { size: 1, files: 5 };
    let mut time_out = || {
        fs::write(&log, "new\n")?;
        Err(io::ErrorKind::TimedOut.into())
    };
    rotate(&log, limits, now(), &mut time_out).unwrap_err();
    assert_eq!(fs::read_to_string(&log).unwrap(), "new\n");
    assert_eq!(names(place.path()).unwrap().len(), 2, "the old one is kept");
}

#[test]
fn the_log_and_its_link_are_removed_with_the_container() {
    let place = tempfile::tempdir().unwrap();
    let folders = folders(&place);
    folders.make(&pod(), "app").unwrap();
    let log = folders.log(&pod(), "app", 1).unwrap();
    assert!(
        log.ends_with("pods/kube-system_web_0b2c/app/1.log"),
        "{log:?}"
    );
    for name in ["0.log", "1.log", "1.log.20060102-150405.gz", "11.log"] {
        fs::write(log.with_file_name(name), name).unwrap();
    }
    for _ in 0..2 {
        folders.link(&pod(), "app", 1, &"f00".into()).unwrap();
    }
    let link = folders.links.join("web_kube-system_app-f00.log");
    assert_eq!(fs::read_to_string(&link).unwrap(), "1.log");
    folders
        .remove_container(&pod(), "app", 1, &"f00".into())
        .unwrap();
    assert!(link.symlink_metadata().is_err());
    let mut left = names(log.parent().unwrap()).unwrap();
    left.sort();
    assert_eq!(left, ["0.log", "11.log"]);
}

#[test]
fn only_the_logs_and_links_of_a_pod_are_removed_with_it() {
    let place = tempfile::tempdir().unwrap();
    let folders = folders(&place);
    let other = PodRef {
        uid: "ffff".into(),
        ..pod()
    };
    for (pod, id) in [(pod(), "a"), (other.clone(), "b")] {
        folders.make(&pod, "app").unwrap();
        folders.link(&pod, "app", 0, &id.into()).unwrap();
    }
    for _ in 0..2 {
        folders.remove_pod(&pod()).unwrap();
    }
    assert_eq!(names(&folders.pods).unwrap(), ["kube-system_web_ffff"]);
    assert_eq!(
        names(&folders.links).unwrap(),
        ["web_kube-system_app-b.log"]
    );
}

#[test]
fn names_that_lead_to_another_folder_are_refused() {
    let place = tempfile::tempdir().unwrap();
    let folders = folders(&place);
    for uid in ["", "..", "../../etc", "a/b"] {
        let pod = PodRef {
            uid: uid.into(),
            ..pod()
        };
        folders.remove_pod(&pod).unwrap_err();
    }
    folders.make(&pod(), "../x").unwrap_err();
    folders
        .link(&pod(), "app", 0, &"../../x".into())
        .unwrap_err();
}

#[test]
fn the_name_of_a_link_fits_a_file_system() {
    let pod = PodRef {
        name: "n".repeat(250).into(),
        ..pod()
    };
    let name = link_name(&pod, "app", &"f00".into()).unwrap();
    assert_eq!(name.len(), 255);
    assert!(name.ends_with(".log"));
}
