#![no_main]
#![allow(dead_code, reason = "each target uses one body")]

#[path = "../../crates/analyze/tests/properties/bodies.rs"]
mod bodies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bodies::dumps(bytes));
