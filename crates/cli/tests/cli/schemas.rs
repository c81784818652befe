//! Interfaces for other programs: the schemas in `docs/schema` describe the output of the commands, and
//! the toolset for HolmesGPT uses commands that exist.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use analyze::kind::Kind;
use causes::finding::Confidence;
use pleg::out::health::HealthState;
use pleg::out::status_report::GuardMode;
use pleg::runtime::{CallError, Rpc};
use serde_json::{Value, json};
use sim::Fault;

use crate::support::{Agent, FakeRuntime, Pleg, Schema, eventually};

const COMMANDS: [&str; 3] = ["analyze", "doctor", "status"];

/// Samples of every kind of input, in `crates`.
const SAMPLES: [&str; 15] = [
    "analyze/tests/samples/log-kubelet-1.6-coreos-k8s45419.log",
    "analyze/tests/samples/log-kubelet-1.22-pathful-caller-k8s106265.log",
    "analyze/tests/samples/log-systemd-cookie-overflow-systemdrhel266.log",
    "analyze/tests/samples/proc-runc-init-refrigerator-runc4481.txt",
    "analyze/tests/samples/dump-containerd-1.7-rwmutex-rlock-containerd10583.txt",
    "analyze/tests/samples/ps-runc-create-epoll-lostwakeup-runc3641.txt",
    "analyze/tests/samples/reports/terway-kubelet-stacks.txt",
    "analyze/tests/samples/reports/kubelet-1.11-metrics.txt",
    "analyze/tests/pastes/more-23-pprof-relist-sandboxstatus.txt",
    "analyze/tests/pastes/a09-event-runc-emfile.txt",
    "causes/causes/shim-unresponsive/samples/hit/lines.log",
    "causes/causes/kernel-regression/samples/hit/lines.log",
    "causes/causes/container-creation-slow/samples/hit/lines.log",
    "causes/causes/runtime-unresponsive/samples/hit/lines.log",
    "causes/causes/runc-short-exec-stuck/samples/miss/lines.log",
];

fn sample(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(path)
}

fn analyze(path: &Path) -> Value {
    let args = ["analyze", "-o", "json", path.to_str().unwrap()];
    Pleg::new(&args).run().value()
}

fn status(runtime: &FakeRuntime) -> Value {
    let path = runtime.path();
    let args = ["status", "-r", &path, "--agent", "off", "-o", "json"];
    Pleg::new(&args).run().value()
}

#[test]
fn the_schema_of_analyze_describes_the_report_on_every_kind_of_file() {
    let schema = Schema::of("analyze");
    let mut kinds = BTreeSet::new();
    let mut parts = BTreeSet::new();
    for path in SAMPLES {
        let report = analyze(&sample(path));
        schema.assert_describes(&report);
        kinds.insert(report["inputs"][0]["kind"].as_str().unwrap().to_owned());
        let filled = report.as_object().unwrap().iter();
        let filled = filled.filter(|(_, value)| !value.is_null() && **value != json!([]));
        parts.extend(filled.map(|(key, _)| key.clone()));
    }
    let expected = Kind::KNOWN.into_iter().chain([Kind::Unknown]);
    let expected = expected.filter(|kind| *kind != Kind::Snapshot);
    let expected: BTreeSet<String> = expected.map(|kind| kind.as_str().to_owned()).collect();
    assert_eq!(kinds, expected, "the samples are of all kinds");
    for part in [
        "pleg",
        "goroutines",
        "chain",
        "metrics",
        "timeline",
        "findings",
        "unexplained",
        "errors",
    ] {
        assert!(parts.contains(part), "no sample has {part}");
    }
}

#[test]
fn the_schema_of_analyze_describes_files_that_cannot_be_read_and_numbers_that_are_not_finite() {
    let schema = Schema::of("analyze");
    let folder = tempfile::tempdir().unwrap();
    let binary = folder.path().join("binary");
    fs::write(&binary, [0xff, 0, 1, 2, b'\n'].repeat(1000)).unwrap();
    let report = analyze(&binary);
    assert!(report["inputs"][0]["error"].is_string(), "{report:#}");
    schema.assert_describes(&report);
    let metrics = folder.path().join("metrics");
    let text = "# TYPE kubelet_pleg_relist_duration_seconds histogram\n\
        kubelet_pleg_relist_duration_seconds_count NaN\n\
        kubelet_pleg_discard_events +Inf\n";
    fs::write(&metrics, text).unwrap();
    let report = analyze(&metrics);
    assert_eq!(report["metrics"]["discardedEvents"], Value::Null);
    schema.assert_describes(&report);
}

