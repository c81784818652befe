//! Versions as they are found on nodes, looked up in the tables.

use super::SerialOverflow::{Affected, Repaired, Unknown};
use super::*;

#[test]
fn versions_of_runc_are_read_as_packagers_write_them() {
    for (version, pipe, exec) in [
        ("1.0.0-rc92", false, false),
        ("1.0.0-rc93", true, false),
        ("1.0.0~rc93+ds1-5+deb11u3", true, false),
        ("1.0.0~rc94-1", false, false),
        ("1.1.5+ds1-1+deb12u1+b1", false, false),
        ("v1.3.0", false, true),
        ("1.3.5-0ubuntu1", false, true),
        ("1.3.6", false, false),
        ("1.3.10", false, false),
        ("1.5.0-rc1", false, true),
        ("1.5.0-rc.1", false, true),
        ("1.5.0-rc2", false, false),
        ("1.4.0", false, true),
        ("1.4.2", false, false),
    ] {
        assert_eq!(
            has_fault(Fault::SeccompPipe, version),
            Some(pipe),
            "{version}"
        );
        assert_eq!(
            has_fault(Fault::ShortExec, version),
            Some(exec),
            "{version}"
        );
    }
    assert_eq!(has_fault(Fault::ShortExec, "devel"), None);
    assert_eq!(has_fault(Fault::MountsForExec, "1.1.12"), Some(true));
    assert_eq!(has_fault(Fault::MountsForExec, "1.2.0"), Some(false));
}

#[test]
fn the_package_shows_whether_a_systemd_survives_its_last_serial_number() {
    for (running, package, survives) in [
        ("252.39-1~deb12u1", None, Repaired),
        ("systemd 242", None, Repaired),
        ("219", Some("219-62.el7"), Affected),
        ("219", Some("219-62.el7_6.7"), Affected),
        ("219", Some("219-62.el7_6.8"), Repaired),
        ("219", Some("219-67.el7"), Repaired),
        ("219", Some("219-78.el7_9.3"), Repaired),
        ("219", Some("219-42.el7_4.10"), Affected),
        ("219", Some("219-57.el7_5.5"), Affected),
        ("219", Some("219-62.el7_6.9"), Repaired),
        ("219", Some("219-62.0.4.el7_6.7"), Affected),
        ("219", Some("219-62.0.4.el7_6.9"), Repaired),
        ("219", Some("219-78.amzn2.0.24"), Unknown),
        ("239", Some("239-13.el8"), Affected),
        ("239", Some("239-13.el8_0.5"), Affected),
        ("239", Some("239-18.el8_1.2"), Repaired),
        ("systemd 239 (239-82.el8)", Some("239-82.el8"), Repaired),
        ("239", Some("239-16.el8"), Repaired),
        ("237", Some("237-3ubuntu10.39"), Affected),
        ("237", Some("237-3ubuntu10.41"), Repaired),
        ("219", None, Unknown),
        ("219", Some("252-1"), Unknown),
        ("241", Some("241-7~deb10u8"), Unknown),
    ] {
        assert_eq!(
            serial_overflow(running, package),
            survives,
            "{running} {package:?}"
        );
    }
}

/// Packages of a branch from old to new, and the first of them that is repaired.
fn branches() -> Vec<(Vec<String>, &'static str)> {
    let el7: Vec<String> = [(4, 42), (5, 57), (7, 67), (8, 73), (9, 78)]
        .into_iter()
        .flat_map(|(minor, release)| {
            let base = format!("219-{release}.el7");
            let updates = (1..12).map(move |update| format!("219-{release}.el7_{minor}.{update}"));
            std::iter::once(base).chain(updates)
        })
        .collect();
    let el7_6 = (1..40)
        .map(|update| format!("219-62.el7_6.{update}"))
        .collect();
    let el8 = (1..90)
        .map(|release| format!("239-{release}.el8"))
        .collect();
    let ubuntu = (1..60)
        .map(|update| format!("237-3ubuntu10.{update}"))
        .collect();
    vec![
        (el7, "219-67.el7"),
        (el7_6, "219-62.el7_6.8"),
        (el8, "239-16.el8"),
        (ubuntu, "237-3ubuntu10.41"),
    ]
}

#[test]
fn on_each_branch_all_packages_since_the_repaired_one_are_repaired_and_none_before_it() {
    for (packages, first) in branches() {
        let running = first.split('-').next().unwrap();
        let at = packages.iter().position(|package| package == first);
        let at = at.expect("the first repaired package");
        for (number, package) in packages.iter().enumerate() {
            let expected = if number < at { Affected } else { Repaired };
            // Neither an epoch nor an architecture changes the result.
            for package in [
                package.clone(),
                format!("0:{package}"),
                format!("1:{package}"),
                format!("{package}.x86_64"),
            ] {
                assert_eq!(
                    serial_overflow(running, Some(&package)),
                    expected,
                    "{package}"
                );
            }
        }
    }
}

#[test]
fn a_rebuilt_package_is_judged_like_the_original() {
    for (packages, _) in branches() {
        for package in packages.iter().filter(|package| package.contains(".el")) {
            let upstream = package.split('-').next().unwrap();
            let rebuilt = package.replace(".el", ".0.3.el");
            let branded = format!("{package}.centos");
            let mine = serial_overflow(upstream, Some(package));
            assert_eq!(serial_overflow(upstream, Some(&rebuilt)), mine, "{rebuilt}");
            assert_eq!(serial_overflow(upstream, Some(&branded)), mine, "{branded}");
        }
    }
}

#[test]
fn a_kernel_is_known_by_its_release_and_its_distribution() {
    for (release, faults) in [
        ("5.4.0-131-generic", 0),
        ("5.4.0-132-generic", 1),
        ("5.4.0-135-generic", 0),
        ("5.4.209-116.367.amzn2.x86_64", 0),
        ("5.4.217-126.408.amzn2.x86_64", 1),
        ("5.4.219-126.411.amzn2.x86_64", 0),
        ("5.4.212", 1),
        ("5.4.225", 0),
        ("6.1.115-126.197.amzn2023.x86_64", 1),
        ("6.1.119-129.201.amzn2023.x86_64", 0),
        ("5.15.63-flatcar", 1),
        ("6.18.44", 0),
        ("nonsense", 0),
    ] {
        assert_eq!(kernel_faults(release).len(), faults, "{release}");
    }
    for (release, leaks) in [
        ("3.10.0-957.el7.x86_64", true),
        ("3.10.0-1127.el7.x86_64", false),
        ("5.14.0-70.el9.x86_64", false),
    ] {
        let has = has_fault(Fault::MemoryCgroupLeak, release);
        assert_eq!(has, Some(leaks), "{release}");
    }
}

#[test]
fn a_release_with_a_note_is_compared_by_its_number() {
    assert!(is_older("1.7.2", "1.7.8 (a note)"));
    assert!(!is_older("v1.7.24~ds1", "1.7.8 (a note)"));
    assert!(!is_older("2.0.0", "1.6.25"));
    assert!(is_older("unknown", "1.6.25"));
}
