//! A CNI plugin that a kubelet has started and that waits for its agent.

use std::thread::sleep;
use std::time::{Duration, Instant};

use causes::Cause;
use doctor::collect::host::Host;

use crate::local::{Running, about, facts, findings};

/// Connects to its agent at the socket that it is given, and waits for an answer.
const PLUGIN: &str = r#"
use Socket;
socket(my $agent, PF_UNIX, SOCK_STREAM, 0) or die;
connect($agent, pack_sockaddr_un($ARGV[0])) or die;
$0 = "terway";
sysread $agent, my $answer, 1;
"#;

/// Listens, and answers no request. With a second argument, it does not even accept connections.
const AGENT: &str = r#"
use Socket;
socket(my $asked, PF_UNIX, SOCK_STREAM, 0) or die;
bind($asked, pack_sockaddr_un($ARGV[0])) && listen($asked, 16) or die;
$0 = "terwayd";
print STDERR "ready\n";
accept(my $plugin, $asked) if @ARGV == 1;
sleep 1000;
"#;

/// A plugin is old once it has been running for ten seconds.
const OLD: Duration = Duration::from_secs(11);

fn agent(socket: &str, more: &str) -> Running {
    let script = format!("exec perl -e '{AGENT}' {socket} {more}");
    // The program itself prints when it is ready.
    Running::saying(&script)
}

#[test]
fn the_agent_that_a_plugin_waits_for_is_named_whether_it_accepted_it_or_not() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (busy, stuck) = (path("busy.socket"), path("stuck.socket"));
    let agents = [agent(&busy, ""), agent(&stuck, "stuck")];
    let asked = [&busy, &stuck];
    let kubelets = asked.map(|socket| {
        let script = format!("perl -e '{PLUGIN}' {socket}; read line");
        (Running::shell("kubelet", &script), Instant::now())
    });
    let seen = facts(&Host::local());
    assert_eq!(findings(&seen, Cause::CniPluginHang), [], "they are young");

    sleep(OLD.saturating_sub(kubelets[1].1.elapsed()));
    let seen = facts(&Host::local());
    for ((kubelet, _), (agent, socket)) in kubelets.iter().zip(agents.iter().zip(asked)) {
        let mut children = seen.host.children(kubelet.pid());
        let plugin = children.next().expect("a plugin");
        // Only the oldest plugin is reported, so each is examined alone.
        let mut seen = seen.clone();
        let doctor::facts::Fact::Known { value, .. } = &mut seen.host.processes else {
            panic!("processes");
        };
        value.retain(|one| one.comm != "terway" || one.pid == plugin.pid);
        let found = about(&seen, Cause::CniPluginHang, plugin.pid).expect("a finding");
        let advice = format!("restart terwayd ({})", agent.pid());
        assert!(found.advice[0].starts_with(&advice), "{found:#?}");
        let evidence = found.evidence.join("\n");
        assert!(evidence.contains(socket), "{found:#?}");
    }
}