#[test]
fn the_schema_of_status_describes_a_healthy_node_and_one_with_faults() {
    let schema = Schema::of("status");
    let runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["x"])]);
    schema.assert_describes(&status(&runtime));
    let refused = Fault::Fail(CallError::Refused("no".into()));
    runtime
        .sim
        .fault(Rpc::ContainerStatus, Some("a/x.0"), refused);
    let failing = status(&runtime);
    assert!(failing["failing"][0]["cause"].is_object(), "{failing:#}");
    schema.assert_describes(&failing);
    runtime.sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let stuck = status(&runtime);
    assert_eq!(stuck["stuck"][0]["call"], "ListContainers");
    schema.assert_describes(&stuck);
}

#[test]
fn the_schema_of_status_describes_what_an_agent_serves() {
    let schema = Schema::of("status");
    let mut runtime = FakeRuntime::with_pods(&[("a", &["x"]), ("b", &["y"])]);
    let bundles = tempfile::tempdir().unwrap();
    let section = format!("diagnosis:\n  directory: {}\n", bundles.path().display());
    let agent = Agent::configured(&runtime.path(), &section);
    agent.wait_healthy();
    let served = || agent.get("/v1/status").json();
    let healthy = served();
    schema.assert_describes(&healthy);
    let args = ["status", "--agent", &agent.socket, "-o", "json"];
    schema.assert_describes(&Pleg::new(&args).run().assert_code(0).value());

    let sim = &runtime.sim;
    sim.fault(Rpc::ContainerStatus, Some("a/x.0"), Fault::Hang);
    sim.fault(Rpc::ListContainers, None, Fault::Hang);
    let diagnosed = eventually("it is diagnosed", || {
        let status = served();
        status.get("finding").is_some().then_some(status)
    });
    schema.assert_describes(&diagnosed);
    runtime.go_away();
    let unreachable = eventually("the runtime is unreachable", || {
        let status = served();
        let is_unreachable = status["health"]["reason"] == "RuntimeUnreachable";
        let has_failure = status["relist"]["lastFailure"].is_object();
        (is_unreachable && has_failure).then_some(status)
    });
    schema.assert_describes(&unreachable);
}

#[test]
fn a_wrong_type_a_missing_key_and_a_key_without_description_are_found() {
    let runtime = FakeRuntime::with_pods(&[("a", &["x"])]);
    let schema = Schema::of("status");
    let output = status(&runtime);
    schema.assert_describes(&output);
    let faults = |change: fn(&mut Value)| {
        let mut changed = output.clone();
        change(&mut changed);
        schema.faults(&changed)
    };
    let wrong: [fn(&mut Value); 9] = [
        |it| it["pods"] = json!("1"),
        |it| it["health"]["state"] = json!("Fine"),
        |it| it["health"]["since"] = json!("yesterday"),
        |it| it["kubeletView"]["notReadyInSeconds"] = json!("soon"),
        |it| it["guard"]["answers"]["ListContainers"] = json!(-1),
        |it| it["runtime"] = Value::Null,
        |it| drop(it.as_object_mut().unwrap().remove("blind")),
        |it| it["relist"]["extra"] = json!(1),
        |it| it["extra"] = json!({"a": 1}),
    ];
    for (index, change) in wrong.into_iter().enumerate() {
        assert!(!faults(change).is_empty(), "change {index}");
    }
    // A later version may add values to this one.
    let found = faults(|it| it["health"]["reason"] = json!("SomethingNew"));
    assert_eq!(found, Vec::<String>::new());
}

/// The values that a schema lists at a JSON pointer.
fn listed(command: &str, pointer: &str) -> BTreeSet<String> {
    let schema = Schema::of(command);
    let values = schema.at(pointer).as_array().unwrap().iter();
    values.map(|it| it.as_str().unwrap().to_owned()).collect()
}

fn names(all: &[&str]) -> BTreeSet<String> {
    all.iter().map(|&name| name.to_owned()).collect()
}

#[test]
fn the_schemas_list_each_state_mode_confidence_and_kind() {
    let states = names(&HealthState::ALL.map(HealthState::as_str));
    let pointer = "/$defs/health/properties/state/enum";
    assert_eq!(listed("status", pointer), states);
    let modes = names(&GuardMode::ALL.map(GuardMode::as_str));
    for command in ["status", "doctor"] {
        assert_eq!(listed(command, "/$defs/guard/properties/mode/enum"), modes);
    }
    let confidences = names(&Confidence::ALL.map(Confidence::as_str));
    for command in ["doctor", "analyze"] {
        let pointer = "/$defs/finding/properties/confidence/enum";
        assert_eq!(listed(command, pointer), confidences);
    }
    let mut kinds = names(&Kind::KNOWN.map(Kind::as_str));
    kinds.insert(Kind::Unknown.as_str().to_owned());
    let pointer = "/$defs/input/properties/kind/enum";
    assert_eq!(listed("analyze", pointer), kinds);
}

