//! The system bus: a few short calls, none of which starts a service.

use std::io::ErrorKind;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use ipc::{Call, Connection, Failure};

use super::Host;
use crate::facts::Fact;
use crate::facts::host::{BusFacts, Ping, Reach, Serial};

mod services;

pub(super) use services::wanted;

const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const BUS: &str = "org.freedesktop.DBus";
/// A bus that works answers quickly.
const BUS_LIMIT: Duration = Duration::from_secs(2);
/// The maximum duration of all calls except the first ping. On the slowest possible bus, 10.5 s are needed to
/// reach systemd and to see its serial number grow: 4 s to connect; 2 s each for the owner, the version and
/// the second ping; and the time between the pings. Further calls are made only if there is time left.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(11);
/// A deadline may be exceeded slightly.
pub(super) const GRACE: Duration = Duration::from_secs(1);
/// The time between two pings, from which the rate of messages is computed.
const BETWEEN_PINGS: Duration = Duration::from_millis(500);

/// Makes the calls, including those for the state of `services`.
pub(super) fn collect(host: &Host, services: &[String]) -> BusFacts {
    let mut facts = BusFacts {
        services: Fact::missing("systemd was not reached", MANAGER),
        ..BusFacts::default()
    };
    let until = Instant::now() + TIME_LIMIT + host.step;
    let services = over_bus(host, services, &mut facts, until);
    over_private_socket(host, services, &mut facts, until);
    facts
}

/// Replaces the fact that there is no socket by a missing fact: the host may have one that is not mounted
/// in this container.
pub(super) fn leave_open_in_container(facts: &mut BusFacts) {
    if let Some(Reach::NoSocket) = facts.reach.value() {
        let why = "the socket is not mounted in this container";
        let source = facts.reach.source().to_owned();
        facts.reach = Fact::missing(why, &source);
        facts.ping = Fact::missing(why, &source);
    }
}

/// Whether there is time for this many more calls.
fn is_time_for(calls: u32, until: Instant) -> bool {
    Instant::now() + BUS_LIMIT * calls <= until
}

/// Makes the calls over the bus. Returns the services whose state is still to be requested.
fn over_bus<'a>(
    host: &Host,
    services: &'a [String],
    facts: &mut BusFacts,
    until: Instant,
) -> Option<&'a [String]> {
    let path = host.run.join("dbus/system_bus_socket");
    let source = path.display().to_string();
    let mut bus = match connect(&path) {
        Ok(bus) => bus,
        Err(failure) => {
            facts.reach = reach(failure, &source);
            return Some(services);
        }
    };
    facts.reach = Fact::known(Reach::Connected, &source);
    facts.owner = owner(&mut bus);
    if facts.owner.value().is_none_or(Option::is_none) {
        return Some(services);
    }
    let start = Instant::now();
    facts.ping = ping(&mut bus, host.step, Some(SYSTEMD));
    let Some(Ping::Answered { serial: first, .. }) = facts.ping.value() else {
        return Some(services);
    };
    let first = *first;
    facts.systemd = version(&mut bus, Some(SYSTEMD));
    sleep(BETWEEN_PINGS);
    let again = ping(&mut bus, BUS_LIMIT, Some(SYSTEMD));
    facts.serial = match again.value() {
        Some(Ping::Answered { serial, .. }) => Fact::known(
            Serial {
                first,
                later: *serial,
                seconds: start.elapsed().as_secs_f64(),
            },
            again.source(),
        ),
        _ => {
            facts.serial = Fact::missing("the second ping was not answered", again.source());
            return Some(services);
        }
    };
    if !is_time_for(1, until) {
        return Some(services);
    }
    // After both pings: calls between them would be counted as the traffic of other processes.
    let found = services::ask(&mut bus, Some(SYSTEMD), services);
    // If systemd did not answer in time, its private socket is not tried.
    let is_open = matches!(&found, Err(failure) if !matches!(failure, Failure::Silent(_)));
    facts.services = Fact::of(found, MANAGER);
    is_open.then_some(services)
}

fn over_private_socket(
    host: &Host,
    services: Option<&[String]>,
    facts: &mut BusFacts,
    until: Instant,
) {
    let path = host.run.join("systemd/private");
    let source = path.display().to_string();
    if !is_time_for(2, until) {
        facts.private = Fact::missing("the calls on the bus took all the time", source);
        return;
    }
    let mut private = match Connection::open(&path, BUS_LIMIT) {
        Ok(private) => private,
        // systemd resets connections from other PID namespaces.
        Err(failure) => {
            facts.private = no_answer(failure, source);
            return;
        }
    };
    facts.private = ping(&mut private, BUS_LIMIT, None);
    let answers = matches!(facts.private.value(), Some(Ping::Answered { .. }));
    if answers && facts.systemd.value().is_none() && is_time_for(1, until) {
        facts.systemd = version(&mut private, None);
    }
    if let Some(services) = services.filter(|_| answers && is_time_for(1, until)) {
        facts.services = Fact::of(services::ask(&mut private, None, services), MANAGER);
    }
}

