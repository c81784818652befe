//! The part of D-Bus's wire format that method calls with text arguments need.

/// The flag that keeps a bus from starting the destination: that takes up to 25 seconds.
const NO_AUTO_START: u8 = 2;
const METHOD_CALL: u8 = 1;
/// Codes of the header fields.
const PATH: u8 = 1;
const INTERFACE: u8 = 2;
const MEMBER: u8 = 3;
const ERROR_NAME: u8 = 4;
const REPLY_SERIAL: u8 = 5;
const DESTINATION: u8 = 6;
const SIGNATURE: u8 = 8;
/// The length of the fixed part of a header, in bytes, and the maximum length of the rest of a message.
pub(crate) const FIXED_HEADER: usize = 16;
const MAX_REST: usize = 1 << 20;

/// A call of a method whose arguments are texts.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    path: &'a str,
    interface: &'a str,
    member: &'a str,
    destination: Option<&'a str>,
    arguments: Vec<&'a str>,
}

impl<'a> Call<'a> {
    /// A call of a method of the server at the other end of the connection.
    pub fn new(path: &'a str, interface: &'a str, member: &'a str) -> Self {
        Self {
            path,
            interface,
            member,
            destination: None,
            arguments: Vec::new(),
        }
    }

    /// Addresses the call to the service with this name on the bus.
    pub fn to(mut self, destination: &'a str) -> Self {
        self.destination = Some(destination);
        self
    }

    /// Adds an argument.
    pub fn with(mut self, argument: &'a str) -> Self {
        self.arguments.push(argument);
        self
    }

    /// The encoded call.
    pub(crate) fn bytes(&self, serial: u32) -> Vec<u8> {
        let mut body = Vec::new();
        for argument in &self.arguments {
            pad(&mut body, 4);
            text(&mut body, argument);
        }
        let mut fields = Vec::new();
        field(&mut fields, PATH, b'o', self.path);
        field(&mut fields, INTERFACE, b's', self.interface);
        field(&mut fields, MEMBER, b's', self.member);
        if let Some(destination) = self.destination {
            field(&mut fields, DESTINATION, b's', destination);
        }
        if !self.arguments.is_empty() {
            pad(&mut fields, 8);
            let signature = "s".repeat(self.arguments.len());
            fields.extend([SIGNATURE, 1, b'g', 0, signature.len() as u8]);
            fields.extend(signature.as_bytes());
            fields.push(0);
        }
        let mut message = vec![b'l', METHOD_CALL, NO_AUTO_START, 1];
        message.extend((body.len() as u32).to_le_bytes());
        message.extend(serial.to_le_bytes());
        message.extend((fields.len() as u32).to_le_bytes());
        message.extend(fields);
        pad(&mut message, 8);
        message.extend(body);
        message
    }
}

fn pad(bytes: &mut Vec<u8>, to: usize) {
    bytes.resize(bytes.len().next_multiple_of(to), 0);
}

fn text(bytes: &mut Vec<u8>, text: &str) {
    bytes.extend((text.len() as u32).to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.push(0);
}

fn field(fields: &mut Vec<u8>, code: u8, kind: u8, value: &str) {
    pad(fields, 8);
    fields.extend([code, 1, kind, 0]);
    text(fields, value);
}

/// The parts of a message that callers use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The number of the message. Each sender numbers its messages.
    pub serial: u32,
    /// The number of the call that the message answers.
    pub answers: Option<u32>,
    /// The name of the error, if the message is an error.
    pub error: Option<String>,
    /// The first value in the body, if it is a text.
    pub text: Option<String>,
    /// The first value in the body, if it is an unsigned number of 32 bits.
    pub number: Option<u32>,
}

/// The length of the message after the fixed part of its header.
pub(crate) fn length_of_rest(header: &[u8; FIXED_HEADER]) -> Option<usize> {
    let order = Order::of(header[0])?;
    let body = order.number(header, 4)? as usize;
    let fields = order.number(header, 12)? as usize;
    let rest = fields.checked_next_multiple_of(8)?.checked_add(body)?;
    (rest <= MAX_REST).then_some(rest)
}

/// Reads a whole message.
pub(crate) fn read(message: &[u8]) -> Option<Message> {
    let order = Order::of(*message.first()?)?;
    let fields_end = FIXED_HEADER.checked_add(order.number(message, 12)? as usize)?;
    let mut read = Message {
        serial: order.number(message, 8)?,
        ..Message::default()
    };
    let mut signature = String::new();
    let mut at = FIXED_HEADER;
    while at < fields_end {
        at = at.next_multiple_of(8);
        let code = *message.get(at)?;
        // Each field has one basic type, so the length of its signature is 1.
        let kind = *message.get(at + 2)?;
        at += 4;
        match kind {
            b'u' => {
                let value = order.number(message, at)?;
                at += 4;
                if code == REPLY_SERIAL {
                    read.answers = Some(value);
                }
            }
            b's' | b'o' => {
                let (value, end) = order.text(message, at)?;
                at = end;
                if code == ERROR_NAME {
                    read.error = Some(value);
                }
            }
            b'g' => {
                let (value, end) = signature_at(message, at)?;
                at = end;
                if code == SIGNATURE {
                    signature = value;
                }
            }
            _ => return None,
        }
    }
    let body = fields_end.next_multiple_of(8);
    let (kind, at) = match signature.as_bytes().first() {
        // A variant: the value follows its own type.
        Some(b'v') => match signature_at(message, body) {
            Some((kind, end)) => (kind, end.next_multiple_of(4)),
            None => return Some(read),
        },
        _ => (signature, body),
    };
    match kind.as_bytes().first() {
        Some(b's' | b'o') => read.text = order.text(message, at).map(|(text, _)| text),
        Some(b'u') => read.number = order.number(message, at),
        _ => {}
    }
    Some(read)
}

fn signature_at(message: &[u8], at: usize) -> Option<(String, usize)> {
    let length = usize::from(*message.get(at)?);
    let bytes = message.get(at + 1..at + 1 + length)?;
    Some((String::from_utf8_lossy(bytes).into_owned(), at + length + 2))
}

/// The byte order of a message.
#[derive(Clone, Copy)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn of(mark: u8) -> Option<Self> {
        match mark {
            b'l' => Some(Self::Little),
            b'B' => Some(Self::Big),
            _ => None,
        }
    }

    fn number(self, bytes: &[u8], at: usize) -> Option<u32> {
        let bytes: [u8; 4] = bytes.get(at..at.checked_add(4)?)?.try_into().ok()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        })
    }

    fn text(self, bytes: &[u8], at: usize) -> Option<(String, usize)> {
        let length = self.number(bytes, at)? as usize;
        let start = at + 4;
        let end = start.checked_add(length)?;
        let text = String::from_utf8_lossy(bytes.get(start..end)?).into_owned();
        Some((text, end + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn truncated_and_damaged_messages_cause_no_panic() {
        let call = Call::new("/a", "b.c", "D").to("e.f").with("text");
        let bytes = call.bytes(7);
        let header: [u8; FIXED_HEADER] = bytes[..FIXED_HEADER].try_into().unwrap();
        assert_eq!(length_of_rest(&header), Some(bytes.len() - FIXED_HEADER));
        let message = read(&bytes).unwrap();
        assert_eq!((message.serial, message.text.as_deref()), (7, Some("text")));
        for end in 0..bytes.len() {
            let _ = read(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            let mut wrong = bytes.clone();
            wrong[at] = 0xff;
            let _ = read(&wrong);
        }
    }
}
