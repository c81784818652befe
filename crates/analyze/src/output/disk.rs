//! `df`, of bytes or of inodes, and `lvs`.

use causes::Cause;
use causes::finding::Confidence;

use super::Seen;
use crate::proof::Proof;

/// Whether only these have this line.
pub(super) fn begins(words: &[&str]) -> bool {
    let is_of_volumes = words.first() == Some(&"LV") && words.contains(&"Data%");
    is_of_volumes
        || words.first() == Some(&"Filesystem")
            && words
                .iter()
                .any(|word| word.ends_with("Use%") || *word == "Capacity")
}

/// File systems that are always full: mounted images and kernel interfaces.
const ALWAYS_FULL: [&str; 6] = [
    "/dev/loop",
    "squashfs",
    "overlay",
    "shm",
    "/dev/sr",
    "efivarfs",
];

/// Where a runtime and a kubelet write.
const NODE_ROOTS: [&str; 3] = ["/var", "/run", "/mnt"];

/// From here on a pool has no room.
const POOL_FULL_PERCENT: f64 = 97.0;

/// Reads a row.
pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if let Some((name, used)) = thin_pool(&words) {
        let says = format!("the thin pool {name} is {used} % full");
        seen.proof(Proof::new(Cause::DiskFull, Confidence::High, line, says));
        return;
    }
    let Some(at) = words.iter().position(|word| word.ends_with('%')) else {
        return;
    };
    let used = words[at].trim_end_matches('%').parse::<u32>();
    let (Ok(used), Some(mount), Some(device)) = (used, words.get(at + 1), words.first()) else {
        return;
    };
    // The root of a node that is itself a container has room where its disk has.
    let is_root = device.starts_with("overlay") && *mount == "/";
    let is_image = ALWAYS_FULL.iter().any(|name| device.starts_with(name)) && !is_root
        || mount.starts_with("/snap")
        // The verified image of Bottlerocket.
        || *mount == "/" && used == 100 && device.starts_with("/dev/dm-");
    let is_of_a_pod = mount.starts_with("/var/lib/kubelet/pods/");
    if is_image || is_of_a_pod || used < 95 {
        return;
    }
    let of_a_node = *mount == "/" || NODE_ROOTS.iter().any(|root| mount.starts_with(root));
    let confidence = match (used, of_a_node) {
        (99.., true) => Confidence::High,
        (_, true) => Confidence::Medium,
        _ => Confidence::Low,
    };
    let says = format!("{mount} is {used} % full");
    seen.proof(Proof::new(Cause::DiskFull, confidence, line, says));
}

/// `docker-pool docker twi-aot-M- 21.88g  100.00 61.74`: the name and fill of a thin pool whose
/// data or metadata has no room.
fn thin_pool<'a>(words: &[&'a str]) -> Option<(&'a str, f64)> {
    let [name, _, attributes, _, used @ ..] = words else {
        return None;
    };
    let is_pool = attributes.len() == 10 && attributes.starts_with('t');
    let used = used.iter().filter_map(|word| word.parse::<f64>().ok());
    let fullest = used.filter(|_| is_pool).fold(0.0, f64::max);
    (fullest >= POOL_FULL_PERCENT).then_some((*name, fullest))
}
