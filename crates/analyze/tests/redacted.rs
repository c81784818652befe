//! Reports contain no credentials, whatever the input.

mod read;

use read::text;

const SECRET: &str = "hunter2-s3cr3t";

#[track_caller]
fn check(log: &str) {
    assert!(log.contains(SECRET));
    let analysis = text(log);
    assert!(!analysis.is_clean(), "{analysis:#?}");
    let shown = format!(
        "{}\n{}",
        serde_json::to_string(&analysis).unwrap(),
        serde_json::to_string(&analysis.episodes).unwrap()
    );
    assert!(!shown.contains(SECRET), "{shown}");
    assert!(shown.contains("[redacted]"), "{shown}");
}

#[test]
fn a_mount_in_a_kubelets_log_is_quoted_without_its_password() {
    check(&format!(
        "E1112 03:11:05.513342    1423 nestedpendingoperations.go:348] MountVolume.SetUp failed for volume \
         \"data\" : mount failed: exit status 32 Mounting arguments: -t cifs -o username=bob,password={SECRET},uid=0 //nas/share /var/lib/kubelet/pods/u/volumes/x/data \
         Output: mount error(112): Host is down\n"
    ));
}

#[test]
fn an_error_without_a_known_cause_is_quoted_without_its_token() {
    check(&format!(
        "Nov 12 03:11:07 node-7 containerd[900]: time=\"2023-11-12T03:11:07Z\" level=error msg=\"no widget at \
         https://bob:{SECRET}@registry/v2?a=b\"\n"
    ));
    check(&format!(
        "Nov 12 03:11:05 node-7 kubelet[1423]: E1112 03:11:05.513342    1423 widget.go:99] \"Failed\" \
         header=\"Authorization: Bearer {SECRET}\"\n"
    ));
}

#[test]
fn a_message_of_mount_is_evidence_without_the_user() {
    check(&format!(
        "mount: mounting //bob:{SECRET}@nas/share on /mnt failed: Connection timed out\n"
    ));
}

#[test]
fn a_relevant_line_is_in_the_timeline_without_its_credentials() {
    check(&format!(
        "I0505 13:59:56.872880    2858 kubelet.go:2055] \"Skipping pod synchronization\" err=\"PLEG is not \
         healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s\" token=\"{SECRET}\"\n"
    ));
}

/// If a quote were cut inside a credential, the rest of the credential would not be recognised.
#[test]
fn a_credential_at_the_end_of_a_quote_is_not_shown_in_part() {
    for length in 200..320 {
        let line = format!(
            "I0505 13:59:56.872880    2858 kubelet.go:2055] \"Skipping pod synchronization\" err=\"PLEG is not \
             healthy: pleg was last seen active 16m6.5s ago; threshold is 3m0s\" {:x<length$} \
             https://bob:{SECRET}@registry/v2\n",
            ""
        );
        let shown = serde_json::to_string(&text(&line).timeline).unwrap();
        assert!(shown.contains("Skipping"), "{shown}");
        for part in ["hunter2", "s3cr3t", ":hunt", "bob:h"] {
            assert!(!shown.contains(part), "{shown}");
        }
    }
}
