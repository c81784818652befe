//! The kubeconfig, and an unreachable server.

use std::io::{self, Write};
use std::sync::Mutex;

use super::*;

/// Everything that is logged in this process.
static LOG: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Log;

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        LOG.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The log of a writer with this configuration.
async fn logged_of(config: KubernetesConfig) -> String {
    let subscriber = tracing_subscriber::fmt().with_writer(|| Log);
    let _ = subscriber.with_max_level(tracing::Level::TRACE).try_init();
    LOG.lock().unwrap().clear();
    let (reporter, _) = reporter(config);
    reporter.report(stuck());
    sleep(Duration::from_millis(1500)).await;
    reporter.stop().await;
    String::from_utf8(LOG.lock().unwrap().clone()).unwrap()
}

#[tokio::test]
async fn the_content_of_a_kubeconfig_is_never_logged() {
    let double = Double::start().await;
    let good = std::fs::read_to_string(double.kubeconfig()).unwrap();
    for bad in [
        good.replace("\"secret\"", "\"secret\": ["),
        good.replace("\"token\"", "\"client-key-data\""),
        good.replace("{\"token\":", "{\"exec\": {\"command\": \"false\"}, \"x\":"),
        good.replace("http://", "secret "),
    ] {
        assert_ne!(bad, good);
        std::fs::write(double.kubeconfig(), bad).unwrap();
        let logged = logged_of(config(&double)).await;
        assert!(logged.contains("credentials"), "{logged}");
        assert!(!logged.contains("secret"), "{logged}");
    }
}

#[tokio::test]
async fn an_unreachable_server_does_not_delay_a_stop() {
    let double = Double::start().await;
    std::fs::write(double.kubeconfig(), "nonsense: [").unwrap();
    let (reporter, _) = reporter(config(&double));
    reporter.report(stuck());
    sleep(Duration::from_millis(300)).await;
    let began = std::time::Instant::now();
    reporter.stop().await;
    assert!(began.elapsed() < Duration::from_millis(950));
}
