//! The system bus, and systemd on it.

use serde::{Deserialize, Serialize};

use crate::facts::Fact;

/// What the system bus answered.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BusFacts {
    /// Whether it can be reached.
    pub reach: Fact<Reach>,
    /// Who owns `org.freedesktop.systemd1`; `None` is nobody.
    pub owner: Fact<Option<String>>,
    /// What systemd answered to a ping over the bus.
    pub ping: Fact<Ping>,
    /// The serial numbers of two answers, if there were two.
    pub serial: Fact<Serial>,
    /// What systemd answered over its private socket, which has its own serial numbers.
    pub private: Fact<Ping>,
    /// The version of the systemd that runs, in its own words.
    pub systemd: Fact<String>,
    /// The services that run a kubelet or a runtime, as far as systemd knows any.
    pub services: Fact<Vec<Service>>,
}

/// A service, as systemd sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Service {
    /// Its unit: `kubelet.service`.
    pub unit: String,
    /// In systemd's words: `running`, `auto-restart`.
    pub state: String,
    /// Its main process, if it has one now.
    pub main_pid: Option<u32>,
    /// How often systemd has started it again by itself; versions before 235 do not count.
    /// A stop while it runs, or `systemctl reset-failed`, sets the count back.
    pub restarts: Option<u32>,
}

/// Whether the bus can be reached.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Reach {
    /// It took us.
    Connected,
    /// There is no socket.
    NoSocket,
    /// Nobody listens behind the socket.
    Refused,
    /// It answered that it would not take us.
    Rejected {
        /// The error's name.
        error: String,
        /// What it said.
        message: String,
    },
    /// It took longer than this.
    Silent {
        /// Seconds.
        seconds: f64,
    },
}

/// A question that is answered before systemd's own code is entered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "is")]
pub enum Ping {
    /// There was an answer, if only an error.
    Answered {
        /// The serial number of the answer: how many messages have been sent.
        serial: u32,
        /// How long it took.
        seconds: f64,
    },
    /// There was none for so long.
    Silent {
        /// Seconds.
        seconds: f64,
    },
}

/// How the serial numbers grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Serial {
    /// The first.
    pub first: u32,
    /// The later one.
    pub later: u32,
    /// The time between them.
    pub seconds: f64,
}
