//! The generated code is committed, so that a build needs neither protoc nor protox. This test
//! generates it again, and fails if the committed code is stale.

use std::path::Path;

#[test]
fn the_committed_code_matches_the_proto_file() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let proto = root.join("proto/cri.proto");
    let out = tempfile::tempdir().unwrap();

    let descriptors = protox::compile([&proto], [root.join("proto")]).unwrap();
    tonic_prost_build::configure()
        .build_client(false)
        .server_mod_attribute(".", "#[cfg(feature = \"server\")]")
        .out_dir(out.path())
        .compile_fds(descriptors)
        .unwrap();

    let fresh = std::fs::read_to_string(out.path().join("runtime.v1.rs")).unwrap();
    let committed = root.join("src/gen/runtime.v1.rs");
    if std::fs::read_to_string(&committed).unwrap_or_default() != fresh {
        std::fs::write(&committed, fresh).unwrap();
        panic!(
            "{} was stale and has been generated again: commit it",
            committed.display()
        );
    }
}
