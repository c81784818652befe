use crate::read;

/// A pod with `metadata` in line 3, `spec` in line 5, its container from line 7 on, and `more`
/// fields of the container from line 9 on.
fn with_container(more: &str) -> String {
    let more = more.replace('\n', "\n    ");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: main\n    \
         image: nginx\n    {more}\n"
    )
}

/// A pod with `more` fields of `spec` from line 9 on.
fn with_spec(more: &str) -> String {
    let more = more.replace('\n', "\n  ");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata:\n  name: web\nspec:\n  containers:\n  - name: main\n    \
         image: nginx\n  {more}\n"
    )
}

#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let refused = read(text).expect_err("it is refused").to_string();
    let expected: Vec<_> = expected.iter().map(|it| format!("web.yaml:{it}")).collect();
    assert_eq!(refused, expected.join("\n"), "{text}");
}

#[test]
fn a_file_that_is_not_a_pod_is_refused_with_its_kind() {
    for (text, expected) in [
        ("", " the file is empty: a manifest of a pod is expected"),
        (
            "# nothing\n---\n",
            " the file is empty: a manifest of a pod is expected",
        ),
        (
            "hello",
            "1: a manifest of a pod is expected, not the string \"hello\"",
        ),
        ("- 1\n- 2", "1: a manifest of a pod is expected, not a list"),
        (
            "apiVersion: v1\n",
            "1: kind: required: kind: Pod is expected",
        ),
        (
            "apiVersion: v1\nkind: PodList\nitems: []",
            "2: kind: PodList is not supported: each pod needs a file of its own",
        ),
        (
            "apiVersion: apps/v1\nkind: Deployment",
            "2: kind: Deployment is not supported: only a Pod can run without an API server",
        ),
        (
            "kind: Pod",
            "1: apiVersion: required: apiVersion: v1 is expected",
        ),
        (
            "apiVersion: v2\nkind: Pod",
            "1: apiVersion: must be v1, not the string \"v2\"",
        ),
        (
            "apiVersion: v1\nkind: 5",
            "2: kind: must be Pod, not the number 5",
        ),
    ] {
        check(text, &[expected]);
    }
    let two = format!("{}---\n{}", with_spec(""), with_spec(""));
    check(
        &two,
        &[
            "11: a second document begins here: a manifest holds one pod, and each pod needs a \
           file of its own",
        ],
    );
    check(
        "apiVersion: v1\nkind: Pod",
        &["1: metadata.name: required", "1: spec: required"],
    );
}

#[test]
fn invalid_yaml_is_refused_with_the_line() {
    let refused = read("apiVersion: v1\nkind: [Pod\n")
        .unwrap_err()
        .to_string();
    assert!(refused.starts_with("web.yaml:"), "{refused}");
    let invalid = static_pods::manifest::parse(b"a: b\nc: \xff\n", "web.yaml", "node-1");
    assert_eq!(invalid.unwrap_err().to_string(), "web.yaml:2: not UTF-8");
}

#[test]
fn all_problems_are_reported_at_once_in_the_order_of_the_file() {
    check(
        "\
apiVersion: v1
kind: Pod
metadata:
  name: Web
  lables: {}
spec:
  containers:
  - name: main
    imagePullPolcy: Always
    image: nginx
    image: nginx:2
    volumeMounts:
    - name: data
      mountPath: data
  - name: main
    image: nginx
  nodeSelector: {disk: ssd}
  hostAliases: [{ip: 192.0.2.1}]
",
        &[
            "4: metadata.name: \"Web\" is not a DNS name: at most 253 lower-case letters, \
             digits, '-' and '.', with a letter or digit at both ends of each part",
            "5: metadata.lables: unknown field, did you mean labels?",
            "9: spec.containers[0].imagePullPolcy: unknown field, did you mean imagePullPolicy?",
            "11: spec.containers[0].image: duplicate key",
            "13: spec.containers[0].volumeMounts[0].name: the pod has no volume \"data\"",
            "14: spec.containers[0].volumeMounts[0].mountPath: \"data\" is not an absolute path",
            "15: spec.containers[1].name: another container has the name \"main\"",
            "17: spec.nodeSelector[disk]: not supported: the node has no such label without an \
             API server",
            "18: spec.hostAliases: not supported",
        ],
    );
}

