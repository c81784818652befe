//! Files that packages install beside the binary: completion scripts, manual pages, a configuration.

use std::collections::BTreeSet;
use std::fs;

use agent::AgentConfig;
use tempfile::{NamedTempFile, TempDir};

use crate::support::Pleg;

const PACKAGED_CONFIG: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../packaging/debian/agent.yaml"
);

/// The commands that `pleg --help` lists.
fn commands() -> BTreeSet<String> {
    let help = Pleg::new(&["--help"]).run().assert_code(0).out;
    let after = help.split_once("Commands:\n").unwrap().1;
    let listed = after.lines().take_while(|line| !line.is_empty());
    // A wrapped description continues further to the right.
    let names = listed.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let names = names.filter(|name| !name.is_empty() && *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn every_listed_command_and_no_hidden_one_has_a_completion_in_each_shell() {
    let commands = commands();
    assert!(commands.contains("doctor") && commands.contains("completion"));
    for shell in ["bash", "zsh", "fish"] {
        let script = Pleg::new(&["completion", shell]).run().assert_code(0).out;
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
        for hidden in ["man-pages", "doctor-helper"] {
            assert!(!script.contains(hidden), "{shell}: {hidden}");
        }
    }
}

#[test]
fn the_plug_in_has_a_completion_by_its_own_name_in_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let args = ["completion", shell, "kubectl-pleg"];
        let script = Pleg::new(&args).run().assert_code(0).out;
        for part in ["kubectl-pleg", "kubeconfig", "wide"] {
            assert!(script.contains(part), "{shell}: {part}");
        }
        assert!(!script.contains("relist-period"), "{shell}");
    }
}

#[test]
fn every_listed_command_has_a_manual_page_and_no_hidden_one_has() {
    let directory = TempDir::new().unwrap();
    let man = directory.path().join("share/man1");
    Pleg::new(&["man-pages", man.to_str().unwrap()])
        .run()
        .assert_code(0);
    let pages = fs::read_dir(&man).unwrap();
    let pages: BTreeSet<String> = pages
        .map(|page| page.unwrap().file_name().into_string().unwrap())
        .collect();
    for command in commands() {
        assert!(pages.contains(&format!("pleg-{command}.1")), "{command}");
    }
    for page in ["pleg.1", "pleg-guard-install.1", "kubectl-pleg.1"] {
        assert!(pages.contains(page), "{page}");
    }
    for hidden in ["pleg-man-pages.1", "pleg-doctor-helper.1"] {
        assert!(!pages.contains(hidden), "{hidden}");
    }
    let page = fs::read_to_string(man.join("pleg-watch.1")).unwrap();
    assert!(page.contains("relist\\-period"), "{page}");
}

/// The sockets of a guard and of a `pleg run` are in the same directory as the agent's.
#[test]
fn no_unit_removes_the_directory_of_sockets_when_it_stops() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    let shipped = [
        "deploy/systemd/pleg-agent.service",
        "docs/run.md",
        // `pleg guard install` writes it.
        "crates/cli/src/act/guard/units.rs",
    ];
    let shipped = shipped.map(|path| fs::read_to_string(format!("{root}/{path}")).unwrap());
    for text in shipped {
        let owns = text.matches("RuntimeDirectory=pleg\n").count();
        let keeps = text.matches("RuntimeDirectoryPreserve=yes\n").count();
        assert!(owns == 1 && keeps == 1, "{text}");
    }
}

#[test]
fn pages_that_cannot_be_written_are_an_error_that_names_the_directory() {
    let file = NamedTempFile::new().unwrap();
    let path = file.path().to_str().unwrap();
    let ended = Pleg::new(&["man-pages", path]).run().assert_code(2);
    assert!(ended.err.contains(path), "{ended:?}");
}

#[test]
fn the_packaged_configuration_changes_no_default() {
    let config = AgentConfig::read(PACKAGED_CONFIG.as_ref()).unwrap();
    assert_eq!(config, AgentConfig::default());
}

#[test]
fn each_key_of_the_packaged_configuration_is_known_and_its_value_accepted() {
    let text = fs::read_to_string(PACKAGED_CONFIG).unwrap();
    // A comment starts with a space and a capital letter; a key does not, or is indented.
    let key = |line: &str| {
        let key = line.strip_prefix('#')?;
        let is_key = key.starts_with(|c: char| c.is_ascii_lowercase()) || key.starts_with("  ");
        is_key.then(|| format!("{key}\n"))
    };
    let keys: String = text.lines().filter_map(key).collect();
    assert!(keys.contains("relistPeriod: ") && keys.contains("\n  kubeconfig: "));
    let file = NamedTempFile::new().unwrap();
    fs::write(&file, keys).unwrap();
    let config = AgentConfig::read(file.path()).unwrap();
    assert!(config.kubernetes.is_some());
}

#[test]
fn the_documented_steps_turn_the_diagnosis_and_the_writes_to_the_cluster_on() {
    let install = include_str!("../../../../docs/install.md");
    let marker = " /etc/pleg/agent.yaml <<'EOF'\n";
    let parts: Vec<&str> = install.split(marker).collect();
    assert_eq!(parts.len(), 3, "the package and the archive");
    for pair in parts.windows(2) {
        let [before, rest] = pair else { unreachable!() };
        let (lines, after) = rest.split_once("EOF\n").unwrap();
        let file = NamedTempFile::new().unwrap();
        let text = match before.ends_with("cat >>") {
            true => fs::read_to_string(PACKAGED_CONFIG).unwrap() + lines,
            false => lines.to_owned(),
        };
        fs::write(&file, text).unwrap();
        let config = AgentConfig::read(file.path()).unwrap();
        assert!(config.diagnosis.is_some());
        let kubeconfig = config.kubernetes.unwrap().kubeconfig.unwrap();
        assert!(kubeconfig.is_absolute());
        let commands = after.split("```").next().unwrap();
        assert!(commands.contains("systemctl "), "{commands}");
    }
}

/// An agent without its own state directory would record into the real history.
#[test]
fn in_the_docs_an_agent_of_a_simulated_runtime_has_its_own_directory() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs");
    let mut examples = 0;
    for file in fs::read_dir(docs).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "md") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        let blocks = text.split("```").skip(1).step_by(2);
        for block in blocks.filter(|it| it.contains("pleg sim ") && it.contains("pleg agent ")) {
            examples += 1;
            assert!(
                block.contains("PLEG_STATE_DIR="),
                "{}: {block}",
                path.display()
            );
        }
    }
    assert!(examples > 0);
}