fn connect(path: &Path) -> Result<Connection, Failure> {
    let mut bus = Connection::open(path, BUS_LIMIT)?;
    let hello = Call::new("/org/freedesktop/DBus", BUS, "Hello").to(BUS);
    let answer = bus.ask(hello, BUS_LIMIT)?;
    match answer.error {
        Some(error) => Err(Failure::Rejected {
            error,
            message: answer.text.unwrap_or_default(),
        }),
        None => Ok(bus),
    }
}

fn reach(failure: Failure, source: &str) -> Fact<Reach> {
    let reach = match failure {
        Failure::Socket(error) => match error.kind() {
            ErrorKind::NotFound => Reach::NoSocket,
            ErrorKind::ConnectionRefused => Reach::Refused,
            _ => return Fact::missing(error, source),
        },
        Failure::Rejected { error, message } => Reach::Rejected {
            error,
            message: pleg_text::redacted(message),
        },
        Failure::Silent(limit) => Reach::Silent {
            seconds: limit.as_secs_f64(),
        },
        Failure::InvalidData(_) => return Fact::missing(failure, source),
    };
    Fact::known(reach, source)
}

fn owner(bus: &mut Connection) -> Fact<Option<String>> {
    let source = "org.freedesktop.DBus.GetNameOwner(org.freedesktop.systemd1)";
    let call = Call::new("/org/freedesktop/DBus", BUS, "GetNameOwner")
        .to(BUS)
        .with(SYSTEMD);
    match bus.ask(call, BUS_LIMIT) {
        Ok(answer) => match answer.error.as_deref() {
            None => Fact::known(answer.text, source),
            Some("org.freedesktop.DBus.Error.NameHasNoOwner") => Fact::known(None, source),
            Some(error) => Fact::missing(error, source),
        },
        Err(failure) => Fact::missing(failure, source),
    }
}

/// Makes a call that the D-Bus library in systemd answers before systemd's own code receives it. Even an
/// error has a serial number.
fn ping(connection: &mut Connection, limit: Duration, to: Option<&str>) -> Fact<Ping> {
    let source = "org.freedesktop.DBus.Peer.Ping of org.freedesktop.systemd1";
    let source = match to {
        Some(_) => source.to_owned(),
        None => format!("{source}, private socket"),
    };
    let call = Call::new("/", "org.freedesktop.DBus.Peer", "Ping");
    let start = Instant::now();
    match connection.ask(addressed(call, to), limit) {
        Ok(answer) => Fact::known(
            Ping::Answered {
                serial: answer.serial,
                seconds: start.elapsed().as_secs_f64(),
            },
            source,
        ),
        Err(failure) => no_answer(failure, source),
    }
}

fn no_answer(failure: Failure, source: String) -> Fact<Ping> {
    match failure {
        Failure::Silent(limit) => {
            let seconds = limit.as_secs_f64();
            Fact::known(Ping::Silent { seconds }, source)
        }
        failure => Fact::missing(failure, source),
    }
}

fn version(connection: &mut Connection, to: Option<&str>) -> Fact<String> {
    let source = "org.freedesktop.systemd1.Manager.Version";
    let property = property("/org/freedesktop/systemd1", MANAGER, "Version");
    match connection.ask(addressed(property, to), BUS_LIMIT) {
        Ok(answer) => match (answer.error, answer.text) {
            (None, Some(version)) => Fact::known(super::file::printable(&version), source),
            (Some(error), _) => Fact::missing(error, source),
            (None, None) => Fact::missing("the reply contains no text", source),
        },
        Err(failure) => Fact::missing(failure, source),
    }
}

fn property<'a>(path: &'a str, interface: &'a str, name: &'a str) -> Call<'a> {
    Call::new(path, "org.freedesktop.DBus.Properties", "Get")
        .with(interface)
        .with(name)
}

/// On the bus, a call needs a destination; over systemd's private socket, it has none.
fn addressed<'a>(call: Call<'a>, to: Option<&'a str>) -> Call<'a> {
    match to {
        Some(to) => call.to(to),
        None => call,
    }
}
