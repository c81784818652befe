use std::time::Duration;

use static_pods::spec::{
    Check, Field, HostPathType, Medium, Network, Protocol, PullPolicy, RestartPolicy, Role, Scheme,
    Seccomp, Value, Volume,
};

use crate::read;

const ETCD: &str = include_str!("../samples/etcd.yaml");
const API_SERVER: &str = include_str!("../samples/kube-apiserver.yaml");
const SHOP: &str = include_str!("../samples/shop.yaml");

/// What `kubectl run web --image=nginx --dry-run=client -o yaml` prints.
const KUBECTL_RUN: &str = "\
apiVersion: v1
kind: Pod
metadata:
  creationTimestamp: null
  labels:
    run: web
  name: web
spec:
  containers:
  - image: nginx
    name: web
    resources: {}
  dnsPolicy: ClusterFirst
  restartPolicy: Always
status: {}
";

#[test]
fn the_output_of_kubectl_run_is_a_pod_with_the_defaults_of_an_api_server() {
    let pod = read(KUBECTL_RUN).unwrap();
    assert_eq!(pod.pod.to_string(), "default/web");
    assert_eq!(pod.restart_policy, RestartPolicy::Always);
    assert_eq!(pod.grace_period, Duration::from_secs(30));
    assert_eq!(pod.dns, None);
    assert!(!pod.node_critical);
    let hostname = "web".to_owned();
    assert_eq!(pod.network, Network::Pod { hostname });
    assert_eq!(pod.containers[0].pull_policy, PullPolicy::Always);
    assert_eq!(pod.containers[0].role, Role::Container);
}

#[test]
fn the_host_name_of_a_pod_with_a_long_name_is_shortened() {
    let name = format!("{}.tail", "a".repeat(62));
    let pod = read(&KUBECTL_RUN.replace("  name: web\nspec", &format!("  name: {name}\nspec")));
    let pod = pod.unwrap();
    assert_eq!(*pod.pod.name, *name);
    let hostname = "a".repeat(62);
    assert_eq!(pod.network, Network::Pod { hostname });
}

#[test]
fn the_manifest_of_kubeadms_etcd_is_accepted() {
    let pod = read(ETCD).unwrap();
    assert_eq!(pod.pod.to_string(), "kube-system/etcd");
    assert!(pod.node_critical);
    assert_eq!(pod.network, Network::Host);
    assert_eq!(pod.security.seccomp, Some(Seccomp::RuntimeDefault));
    let etcd = pod.container("etcd").unwrap();
    assert_eq!(etcd.pull_policy, PullPolicy::IfNotPresent);
    assert_eq!(etcd.security.seccomp, Some(Seccomp::RuntimeDefault));
    assert_eq!(etcd.resources.cpu_request, Some(100));
    assert_eq!(etcd.resources.memory_request, Some(100 << 20));
    assert_eq!(etcd.resources.memory_limit, None);
    let startup = etcd.probes.startup.as_ref().unwrap();
    assert_eq!(startup.failure_threshold, 24);
    assert_eq!(startup.success_threshold, 1);
    assert_eq!(startup.timeout, Duration::from_secs(15));
    assert_eq!(
        startup.check,
        Check::Http {
            scheme: Scheme::Http,
            host: Some("127.0.0.1".to_owned()),
            port: 2381,
            path: "/readyz".to_owned(),
            headers: vec![],
        }
    );
    assert_eq!(
        pod.volumes["etcd-data"],
        Volume::HostPath {
            path: "/var/lib/etcd".into(),
            kind: HostPathType::DirectoryOrCreate,
        }
    );
}

#[test]
fn the_manifest_of_kubeadms_api_server_is_accepted() {
    let pod = read(API_SERVER).unwrap();
    assert!(pod.containers[0].mounts.iter().all(|it| it.read_only));
    assert_eq!(pod.labels["tier"], "control-plane");
}

