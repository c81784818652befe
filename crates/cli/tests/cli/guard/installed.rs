//! The units of a guard, and the program that they start.

use std::fs;
use std::process::Command;

use super::PODS;
use crate::support::{FakeRuntime, Pleg};

#[test]
fn without_the_guards_program_the_error_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("pleg");
    fs::copy(env!("CARGO_BIN_EXE_pleg"), &alone).unwrap();
    let mut command = Command::new(alone);
    let command = command
        .args(["guard", "-r", "/run/none.sock"])
        .env("PATH", "");
    let ended = command.output().unwrap();
    assert_eq!(ended.status.code(), Some(2));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("pleg-guard is neither beside"), "{said}");
}

/// Enforces G16.
#[test]
fn install_and_uninstall_leave_nothing() {
    let runtime = FakeRuntime::with_pods(PODS);
    let units = tempfile::tempdir().unwrap();
    let directory = units.path().to_str().unwrap();
    let endpoint = runtime.endpoint();
    let options = ["--unit-directory", directory, "--listen", "/run/x/cri.sock"];
    let install = [&["guard", "install", "-r", &endpoint], &options[..]].concat();
    let tried = [&install[..], &["--dry-run"]].concat();
    let would = Pleg::new(&tried).run().assert_code(0).out;
    assert!(would.contains("ListenStream=/run/x/cri.sock\n"), "{would}");
    assert_eq!(fs::read_dir(units.path()).unwrap().count(), 0, "it is dry");
    let said = Pleg::new(&install).run().assert_code(0).out;
    let setting = "containerRuntimeEndpoint: unix:///run/x/cri.sock\n";
    assert!(said.contains(setting), "{said}");
    let service = fs::read_to_string(units.path().join("pleg-guard.service")).unwrap();
    let program = format!("/pleg-guard --runtime-endpoint {endpoint} ");
    assert!(service.contains(&program), "{service}");
    assert!(would.contains(&service), "{would}");
    let socket = fs::read_to_string(units.path().join("pleg-guard.socket")).unwrap();
    assert!(socket.contains("ListenStream=/run/x/cri.sock\n"));

    let uninstall = ["guard", "uninstall", "--unit-directory", directory];
    let tried = [&uninstall[..], &["--dry-run"]].concat();
    let would = Pleg::new(&tried).run().assert_code(0).out;
    assert!(would.contains("Would remove "), "{would}");
    assert_eq!(fs::read_dir(units.path()).unwrap().count(), 2);
    let said = Pleg::new(&uninstall).run().assert_code(0).out;
    assert!(said.contains(&endpoint), "{said}");
    assert_eq!(fs::read_dir(units.path()).unwrap().count(), 0);
    Pleg::new(&uninstall).run().assert_code(2);

    let nowhere = ["guard", "install", "-r", "/run/none.sock"];
    let nowhere = [&nowhere[..], &["--unit-directory", directory]].concat();
    let said = Pleg::new(&nowhere).run().assert_code(2).err;
    assert!(
        said.contains("no container runtime at /run/none.sock"),
        "{said}"
    );
    assert_eq!(fs::read_dir(units.path()).unwrap().count(), 0);
}
