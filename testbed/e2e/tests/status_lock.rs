//! One stuck call on real containerd: named, and nobody else waits.

use std::time::Duration;

use e2e::{Running, VERSIONS, pleg};
use testbed_driver::{Driver, PodSpec, Testbed};

#[tokio::test]
async fn the_status_lock_is_said_and_over_by_itself() {
    for version in VERSIONS {
        let testbed = Testbed::up(version, &format!("e2e-lock-{version}"))
            .await
            .unwrap();
        let driver = Driver::new(&testbed.endpoint()).unwrap();
        let locked = driver
            .run_pod(&PodSpec::new("locked").container("app"))
            .await
            .unwrap();
        driver
            .run_pod(&PodSpec::new("free").container("app"))
            .await
            .unwrap();
        let watch = Running::watch(&testbed.endpoint(), &["--mode", "generic"]);
        watch.synced();

        testbed
            .verb(&["shim-stop", &locked.sandbox_id])
            .await
            .unwrap();
        let update = driver.hold_update(locked.id("app").unwrap()).await;
        assert!(update.is_held());
        let health = watch.health("Degraded");
        let message = health["message"].as_str().unwrap();
        assert!(
            message.contains("ListContainers has not answered"),
            "{message}"
        );

        // A look of our own finds the call that hangs, and says so by its exit code.
        let endpoint = testbed.endpoint().to_string();
        let look = pleg(&["status", "--agent", "off", "-r", &endpoint]);
        assert_eq!(look.status.code(), Some(1), "{look:?}");

        testbed
            .verb(&["shim-cont", &locked.sandbox_id])
            .await
            .unwrap();
        update.answered().await.unwrap();
        watch.health("Healthy");
        let after = watch.within(Duration::from_secs(2));
        assert!(
            after.iter().all(|record| record["kind"] != "event"),
            "{after:#?}"
        );
    }
}
