//! The command line of `pleg-guard`.

use std::ffi::OsString;
use std::fmt::Display;
use std::path::Path;
use std::time::Duration;

use base::host::guard_socket;
use cri::{Endpoint, USUAL_PLACES};
use guard::core::Mode;
use pleg_text::GoDuration;

/// The text of `--help`.
pub const HELP: &str = "\
A CRI endpoint between a kubelet and its runtime: see `pleg guard --help` and
docs/guard.md.

Usage: pleg-guard [OPTIONS]

Options:
  -r, --runtime-endpoint <URL>  Socket of the container runtime: unix:///path or
                                a path [env: CONTAINER_RUNTIME_ENDPOINT]
                                [default: the first usual place that has a
                                socket]
      --listen <URL>            The socket for the kubelet [default:
                                /run/pleg/cri.sock, in front of CRI-O
                                /run/pleg/run/crio/crio.sock]
      --mode <MODE>             guard, shadow or pass [default: guard]
      --limit <DURATION>        How long the guard answers during one fault
                                [default: 30m]
  -v, --verbose...              Log more
  -h, --help                    Print help
  -V, --version                 Print version
";

/// What the command line requests.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// Run with these options.
    Run(Options),
    /// Print this text.
    Print(String),
}

/// The options of the guard.
#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    /// The socket of the runtime.
    pub runtime: Endpoint,
    /// The socket on which the guard listens.
    pub listen: Endpoint,
    /// The mode of the guard.
    pub mode: Mode,
    /// How long the guard answers during one fault.
    pub limit: Duration,
    /// How often `-v` is given.
    pub verbose: u8,
}

/// Why a command line is invalid.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ArgsError {
    /// There is no such argument.
    #[error("unexpected argument {0:?}: see pleg-guard --help")]
    Unexpected(String),
    /// An option has no value.
    #[error("{0} needs a value: see pleg-guard --help")]
    NoValue(&'static str),
    /// The value of an option is invalid.
    #[error("{option} {value:?}: {why}")]
    Invalid {
        /// The option.
        option: &'static str,
        /// Its value.
        value: String,
        /// Why it is invalid.
        why: String,
    },
    /// No runtime is given, and no usual place has a socket.
    #[error("no container runtime found; set its socket with --runtime-endpoint. Tried: {0}")]
    NoRuntime(String),
}

/// Parses the arguments after the program's name. `from_env` is the endpoint in the environment;
/// `exists` returns whether a path exists.
pub fn read(
    words: impl IntoIterator<Item = OsString>,
    from_env: Option<String>,
    exists: impl Fn(&Path) -> bool,
) -> Result<Command, ArgsError> {
    let mut words = words.into_iter();
    let (mut runtime, mut listen) = (from_env.filter(|text| !text.is_empty()), None);
    let (mut mode, mut limit, mut verbose) = (Mode::Guard, Duration::from_secs(30 * 60), 0);
    while let Some(word) = words.next() {
        let word = word.to_string_lossy().into_owned();
        let (name, inline) = match word.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, Some(value.to_owned())),
            _ => (word.as_str(), None),
        };
        let mut value = |option: &'static str| {
            let next = || Some(words.next()?.to_string_lossy().into_owned());
            let value = inline.clone().or_else(next);
            value.ok_or(ArgsError::NoValue(option))
        };
        match name {
            "-r" | "--runtime-endpoint" => runtime = Some(value("--runtime-endpoint")?),
            "--listen" => listen = Some(value("--listen")?),
            "--mode" => mode = mode_of(&value("--mode")?)?,
            "--limit" => limit = limit_of(&value("--limit")?)?,
            "-v" | "--verbose" => verbose += 1,
            "-vv" => verbose += 2,
            "-h" | "--help" => return Ok(Command::Print(HELP.to_owned())),
            "-V" | "--version" => {
                let version = env!("CARGO_PKG_VERSION");
                return Ok(Command::Print(format!("pleg-guard {version}\n")));
            }
            _ => return Err(ArgsError::Unexpected(word)),
        }
    }
    let runtime = match runtime {
        Some(text) => endpoint("--runtime-endpoint", &text)?,
        None => {
            let present = USUAL_PLACES.iter().find(|place| exists(Path::new(place)));
            let tried = || ArgsError::NoRuntime(USUAL_PLACES.join(", "));
            Endpoint::new(*present.ok_or_else(tried)?)
        }
    };
    let listen = match listen {
        Some(text) => endpoint("--listen", &text)?,
        None => Endpoint::new(guard_socket(runtime.path())),
    };
    Ok(Command::Run(Options {
        runtime,
        listen,
        mode,
        limit,
        verbose,
    }))
}

