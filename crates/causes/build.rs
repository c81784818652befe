//! Turns the YAML of the catalogue into JSON, which a process parses within a millisecond when it starts.
//! This script checks only that the YAML is well-formed. The types of rules and facts check the rest.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use serde_saphyr::Spanned;

fn main() {
    println!("cargo::rerun-if-changed=causes");
    let causes = Path::new("causes");
    let mut rules = Vec::new();
    let mut pages = BTreeMap::new();
    let entries = fs::read_dir(causes).expect("the catalogue is beside this script");
    for folder in entries.map(|entry| entry.expect("the catalogue is readable").path()) {
        if !folder.is_dir() {
            continue;
        }
        let id = folder.file_name().and_then(|name| name.to_str());
        let id = id.expect("an id is ASCII").to_owned();
        let page = text(&folder.join("page.md"));
        let matter = page
            .strip_prefix("---\n")
            .and_then(|page| page.split_once("\n---\n\n"));
        let (matter, _) = matter.unwrap_or_else(|| panic!("the page of {id} has no front matter"));
        let front: Value = parse(&folder.join("page.md"), matter);
        pages.insert(id.clone(), front);
        rules.push(format!("{id:?}:{}", rules_of(&folder.join("rules.yaml"))));
    }
    write("rules.json", &format!("{{{}}}", rules.join(",")));
    write("pages.json", &json!(pages).to_string());
    write("failures.json", &rules_of(&causes.join("failures.yaml")));
    for name in ["lists", "facts"] {
        let path = causes.join(name).with_extension("yaml");
        let value: Value = parse(&path, &text(&path));
        write(&format!("{name}.json"), &value.to_string());
    }
}

/// The rules of a file as JSON: for each rule, its line and its keys, with `on` as the first key.
fn rules_of(path: &Path) -> String {
    let rules: Option<Vec<Spanned<Map<String, Value>>>> = parse(path, &text(path));
    let rules = rules.into_iter().flatten().map(|rule| {
        let (line, mut keys) = (rule.referenced.line(), rule.value);
        let on = keys.remove("on").unwrap_or_else(|| {
            panic!("{}:{line}: a rule begins with `on:`", path.display());
        });
        let others = Value::Object(keys).to_string();
        format!("[{line},{{\"on\":{on},{}]", &others[1..])
    });
    format!("[{}]", rules.collect::<Vec<_>>().join(","))
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn parse<T: DeserializeOwned>(path: &Path, text: &str) -> T {
    serde_saphyr::from_str(text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn write(name: &str, json: &str) {
    let folder = env::var_os("OUT_DIR").map(PathBuf::from);
    let path = folder.expect("cargo sets OUT_DIR").join(name);
    fs::write(&path, json).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}
