//! The messages of `proto/guard.proto`, which has their documentation. A test compares both.

use std::collections::BTreeMap;

/// Asks for the status.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StatusRequest {
    /// A revision of an earlier answer; zero is none.
    #[prost(uint64, tag = "1")]
    pub seen: u64,
    /// Whether the guard connects to the runtime, and says why it cannot.
    #[prost(bool, tag = "2")]
    pub reach: bool,
}

/// What a guard does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Mode {
    /// No mode.
    Unspecified = 0,
    /// It answers calls that the runtime does not answer.
    Guard = 1,
    /// It passes all calls, and compares its own lists with the runtime's.
    Shadow = 2,
    /// It passes all calls.
    Pass = 3,
}

/// What is done for lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, prost::Enumeration)]
#[repr(i32)]
pub enum Phase {
    /// They pass.
    Passing = 0,
    /// They are overdue, and none has been answered or given up since.
    Waiting = 1,
    /// They are answered in place of the runtime.
    Guarding = 2,
    /// They are overdue, and so is every other call.
    Silent = 3,
    /// They are overdue, and the last one could not be answered.
    Refusing = 4,
    /// They pass although they are overdue.
    LimitReached = 5,
}

/// What a guard does: `StatusResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Status {
    /// The version of the guard.
    #[prost(string, tag = "1")]
    pub version: String,
    /// When it started, in nanoseconds since 1970.
    #[prost(uint64, tag = "2")]
    pub started: u64,
    /// Grows with each change of the mode, the phase and the stuck calls.
    #[prost(uint64, tag = "3")]
    pub revision: u64,
    /// What it does.
    #[prost(enumeration = "Mode", tag = "4")]
    pub mode: i32,
    /// The path of the runtime's socket.
    #[prost(string, tag = "5")]
    pub runtime: String,
    /// The path of its own socket.
    #[prost(string, tag = "6")]
    pub socket: String,
    /// What is done for lists.
    #[prost(enumeration = "Phase", tag = "7")]
    pub phase: i32,
    /// How long ago the phase began.
    #[prost(double, tag = "8")]
    pub phase_seconds: f64,
    /// How long ago a client was last given lists of both kinds.
    #[prost(double, optional, tag = "9")]
    pub listed_seconds: Option<f64>,
    /// How long ago a client last asked for them.
    #[prost(double, optional, tag = "10")]
    pub asked_seconds: Option<f64>,
    /// How long the guard has been running.
    #[prost(double, tag = "11")]
    pub running_seconds: f64,
    /// The status calls that are stuck.
    #[prost(message, repeated, tag = "12")]
    pub stuck: Vec<StuckCall>,
    /// Calls that were answered in place of the runtime, by method.
    #[prost(btree_map = "string, uint64", tag = "13")]
    pub answered: BTreeMap<String, u64>,
    /// Calls that were ended with an error.
    #[prost(btree_map = "string, uint64", tag = "14")]
    pub given_up: BTreeMap<String, u64>,
    /// Changes that were reported as done.
    #[prost(btree_map = "string, uint64", tag = "15")]
    pub completed: BTreeMap<String, u64>,
    /// Changes that were refused.
    #[prost(btree_map = "string, uint64", tag = "16")]
    pub refused: BTreeMap<String, u64>,
    /// How many entries of its lists differed from the runtime's.
    #[prost(uint64, tag = "17")]
    pub differences: u64,
    /// How many lists were compared.
    #[prost(uint64, tag = "18")]
    pub compared: u64,
    /// The last differences.
    #[prost(message, repeated, tag = "19")]
    pub last_differences: Vec<Difference>,
    /// What it added to calls.
    #[prost(message, optional, tag = "20")]
    pub added: Option<Added>,
    /// Why the runtime cannot be reached.
    #[prost(message, optional, tag = "21")]
    pub unreachable: Option<Unreachable>,
}

/// A status call that is stuck.
#[derive(Clone, PartialEq, prost::Message)]
pub struct StuckCall {
    /// CRI's name of the method.
    #[prost(string, tag = "1")]
    pub method: String,
    /// The id of the container or sandbox.
    #[prost(string, tag = "2")]
    pub id: String,
    /// The container's name.
    #[prost(string, optional, tag = "3")]
    pub container: Option<String>,
    /// The pod.
    #[prost(message, optional, tag = "4")]
    pub pod: Option<Pod>,
    /// How long ago it was made.
    #[prost(double, tag = "5")]
    pub seconds: f64,
}

/// A pod by its names.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Pod {
    /// The UID.
    #[prost(string, tag = "1")]
    pub uid: String,
    /// The namespace.
    #[prost(string, tag = "2")]
    pub namespace: String,
    /// The name.
    #[prost(string, tag = "3")]
    pub name: String,
}

/// An entry in which a list of the guard differed from the runtime's.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Difference {
    /// CRI's name of the list.
    #[prost(string, tag = "1")]
    pub method: String,
    /// The id of the entry.
    #[prost(string, tag = "2")]
    pub id: String,
    /// The state in the guard's list.
    #[prost(string, optional, tag = "3")]
    pub shown: Option<String>,
    /// The state in the runtime's list before.
    #[prost(string, optional, tag = "4")]
    pub before: Option<String>,
    /// The state in the runtime's list after.
    #[prost(string, optional, tag = "5")]
    pub after: Option<String>,
}

/// What the guard added to the calls that it passed at once.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Added {
    /// The upper bounds of the buckets, in seconds.
    #[prost(double, repeated, tag = "1")]
    pub bounds: Vec<f64>,
    /// How many calls are in each bucket, and in none.
    #[prost(uint64, repeated, tag = "2")]
    pub counts: Vec<u64>,
    /// The sum, in seconds.
    #[prost(double, tag = "3")]
    pub sum: f64,
}

/// Why the runtime cannot be reached.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Unreachable {
    /// The system's error number, or zero.
    #[prost(int32, tag = "1")]
    pub errno: i32,
    /// The same in words.
    #[prost(string, tag = "2")]
    pub message: String,
}

/// Changes the mode.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetModeRequest {
    /// The mode from now on.
    #[prost(enumeration = "Mode", tag = "1")]
    pub mode: i32,
}

/// The mode has changed.
#[derive(Clone, PartialEq, prost::Message)]
pub struct SetModeResponse {}

#[cfg(test)]
mod tests {
    /// The fields of a message in a text: name and number.
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
    fn the_proto_file_is_one() {
        let proto = concat!(env!("CARGO_MANIFEST_DIR"), "/proto");
        let compiled = protox::compile(["guard.proto"], [proto]);
        compiled.unwrap();
    }
}
