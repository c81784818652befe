//! The requests to a helper.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::answer;
use crate::collect::host::process::{self, LookAt};
use crate::facts::Missing;

/// A read that may block in the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::collect) enum Request {
    /// The free space of the file system that contains a directory.
    Filesystem { path: PathBuf },
    /// The kernel stack in this file; reading it takes a lock of the task.
    Stack { path: PathBuf },
    /// The marks of a fanotify group, from its `fdinfo`.
    Fanotify { path: PathBuf },
    /// The target of a link; reading that of `/proc/PID/exe` takes a lock of the process.
    Link { path: PathBuf },
    /// The version in a Go executable: opening a file may wait for a fanotify listener.
    ProgramVersion { path: PathBuf },
    /// The versions of packages from rpm: starting a program may block, too.
    Rpm {
        program: PathBuf,
        packages: Vec<String>,
    },
    /// The lines that these units have written to the journal since a time, in seconds since 1970.
    Journal {
        program: PathBuf,
        units: Vec<String>,
        since: i64,
    },
    /// The last lines of a log file.
    Tail { path: PathBuf },
    /// A walk through the control groups: reading some of their files takes a lock that all of them share.
    Cgroups { proc: PathBuf, sys: PathBuf },
    /// The first sample: all processes that can be read within this time.
    Census { proc: PathBuf, limit: Duration },
    /// The second sample: these processes once more.
    SecondSample {
        proc: PathBuf,
        at: Vec<LookAt>,
        limit: Duration,
    },
    /// All threads of these processes.
    Threads {
        proc: PathBuf,
        of: Vec<u32>,
        limit: Duration,
    },
    /// The table of unix sockets.
    UnixSockets,
    /// Does nothing for this long, as a blocked helper does; for tests.
    Sleep { seconds: u64 },
}

impl Request {
    /// Makes the read, and returns its result as JSON.
    pub(super) fn answer(self) -> Result<Value, Missing> {
        match self {
            Self::Filesystem { path } => json(answer::filesystem(&path)),
            Self::Stack { path } => json(answer::stack(&path)),
            Self::Fanotify { path } => json(answer::fanotify(&path)),
            Self::Link { path } => json(answer::link(&path)),
            Self::ProgramVersion { path } => json(answer::program_version(&path)),
            Self::Rpm { program, packages } => json(answer::rpm(&program, &packages)),
            Self::Journal {
                program,
                units,
                since,
            } => json(answer::journal(&program, &units, since)),
            Self::Tail { path } => json(answer::tail(&path)),
            Self::Cgroups { proc, sys } => json(Ok(answer::cgroups(&proc, &sys))),
            Self::Census { proc, limit } => json(process::first_sample(&proc, limit)),
            Self::SecondSample { proc, at, limit } => {
                json(Ok(process::second_sample(proc, at, limit)))
            }
            Self::Threads { proc, of, limit } => json(Ok(process::threads_of(proc, of, limit))),
            Self::UnixSockets => json(ipc::unix_sockets()),
            Self::Sleep { seconds } => {
                std::thread::sleep(Duration::from_secs(seconds));
                Ok(Value::Null)
            }
        }
    }
}

fn json<T: Serialize>(read: std::io::Result<T>) -> Result<Value, Missing> {
    serde_json::to_value(read?).map_err(|error| error.to_string().into())
}