#[test]
fn values_of_a_wrong_type_are_reported_together() {
    check(
        &with_container(
            "command: sh\nargs: [1, true, null]\nenv: {a: b}\nstdin: \"yes\"\nports:\n\
             - containerPort: http\n- containerPort: 99999999999\nlivenessProbe: 5\n\
             resources: {limits: {cpu: [1]}}\nworkingDir: 5",
        ),
        &[
            "9: spec.containers[0].command: must be a list, not the string \"sh\"",
            "10: spec.containers[0].args[0]: must be a string in quotes, not the number 1",
            "10: spec.containers[0].args[1]: must be a string in quotes, not the boolean true",
            "10: spec.containers[0].args[2]: must be a string, not null",
            "11: spec.containers[0].env: must be a list, not a mapping",
            "12: spec.containers[0].stdin: must be true or false, not the string \"yes\"",
            "14: spec.containers[0].ports[0].containerPort: must be a whole number of at most \
             32 bits, not the string \"http\"",
            "15: spec.containers[0].ports[1].containerPort: must be a whole number of at most \
             32 bits, not the number 99999999999",
            "16: spec.containers[0].livenessProbe: must be a mapping, not the number 5",
            "17: spec.containers[0].resources.limits[cpu]: must be a quantity such as 500m or \
             64Mi, not a list",
            "18: spec.containers[0].workingDir: must be a string in quotes, not the number 5",
        ],
    );
}