#[test]
fn a_pod_with_most_supported_fields_is_parsed() {
    let pod = read(SHOP).unwrap();
    assert_eq!(pod.restart_policy, RestartPolicy::OnFailure);
    assert_eq!(pod.grace_period, Duration::from_secs(5));
    let hostname = "counter".to_owned();
    assert_eq!(pod.network, Network::Pod { hostname });
    let dns = pod.dns.as_ref().unwrap();
    assert_eq!(dns.options, ["ndots:2", "edns0"]);
    assert_eq!(pod.security.fs_group, Some(2000));
    assert_eq!(pod.security.supplemental_groups, [3000]);

    let roles: Vec<_> = pod.containers.iter().map(|it| it.role).collect();
    assert_eq!(roles, [Role::Init, Role::Sidecar, Role::Container]);
    let proxy = pod.container("proxy").unwrap();
    assert_eq!(proxy.pull_policy, PullPolicy::Always, "a port is no tag");
    let check = &proxy.probes.startup.as_ref().unwrap().check;
    assert_eq!(
        *check,
        Check::Tcp {
            host: None,
            port: 15000
        }
    );

    let main = pod.container("main").unwrap();
    assert_eq!(
        main.pull_policy,
        PullPolicy::IfNotPresent,
        "it has a digest"
    );
    assert_eq!(main.env[0].value, Value::Field(Field::Name));
    assert_eq!(main.env[1].value, Value::Field(Field::PodIp));
    let greeting = Value::Literal("hello $(POD_NAME)".to_owned());
    assert_eq!(main.env[2].value, greeting, "not expanded yet");
    assert_eq!(main.env[3].value, Value::Literal(String::new()));
    assert_eq!(main.ports[0].host_port, Some(80));
    assert_eq!(main.ports[1].protocol, Protocol::Udp);
    assert_eq!(main.resources.cpu_limit, Some(1500));
    assert_eq!(main.resources.cpu_request, Some(250));
    assert_eq!(
        main.resources.memory_request,
        Some(64 << 20),
        "the limit's where only that is given"
    );
    let security = &main.security;
    assert_eq!((security.user, security.group), (Some(1001), Some(1000)));
    assert!(security.must_not_be_root && security.no_new_privileges && security.read_only_root);
    assert_eq!(security.added_capabilities, ["NET_BIND_SERVICE"]);
    assert_eq!(security.dropped_capabilities, ["ALL"]);
    let liveness = main.probes.liveness.as_ref().unwrap();
    assert_eq!(liveness.period, Duration::from_secs(10));
    assert_eq!(liveness.timeout, Duration::from_secs(1));
    assert_eq!(liveness.initial_delay, Duration::from_secs(3));
    assert_eq!(liveness.failure_threshold, 3);
    assert_eq!(liveness.grace_period, Some(Duration::from_secs(1)));
    let readiness = main.probes.readiness.as_ref().unwrap();
    assert_eq!(readiness.success_threshold, 2);
    let Check::Http {
        port,
        path,
        headers,
        ..
    } = &readiness.check
    else {
        panic!("{readiness:?}");
    };
    assert_eq!((*port, path.as_str()), (8080, "/ready"));
    assert_eq!(headers[0], ("X-Probe".to_owned(), "1".to_owned()));
    assert_eq!(main.pre_stop.as_ref().unwrap(), &["sleep", "1"]);
    assert_eq!(main.mounts[0].sub_path.as_deref(), Some("a/b"));
    assert!(main.stdin && main.tty);
    assert_eq!(
        pod.volumes["fast"],
        Volume::EmptyDir {
            medium: Medium::Memory {
                size_limit: Some(1 << 20)
            },
        }
    );
    assert_eq!(
        pod.volumes["plain"],
        Volume::EmptyDir {
            medium: Medium::Disk
        }
    );
}

#[test]
fn json_and_yaml_have_the_same_result() {
    let indented = r#"{
	"apiVersion": "v1",
	"kind": "Pod",
	"metadata": {"name": "web", "annotations": {"a": "\u00e9\/\ud83d\ude00"}},
	"spec": {
		"containers": [
			{
				"name": "main",
				"image": "nginx:1"
			}
		]
	}
}
"#;
    let pod = read(indented).unwrap();
    assert_eq!(pod.annotations["a"], "é/😀");
    let wrong = indented.replace("\"image\"", "\"imag\"");
    let refused = read(&wrong).unwrap_err().to_string();
    let line = "web.yaml:9: spec.containers[0].imag: unknown field, did you mean image?";
    assert!(refused.contains(line), "{refused}");
}

#[test]
fn the_uid_depends_on_the_content_and_not_on_the_layout() {
    let uid = |text: &str| read(text).unwrap().pod.uid;
    let web = uid(KUBECTL_RUN);
    assert_eq!(web.as_str().len(), 32);
    assert!(web.as_str().chars().all(|it| it.is_ascii_hexdigit()));
    // The UID must not change between versions of this program.
    assert_eq!(web.as_str(), "4d8a29afc0445de3caf516218ccd916d");
    let other_layout = "\
# The fields in another order.
---
kind: 'Pod'
spec:
  restartPolicy: Always
  containers:
    - {name: web, image: \"nginx\", resources: {}}
  dnsPolicy: ClusterFirst
metadata: {name: web, labels: {run: web}}
apiVersion: v1
";
    assert_eq!(uid(other_layout), web);
    assert_ne!(uid(&KUBECTL_RUN.replace("nginx", "nginx:2")), web);
    let parse = |file, node| {
        let parsed = static_pods::manifest::parse(KUBECTL_RUN.as_bytes(), file, node);
        parsed.unwrap().pod.uid
    };
    assert_eq!(parse("web.yaml", "node-1"), web);
    assert_ne!(parse("web2.yaml", "node-1"), web);
    assert_ne!(parse("web.yaml", "node-2"), web);
}

#[test]
fn special_forms_of_yaml_are_read_as_in_kubernetes() {
    let anchors = "\
\u{feff}apiVersion: v1
kind: Pod
metadata: {name: web, labels: {1: \"2\"}}
spec:
  hostNetwork: yes
  containers:
  - &first
    name: a
    image: nginx
    args: [\"yes\"]
  - <<: *first
    name: b
---
# Nothing follows.
";
    let pod = read(anchors).unwrap();
    assert_eq!(pod.network, Network::Host);
    assert_eq!(pod.labels["1"], "2");
    assert_eq!(pod.containers[1].args, ["yes"]);
}
