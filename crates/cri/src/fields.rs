//! The fields of a protobuf message: read from its bytes without a schema, and copied without loss.
//!
//! ```
//! use cri::fields::{Malformed, fields};
//! use cri::v1::ContainerMetadata;
//! use prost::Message;
//!
//! let metadata = ContainerMetadata { name: "app".to_owned(), attempt: 2 };
//! let mut attempt = 0;
//! fields(&metadata.encode_to_vec(), "ContainerMetadata", |number, field| {
//!     if number == 2 {
//!         attempt = field.number()?;
//!     }
//!     Ok(())
//! })?;
//! assert_eq!(attempt, 2);
//! # Ok::<(), Malformed>(())
//! ```

use prost::encoding::{WireType, decode_key, decode_varint, encode_key};

/// An answer that is not a protobuf message of the expected type.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("malformed {message}: {what}")]
pub struct Malformed {
    /// The message that was being read.
    pub message: &'static str,
    /// What is wrong with it.
    pub what: String,
}

/// A field's value on the wire.
#[derive(Clone, Copy)]
enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    Fixed,
}

/// A field of a message.
#[derive(Clone, Copy)]
pub struct Field<'a> {
    message: &'static str,
    number: u32,
    wire: WireType,
    value: Value<'a>,
    /// All bytes after the key, including the length prefix if there is one.
    raw: &'a [u8],
}

impl<'a> Field<'a> {
    /// The value of a number, boolean or enumeration field.
    pub fn number(self) -> Result<u64, Malformed> {
        match self.value {
            Value::Number(number) => Ok(number),
            _ => Err(self.malformed("is not a number")),
        }
    }

    /// The value of a bytes, string or message field.
    pub fn bytes(self) -> Result<&'a [u8], Malformed> {
        match self.value {
            Value::Bytes(bytes) => Ok(bytes),
            _ => Err(self.malformed("has no length")),
        }
    }

    /// The value of a string field.
    pub fn text(self) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.bytes()?).map_err(|_| self.malformed("is not UTF-8"))
    }

    /// Writes the field unchanged into another message, under another number.
    pub fn copy_as(self, number: u32, to: &mut Vec<u8>) {
        encode_key(number, self.wire, to);
        to.extend_from_slice(self.raw);
    }

    fn malformed(self, what: &str) -> Malformed {
        Malformed {
            message: self.message,
            what: format!("field {} {what}", self.number),
        }
    }
}

/// Calls `each` with the number and value of every field of `bytes`. `message` names the type in
/// errors.
pub fn fields<'a>(
    mut bytes: &'a [u8],
    message: &'static str,
    mut each: impl FnMut(u32, Field<'a>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    while !bytes.is_empty() {
        let (number, wire) = decode_key(&mut bytes).map_err(|error| malformed(message, error))?;
        let begin = bytes;
        let value = match wire {
            WireType::Varint => Value::Number(varint(&mut bytes, message)?),
            WireType::LengthDelimited => {
                let length = varint(&mut bytes, message)?;
                Value::Bytes(take(&mut bytes, length, message)?)
            }
            WireType::SixtyFourBit => take(&mut bytes, 8, message).map(|_| Value::Fixed)?,
            WireType::ThirtyTwoBit => take(&mut bytes, 4, message).map(|_| Value::Fixed)?,
            // proto3 has no groups, so no CRI message has one.
            WireType::StartGroup | WireType::EndGroup => {
                return Err(malformed(message, "it holds a group"));
            }
        };
        let field = Field {
            message,
            number,
            wire,
            value,
            raw: &begin[..begin.len() - bytes.len()],
        };
        each(number, field)?;
    }
    Ok(())
}

/// The entries of the map field with this number, as key and value.
pub fn entries<'a>(
    bytes: &'a [u8],
    message: &'static str,
    number: u32,
) -> Result<Vec<(&'a str, &'a str)>, Malformed> {
    let mut entries = Vec::new();
    fields(bytes, message, |found, field| {
        if found == number {
            entries.push(entry(field.bytes()?, message)?);
        }
        Ok(())
    })?;
    Ok(entries)
}

/// The key and the value in an entry of a map.
pub fn entry<'a>(bytes: &'a [u8], message: &'static str) -> Result<(&'a str, &'a str), Malformed> {
    let (mut key, mut value) = ("", "");
    fields(bytes, message, |number, field| {
        match number {
            1 => key = field.text()?,
            2 => value = field.text()?,
            _ => {}
        }
        Ok(())
    })?;
    Ok((key, value))
}

fn varint(bytes: &mut &[u8], message: &'static str) -> Result<u64, Malformed> {
    decode_varint(bytes).map_err(|error| malformed(message, error))
}

fn take<'a>(
    bytes: &mut &'a [u8],
    length: u64,
    message: &'static str,
) -> Result<&'a [u8], Malformed> {
    let (field, rest) = usize::try_from(length)
        .ok()
        .and_then(|length| bytes.split_at_checked(length))
        .ok_or_else(|| malformed(message, "a field ends after the message does"))?;
    *bytes = rest;
    Ok(field)
}

fn malformed(message: &'static str, what: impl ToString) -> Malformed {
    Malformed {
        message,
        what: what.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use prost::Message;

    use super::*;
    use crate::v1;

    #[test]
    fn a_message_of_copied_fields_is_the_message() {
        let status = v1::ContainerStatus {
            id: "c1".into(),
            state: 2,
            created_at: -1,
            labels: [("key".to_owned(), "value".to_owned())].into(),
            ..Default::default()
        }
        .encode_to_vec();
        let mut copy = Vec::new();
        fields(&status, "ContainerStatus", |number, field| {
            field.copy_as(number, &mut copy);
            Ok(())
        })
        .unwrap();
        assert_eq!(copy, status);
    }

    #[test]
    fn a_copied_field_has_its_value_under_the_new_number() {
        let from = v1::ContainerStatus {
            image_ref: "sha256:0".into(),
            ..Default::default()
        };
        let mut copy = Vec::new();
        fields(&from.encode_to_vec(), "ContainerStatus", |_, field| {
            field.copy_as(5, &mut copy);
            Ok(())
        })
        .unwrap();
        let row = v1::Container::decode(&copy[..]).unwrap();
        assert_eq!(row.image_ref, "sha256:0");
    }
}
