//! `df`, of bytes or of inodes, and `lvs`.

use causes::facts::facts;

use super::Seen;
use crate::table::TableRow;

pub(super) fn begins(words: &[&str]) -> bool {
    let is_of_volumes = words.first() == Some(&"LV") && words.contains(&"Data%");
    let is_of_use = |word: &&str| word.ends_with("Use%") || *word == "Capacity";
    is_of_volumes || words.first() == Some(&"Filesystem") && words.iter().any(is_of_use)
}

pub(super) fn read(text: &str, line: u64, seen: &mut Seen) {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    if let Some((name, used)) = thin_pool(&words) {
        let row = TableRow::new("thin-pools", line).text("name", name);
        seen.row(row.number("used", used));
        return;
    }
    let Some(at) = words.iter().position(|word| word.ends_with('%')) else {
        return;
    };
    let used = words[at].trim_end_matches('%').parse::<u32>();
    let (Ok(used), Some(mount), Some(device)) = (used, words.get(at + 1), words.first()) else {
        return;
    };
    // If the node is itself a container, its root is as full as the disk below it.
    let is_root = device.starts_with("overlay") && *mount == "/";
    let is_image = facts().begins("full-file-systems", device.as_bytes()) && !is_root
        || mount.starts_with("/snap")
        // The verified image of Bottlerocket.
        || *mount == "/" && used == 100 && device.starts_with("/dev/dm-");
    if !is_image {
        let row = TableRow::new("disks", line).text("mount", *mount);
        seen.row(row.number("used", f64::from(used)));
    }
}

/// `docker-pool docker twi-aot-M- 21.88g  100.00 61.74`: the name of a thin pool, and how full its data
/// or its metadata is.
fn thin_pool<'a>(words: &[&'a str]) -> Option<(&'a str, f64)> {
    let [name, _, attributes, _, used @ ..] = words else {
        return None;
    };
    let is_pool = attributes.len() == 10 && attributes.starts_with('t');
    let used = used.iter().filter_map(|word| word.parse::<f64>().ok());
    is_pool.then_some((*name, used.fold(0.0, f64::max)))
}