fn endpoint(option: &'static str, text: &str) -> Result<Endpoint, ArgsError> {
    text.parse().map_err(|why| invalid(option, text, why))
}

fn mode_of(text: &str) -> Result<Mode, ArgsError> {
    match text {
        "guard" => Ok(Mode::Guard),
        "shadow" => Ok(Mode::Shadow),
        "pass" => Ok(Mode::Pass),
        _ => Err(invalid("--mode", text, "use guard, shadow or pass")),
    }
}

fn limit_of(text: &str) -> Result<Duration, ArgsError> {
    match text.parse::<GoDuration>() {
        Ok(GoDuration(Duration::ZERO)) => {
            Err(invalid("--limit", text, "it must be greater than zero"))
        }
        Ok(limit) => Ok(limit.0),
        Err(why) => Err(invalid("--limit", text, why)),
    }
}

fn invalid(option: &'static str, value: &str, why: impl Display) -> ArgsError {
    ArgsError::Invalid {
        option,
        value: value.to_owned(),
        why: why.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(
        words: &[&str],
        from_env: Option<&str>,
        present: &str,
    ) -> Result<Options, ArgsError> {
        let words = words.iter().map(OsString::from);
        let is_present = |path: &Path| path == Path::new(present);
        match read(words, from_env.map(str::to_owned), is_present)? {
            Command::Run(options) => Ok(options),
            Command::Print(text) => panic!("{text}"),
        }
    }

    #[test]
    fn a_flag_takes_precedence_over_the_environment_and_that_over_the_usual_places() {
        let crio = "/run/crio/crio.sock";
        let runtime = |words: &[&str], from_env| {
            let options = options(words, from_env, crio).unwrap();
            options.runtime.path().display().to_string()
        };
        assert_eq!(
            runtime(&["-r", "unix:///a.sock"], Some("/b.sock")),
            "/a.sock"
        );
        assert_eq!(runtime(&[], Some("/b.sock")), "/b.sock");
        assert_eq!(runtime(&[], Some("")), crio);
        let none = options(&[], None, "");
        assert!(matches!(none, Err(ArgsError::NoRuntime(_))), "{none:?}");
    }

    #[test]
    fn the_defaults_are_mode_guard_and_a_limit_of_half_an_hour() {
        let guard = options(&["-r", "/a.sock"], None, "").unwrap();
        assert_eq!((guard.mode, guard.limit.as_secs()), (Mode::Guard, 1800));
        assert_eq!(guard.listen.path(), guard_socket(Path::new("/a.sock")));
        let words = ["-r", "/a.sock", "--mode=shadow", "--limit", "1m30s", "-vv"];
        let shadow = options(&words, None, "").unwrap();
        assert_eq!((shadow.mode, shadow.limit.as_secs()), (Mode::Shadow, 90));
        assert_eq!(shadow.verbose, 2);
    }

    #[test]
    fn the_help_fits_a_terminal_of_80_columns() {
        let longest = HELP.lines().map(str::len).max();
        assert!(longest <= Some(80), "{longest:?}");
    }

    #[test]
    fn an_error_names_the_invalid_argument() {
        for words in [
            &["--mode", "sideways"][..],
            &["--limit", "soon"],
            &["--limit", "0s"],
            &["--listen"],
            &["-r", "tcp://1.2.3.4"],
            &["--config", "x"],
            &["install"],
        ] {
            let error = options(words, Some("/a.sock"), "").unwrap_err().to_string();
            assert!(error.contains(words[0].trim_start_matches("-r")), "{error}");
        }
    }
}
