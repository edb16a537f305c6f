//! The ids of traces and spans (W3C Trace Context, sections 3.2.2.3 and 3.2.2.4).

use std::fmt;

/// The id of a trace; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TraceId(u128);

/// The id of a span; never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanId(u64);

impl TraceId {
    /// An id that nobody else has.
    pub(super) fn random() -> Self {
        Self(rand::random::<u128>().max(1))
    }

    /// Parses 32 hexadecimal digits; none if they are all zero.
    pub(super) fn parse(digits: &[u8; 32]) -> Option<Self> {
        let id = digits.iter().try_fold(0_u128, |id, digit| {
            Some(id << 4 | u128::from(nibble(*digit)?))
        })?;
        (id != 0).then_some(Self(id))
    }

    /// As OTLP writes it.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.0.to_be_bytes().into()
    }
}

impl SpanId {
    /// An id that nobody else in its trace has.
    pub(super) fn random() -> Self {
        Self(rand::random::<u64>().max(1))
    }

    /// Parses 16 hexadecimal digits; none if they are all zero.
    pub(super) fn parse(digits: &[u8; 16]) -> Option<Self> {
        let id = digits.iter().try_fold(0_u64, |id, digit| {
            Some(id << 4 | u64::from(nibble(*digit)?))
        })?;
        (id != 0).then_some(Self(id))
    }

    /// As OTLP writes it.
    pub(super) fn bytes(self) -> Vec<u8> {
        self.0.to_be_bytes().into()
    }
}

/// The value of a hexadecimal digit; capital letters are not allowed.
pub(super) fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

impl fmt::Display for TraceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Display for SpanId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}
