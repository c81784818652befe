//! The messages of `proto/guard.proto`, which documents their fields. A test compares the two.

use std::collections::BTreeMap;

/// Requests the status.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusRequest {
    #[prost(uint64, tag = "1")]
    pub seen: u64,
    #[prost(bool, tag = "2")]
    pub reach: bool,
}

/// The mode of a guard.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Mode {
    Unspecified = 0,
    Guard = 1,
    Shadow = 2,
    Pass = 3,
}

/// How a guard handles lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Phase {
    Passing = 0,
    Waiting = 1,
    Guarding = 2,
    Silent = 3,
    Refusing = 4,
    LimitReached = 5,
}

/// The status of a guard: `StatusResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    #[prost(string, tag = "1")]
    pub version: String,
    #[prost(uint64, tag = "2")]
    pub started: u64,
    #[prost(uint64, tag = "3")]
    pub revision: u64,
    #[prost(enumeration = "Mode", tag = "4")]
    pub mode: i32,
    #[prost(string, tag = "5")]
    pub runtime: String,
    #[prost(string, tag = "6")]
    pub socket: String,
    #[prost(enumeration = "Phase", tag = "7")]
    pub phase: i32,
    #[prost(double, tag = "8")]
    pub phase_seconds: f64,
    #[prost(double, optional, tag = "9")]
    pub listed_seconds: Option<f64>,
    #[prost(double, optional, tag = "10")]
    pub asked_seconds: Option<f64>,
    #[prost(double, tag = "11")]
    pub running_seconds: f64,
    #[prost(message, repeated, tag = "12")]
    pub stuck: Vec<StuckCall>,
    #[prost(btree_map = "string, uint64", tag = "13")]
    pub answered: BTreeMap<String, u64>,
    #[prost(btree_map = "string, uint64", tag = "14")]
    pub given_up: BTreeMap<String, u64>,
    #[prost(btree_map = "string, uint64", tag = "15")]
    pub completed: BTreeMap<String, u64>,
    #[prost(btree_map = "string, uint64", tag = "16")]
    pub refused: BTreeMap<String, u64>,
    #[prost(uint64, tag = "17")]
    pub differences: u64,
    #[prost(uint64, tag = "18")]
    pub compared: u64,
    #[prost(message, repeated, tag = "19")]
    pub last_differences: Vec<Difference>,
    #[prost(message, optional, tag = "20")]
    pub added: Option<Added>,
    #[prost(message, optional, tag = "21")]
    pub unreachable: Option<Unreachable>,
}

/// A status call that is stuck.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StuckCall {
    #[prost(string, tag = "1")]
    pub method: String,
    #[prost(string, tag = "2")]
    pub id: String,
    #[prost(string, optional, tag = "3")]
    pub container: Option<String>,
    #[prost(message, optional, tag = "4")]
    pub pod: Option<Pod>,
    #[prost(double, tag = "5")]
    pub seconds: f64,
}

/// The UID and the names of a pod.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Pod {
    #[prost(string, tag = "1")]
    pub uid: String,
    #[prost(string, tag = "2")]
    pub namespace: String,
    #[prost(string, tag = "3")]
    pub name: String,
}

/// A row in which a list of the guard differed from those of the runtime.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Difference {
    #[prost(string, tag = "1")]
    pub method: String,
    #[prost(string, tag = "2")]
    pub id: String,
    #[prost(string, optional, tag = "3")]
    pub shown: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub before: Option<String>,
    #[prost(string, optional, tag = "5")]
    pub after: Option<String>,
}

/// A histogram of the latency that the guard added to calls that it passed on at once.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Added {
    #[prost(double, repeated, tag = "1")]
    pub bounds: Vec<f64>,
    #[prost(uint64, repeated, tag = "2")]
    pub counts: Vec<u64>,
    #[prost(double, tag = "3")]
    pub sum: f64,
}

/// Why the runtime cannot be reached.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Unreachable {
    #[prost(int32, tag = "1")]
    pub errno: i32,
    #[prost(string, tag = "2")]
    pub message: String,
}

/// Sets the mode.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetModeRequest {
    #[prost(enumeration = "Mode", tag = "1")]
    pub mode: i32,
}

/// The answer to [`SetModeRequest`]: the mode is set.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetModeResponse {}

#[cfg(test)]
mod tests {
    /// The fields in the text of messages: name and number.
    fn fields(text: &str) -> Vec<(String, String)> {
        let mut fields: Vec<_> = text.lines().filter_map(field).collect();
        fields.sort();
        fields
    }

    /// `uint64 seen = 1;`
    fn field(line: &str) -> Option<(String, String)> {
        let line = line.trim().strip_suffix(';')?;
        let (left, number) = line.split_once(" = ")?;
        let name = left.rsplit(' ').next()?;
        Some((name.to_owned(), number.to_owned()))
    }

    /// `#[prost(uint64, tag = "1")]` and, in the next line, `pub seen: u64,`.
    fn own_fields(text: &str) -> Vec<(String, String)> {
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let mut fields = Vec::new();
        for pair in lines.windows(2) {
            if let Some((_, tag)) = pair[0].split_once("tag = \"")
                && let Some(name) = pair[1].strip_prefix("pub ")
            {
                let name = name.split(':').next().unwrap();
                fields.push((name.to_owned(), tag.trim_end_matches("\")]").to_owned()));
            }
        }
        fields.sort();
        fields
    }

    #[test]
    fn the_messages_have_the_fields_of_the_proto_file() {
        let proto = include_str!("../proto/guard.proto");
        let code = include_str!("messages.rs");
        let code = code.split("#[cfg(test)]").next().unwrap();
        let of_messages: String = proto
            .split("\nmessage ")
            .skip(1)
            .map(|message| message.split("\n}").next().unwrap().to_owned() + "\n")
            .collect();
        let expected = fields(&of_messages);
        assert!(expected.len() > 30, "{expected:?}");
        assert_eq!(own_fields(code), expected);
    }

    #[test]
    fn the_proto_file_compiles() {
        let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        protox::compile(["guard.proto"], [proto]).unwrap();
    }
}