/// The parts that the schemas have in common.
#[test]
fn a_finding_has_the_same_shape_in_the_doctors_report_and_in_that_of_analyze() {
    let (doctor, analyze) = (Schema::of("doctor"), Schema::of("analyze"));
    for part in ["time", "cause", "finding", "culprit", "pod"] {
        let pointer = format!("/$defs/{part}");
        assert_eq!(doctor.at(&pointer), analyze.at(&pointer), "{part}");
    }
}

/// All properties in a schema, with the places where they are described.
fn properties<'a>(schema: &'a Value, place: &str, found: &mut Vec<(String, &'a Value)>) {
    match schema {
        Value::Object(parts) => {
            for (key, part) in parts {
                let place = format!("{place}/{key}");
                if key == "properties" {
                    let named = part.as_object().unwrap().iter();
                    found.extend(named.map(|(name, of)| (format!("{place}/{name}"), of)));
                }
                properties(part, &place, found);
            }
        }
        Value::Array(parts) => {
            for part in parts {
                properties(part, place, found);
            }
        }
        _ => {}
    }
}

#[test]
fn each_property_of_a_schema_is_described_in_one_sentence() {
    for command in COMMANDS {
        let schema = Schema::of(command);
        let mut found = Vec::new();
        properties(schema.root(), "", &mut found);
        assert!(found.len() > 20, "{command}");
        for (place, property) in found {
            let description = property["description"].as_str().unwrap_or_default();
            let is_sentence = description.ends_with('.') && !description.contains(". ");
            assert!(is_sentence, "{command}: {place}: {description:?}");
        }
        let id = schema.at("/$id");
        let address = format!("https://pleg.dev/docs/schema/{command}.schema.json");
        assert_eq!(id.as_str(), Some(&*address));
    }
}

/// The toolset for HolmesGPT.
const TOOLSET: &str = include_str!("../../../../deploy/holmesgpt/pleg-toolset.yaml");

/// A value for each parameter, as a model fills it in.
const ARGUMENTS: [(&str, &str); 3] = [
    ("file", "/var/log/kubelet.log"),
    ("cause", "container-status-lock"),
    ("since", "2h"),
];

/// Commands that change nothing.
const READING: [&str; 6] = ["analyze", "doctor", "explain", "pods", "status", "timeline"];

/// Options with which these commands write files or send signals.
const CHANGING: [&str; 3] = ["--bundle", "--output-file", "--allow-signals"];

#[test]
fn each_command_of_the_toolset_exists_and_only_reads() {
    let toolset: Value = serde_saphyr::from_str(TOOLSET).unwrap();
    let toolset = &toolset["toolsets"]["pleg"];
    let tools = toolset["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .map(|it| it["name"].as_str().unwrap())
        .collect();
    let expected = [
        "pleg_doctor",
        "pleg_status",
        "pleg_pods",
        "pleg_analyze_logs",
        "pleg_explain",
        "pleg_timeline",
    ];
    assert_eq!(names, expected);
    for tool in tools {
        let mut command = tool["command"].as_str().unwrap().trim().to_owned();
        let parameters = tool["parameters"].as_object().into_iter().flatten();
        for (parameter, about) in parameters {
            assert!(about["description"].is_string(), "{tool:#}");
            let (_, argument) = ARGUMENTS.iter().find(|it| it.0 == parameter).unwrap();
            let placeholder = format!("{{{{ {parameter} }}}}");
            assert!(command.contains(&placeholder), "{tool:#}");
            command = command.replace(&placeholder, argument);
        }
        assert!(!command.contains('{'), "an undeclared parameter: {command}");
        // Exit code 1 means that a problem was found, which is no failure of the tool.
        let pleg = command.strip_suffix(" || test $? -eq 1");
        let words: Vec<&str> = pleg.unwrap_or(&command).split(' ').collect();
        let ["pleg", subcommand, ..] = words[..] else {
            panic!("{command}");
        };
        assert!(READING.contains(&subcommand), "{command}");
        // Arguments after `--` are never options.
        let options = words[1..].split(|word| *word == "--").next().unwrap();
        let changes = |word: &&str| CHANGING.iter().any(|option| word.starts_with(option));
        assert!(!options.iter().any(changes), "{command}");
        Pleg::new(&[options, &["--help"]].concat())
            .run()
            .assert_code(0);
    }
    for prerequisite in toolset["prerequisites"].as_array().unwrap() {
        let command = prerequisite["command"].as_str().unwrap();
        let args: Vec<&str> = command.strip_prefix("pleg ").unwrap().split(' ').collect();
        Pleg::new(&args).run().assert_code(0);
    }
}
