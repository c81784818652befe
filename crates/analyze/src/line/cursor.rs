//! A position in a line, for hand-written parsers.

/// The bytes that have not been parsed yet.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a>(pub &'a [u8]);

impl Cursor<'_> {
    /// Skips this byte if it is next.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> Option<()> {
        match self.0 {
            [first, rest @ ..] if *first == byte => {
                self.0 = rest;
                Some(())
            }
            _ => None,
        }
    }

    /// Skips spaces, and returns their number.
    #[inline]
    pub fn spaces(&mut self) -> usize {
        let spaces = self.0.iter().take_while(|byte| **byte == b' ').count();
        self.0 = &self.0[spaces..];
        spaces
    }

    /// Parses a number of at least `least` and at most `most` digits.
    #[inline]
    pub fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        let digits = self.0.iter().take(most).take_while(|b| b.is_ascii_digit());
        let (mut count, mut value) = (0, 0u32);
        for digit in digits {
            value = value
                .checked_mul(10)?
                .checked_add(u32::from(digit - b'0'))?;
            count += 1;
        }
        if count < least {
            return None;
        }
        self.0 = &self.0[count..];
        Some(value)
    }

    /// Parses the digits after a decimal point, as nanoseconds.
    #[inline]
    pub fn nanos(&mut self) -> u32 {
        let digits = self.0.iter().take_while(|b| b.is_ascii_digit()).count();
        let mut nanos = 0;
        for at in 0..9 {
            let digit = if at < digits { self.0[at] - b'0' } else { 0 };
            nanos = nanos * 10 + u32::from(digit);
        }
        self.0 = &self.0[digits..];
        nanos
    }
}