#[test]
fn invalid_values_of_a_container_are_refused() {
    for (more, expected) in [
        (
            "imagePullPolicy: Sometimes",
            "9: spec.containers[0].imagePullPolicy: \"Sometimes\" is not one of Always, \
             IfNotPresent, Never",
        ),
        (
            "ports: [{containerPort: 0}]",
            "9: spec.containers[0].ports[0].containerPort: 0 is not between 1 and 65535",
        ),
        (
            "ports: [{containerPort: 80, hostPort: 65536}]",
            "9: spec.containers[0].ports[0].hostPort: 65536 is not between 1 and 65535",
        ),
        (
            "ports:\n- {containerPort: 80, hostPort: 80}\n- {containerPort: 81, hostPort: 80}",
            "11: spec.containers[0].ports[1].hostPort: another port of the pod has 80",
        ),
        (
            "ports:\n- {containerPort: 80, name: web}\n- {containerPort: 81, name: web}",
            "11: spec.containers[0].ports[1].name: another port already has \"web\"",
        ),
        (
            "ports: [{containerPort: 80, name: \"80\"}]",
            "9: spec.containers[0].ports[0].name: \"80\" is not a port's name: at most 15 \
             lower-case letters, digits and single '-', with a letter among them and no '-' at \
             an end",
        ),
        (
            "ports: [{containerPort: 80, hostIP: here}]",
            "9: spec.containers[0].ports[0].hostIP: \"here\" is not an IP address",
        ),
        (
            "workingDir: srv",
            "9: spec.containers[0].workingDir: \"srv\" is not an absolute path",
        ),
        (
            "env:\n- name: A\n  value: a\n- name: A=B",
            "12: spec.containers[0].env[1].name: \"A=B\" is not a variable's name: printable \
             ASCII characters other than '='",
        ),
        (
            "env: [{value: a}]",
            "9: spec.containers[0].env[0].name: required",
        ),
        (
            "env:\n- name: A\n  value: a\n  valueFrom:\n    fieldRef: {fieldPath: metadata.name}",
            "12: spec.containers[0].env[0].valueFrom: cannot be combined with value",
        ),
        (
            "env:\n- name: A\n  valueFrom:\n    fieldRef: {fieldPath: spec.color}",
            "12: spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: \"spec.color\" is not \
             a field that can be referred to",
        ),
        (
            "resources:\n  limits: {memory: 64MB}",
            "10: spec.containers[0].resources.limits[memory]: \"64MB\" is not a quantity: a \
             number, perhaps with one of m k M G T Ki Mi Gi Ti",
        ),
        (
            "resources:\n  limits: {cpu: 1}\n  requests: {cpu: 1001m}",
            "11: spec.containers[0].resources.requests[cpu]: 1001m exceeds the limit of 1000m",
        ),
        (
            "livenessProbe: {}",
            "9: spec.containers[0].livenessProbe: has no handler: exec, httpGet or tcpSocket is \
             expected",
        ),
        (
            "livenessProbe:\n  exec: {command: [a]}\n  tcpSocket: {port: 1}",
            "9: spec.containers[0].livenessProbe: has more than one handler",
        ),
        (
            "livenessProbe:\n  exec: {}",
            "10: spec.containers[0].livenessProbe.exec.command: required",
        ),
        (
            "livenessProbe:\n  successThreshold: 2\n  exec: {command: [a]}",
            "10: spec.containers[0].livenessProbe.successThreshold: must be 1, except in a \
             readinessProbe",
        ),
        (
            "readinessProbe:\n  periodSeconds: -1\n  exec: {command: [a]}",
            "10: spec.containers[0].readinessProbe.periodSeconds: -1 is negative",
        ),
        (
            "readinessProbe:\n  terminationGracePeriodSeconds: 1\n  exec: {command: [a]}",
            "10: spec.containers[0].readinessProbe.terminationGracePeriodSeconds: a \
             readinessProbe cannot have it",
        ),
        (
            "readinessProbe:\n  httpGet: {port: web}",
            "10: spec.containers[0].readinessProbe.httpGet.port: no port of this container has \
             the name \"web\"",
        ),
        (
            "securityContext: {runAsUser: -1}",
            "9: spec.containers[0].securityContext.runAsUser: -1 is not between 0 and 2147483647",
        ),
        (
            "securityContext:\n  privileged: true\n  allowPrivilegeEscalation: false",
            "11: spec.containers[0].securityContext.allowPrivilegeEscalation: cannot be false \
             with privileged: true",
        ),
        (
            "restartPolicy: Always",
            "9: spec.containers[0].restartPolicy: only an init container can have it",
        ),
    ] {
        check(&with_container(more), &[expected]);
    }
}

