//! Reads the parts of a script's reply.

use std::sync::Arc;

use redis::Value;

use crate::{
    model::Moment,
    store::{Result, StoreError},
};

/// A reply that is not what the script's header says.
pub(crate) fn unexpected(what: &str) -> StoreError {
    StoreError::corrupt(format!("a script's reply has no {what}"))
}

/// A list.
pub(crate) fn list(value: Value) -> Result<Vec<Value>> {
    match value {
        Value::Array(values) => Ok(values),
        _ => Err(unexpected("list")),
    }
}

/// Bytes; none for nil.
pub(crate) fn maybe_bytes(value: Value) -> Result<Option<Vec<u8>>> {
    match value {
        Value::BulkString(bytes) => Ok(Some(bytes)),
        Value::SimpleString(text) => Ok(Some(text.into_bytes())),
        Value::Int(number) => Ok(Some(number.to_string().into_bytes())),
        Value::Nil | Value::Boolean(false) => Ok(None),
        _ => Err(unexpected("bytes")),
    }
}

/// Bytes.
pub(crate) fn bytes(value: Value) -> Result<Vec<u8>> {
    maybe_bytes(value)?.ok_or_else(|| unexpected("bytes"))
}

/// Text.
pub(crate) fn text(value: Value) -> Result<String> {
    String::from_utf8(bytes(value)?).map_err(|_| unexpected("text"))
}

/// A number, as such or as digits.
pub(crate) fn number<T: std::str::FromStr>(value: Value) -> Result<T> {
    text(value)?.parse().map_err(|_| unexpected("number"))
}

/// A moment in microseconds.
pub(crate) fn moment(value: Value) -> Result<Moment> {
    number(value).map(Moment::from_micros)
}

/// The letter, if a part of a reply is a single one. It says why the script has no other reply.
pub(crate) fn letter(value: &Value) -> Option<u8> {
    match value {
        Value::BulkString(bytes) if bytes.len() == 1 => Some(bytes[0]),
        Value::SimpleString(text) if text.len() == 1 => Some(text.as_bytes()[0]),
        _ => None,
    }
}

/// The parts of a reply, one after another.
pub(crate) struct Parts {
    values: std::vec::IntoIter<Value>,
    seen: Option<Value>,
    /// Replication id of the fork under which the script ran, if the reply names it.
    pub(crate) fork: Option<Arc<str>>,
}

impl Parts {
    pub(crate) fn of(value: Value) -> Result<Self> {
        list(value).map(|values| Self {
            values: values.into_iter(),
            seen: None,
            fork: None,
        })
    }

    pub(crate) fn next(&mut self) -> Result<Value> {
        self.maybe_next().ok_or_else(|| unexpected("more parts"))
    }

    /// The next part, if there is one.
    pub(crate) fn maybe_next(&mut self) -> Option<Value> {
        self.seen.take().or_else(|| self.values.next())
    }

    /// Puts a part back, so that it is the next one again.
    pub(crate) fn put_back(&mut self, value: Value) {
        self.seen = Some(value);
    }
}