#[test]
fn invalid_values_of_a_pod_are_refused() {
    for (more, expected) in [
        (
            "restartPolicy: Sometimes",
            "9: spec.restartPolicy: \"Sometimes\" is not one of Always, OnFailure, Never",
        ),
        (
            "terminationGracePeriodSeconds: -1",
            "9: spec.terminationGracePeriodSeconds: -1 is negative",
        ),
        (
            "nodeName: node-2",
            "9: spec.nodeName: \"node-2\" is not this node's, which is \"node-1\"",
        ),
        (
            "dnsPolicy: None",
            "5: spec.dnsConfig.nameservers: required with dnsPolicy: None",
        ),
        (
            "dnsConfig: {searches: [example.com]}",
            "9: spec.dnsConfig: not supported: only with dnsPolicy: None",
        ),
        (
            "volumes:\n- name: a\n- name: a",
            "11: spec.volumes[1].name: another volume already has \"a\"",
        ),
        (
            "volumes:\n- name: a\n  emptyDir: {}\n  hostPath: {path: /a}",
            "10: spec.volumes[0]: has more than one source",
        ),
        (
            "volumes:\n- name: a\n  hostPath: {path: /a/../b}",
            "11: spec.volumes[0].hostPath.path: \"/a/../b\" contains ..",
        ),
        (
            "volumes:\n- name: a\n  emptyDir: {sizeLimit: 1Gi}",
            "11: spec.volumes[0].emptyDir.sizeLimit: not supported: only with medium: Memory",
        ),
        (
            "volumes:\n- name: a\n  hostPath: {path: a}",
            "11: spec.volumes[0].hostPath.path: \"a\" is not an absolute path",
        ),
        (
            "initContainers:\n- name: a\n  image: b\n  livenessProbe: {exec: {command: [a]}}",
            "12: spec.initContainers[0].livenessProbe: an init container without restartPolicy: \
             Always cannot have it",
        ),
        (
            "initContainers:\n- name: main\n  image: b",
            "7: spec.containers[0].name: another container has the name \"main\"",
        ),
        (
            "initContainers:\n- name: a\n  image: b\n  restartPolicy: Never",
            "12: spec.initContainers[0].restartPolicy: \"Never\" is not one of Always",
        ),
    ] {
        check(&with_spec(more), &[expected]);
    }
    let mounts = "volumeMounts:\n- {name: a, mountPath: /a, subPath: ../b}\n\
                  - {name: a, mountPath: /a}\n- {name: a, mountPath: /c, subPath: /d}";
    let with_volume = with_container(mounts) + "  volumes: [{name: a}]\n";
    check(
        &with_volume,
        &[
            "10: spec.containers[0].volumeMounts[0].subPath: \"../b\" contains ..",
            "11: spec.containers[0].volumeMounts[1].mountPath: another mount already has \"/a\"",
            "12: spec.containers[0].volumeMounts[2].subPath: \"/d\" is absolute: a path in the \
             volume is expected",
        ],
    );
}

#[test]
fn unsupported_fields_are_refused_by_name() {
    for (more, expected) in [
        (
            "envFrom: [{configMapRef: {name: a}}]",
            "9: spec.containers[0].envFrom: not supported: there is no API server",
        ),
        (
            "env:\n- name: A\n  valueFrom:\n    secretKeyRef: {name: a, key: b}",
            "12: spec.containers[0].env[0].valueFrom.secretKeyRef: not supported: there is no \
             API server",
        ),
        (
            "env:\n- name: A\n  valueFrom:\n    fieldRef: {fieldPath: \"metadata.labels['a']\"}",
            "12: spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: not supported: write \
             the value in place of the reference",
        ),
        (
            "livenessProbe:\n  grpc: {port: 1}",
            "10: spec.containers[0].livenessProbe.grpc: not supported",
        ),
        (
            "lifecycle:\n  postStart: {exec: {command: [a]}}",
            "10: spec.containers[0].lifecycle.postStart: not supported",
        ),
        (
            "lifecycle:\n  preStop:\n    sleep: {seconds: 1}",
            "11: spec.containers[0].lifecycle.preStop.sleep: not supported: only exec is",
        ),
        (
            "resources:\n  limits: {nvidia.com/gpu: 1}",
            "10: spec.containers[0].resources.limits[nvidia.com/gpu]: not supported: only cpu \
             and memory are",
        ),
        (
            "securityContext:\n  seccompProfile: {type: Localhost}",
            "10: spec.containers[0].securityContext.seccompProfile.type: not supported: only \
             RuntimeDefault and Unconfined are",
        ),
    ] {
        check(&with_container(more), &[expected]);
    }
    for (more, expected) in [
        (
            "volumes:\n- name: a\n  configMap: {}",
            "11: spec.volumes[0].configMap: not supported: only emptyDir and hostPath are",
        ),
        (
            "serviceAccountName: robot",
            "9: spec.serviceAccountName: not supported: there is no API server",
        ),
        ("hostPID: true", "9: spec.hostPID: not supported"),
        (
            "affinity:\n  nodeAffinity:\n    requiredDuringSchedulingIgnoredDuringExecution: \
             {nodeSelectorTerms: []}",
            "11: spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution: not \
             supported: the node has no labels without an API server",
        ),
    ] {
        check(&with_spec(more), &[expected]);
    }
}
