//! What the spans of this process are about: the service, its version and this instance.

use opentelemetry_proto::tonic::common::v1::KeyValue;
use thiserror::Error;

use super::otlp::text;

const NAME: &str = "service.name";
const INSTANCE: &str = "service.instance.id";

/// The most bytes of the variable.
const BYTES_MAX: usize = 8 * 1024;

/// The attributes of the process.
#[derive(Clone, Debug, PartialEq)]
pub struct Resource(Vec<(String, String)>);

/// `OTEL_RESOURCE_ATTRIBUTES` is not in order.
#[derive(Debug, Error, PartialEq)]
pub enum ResourceError {
    /// It is too long.
    #[error("has {0} bytes: at most {BYTES_MAX}")]
    TooLong(usize),
    /// A part of it is no attribute.
    #[error(
        "`{0}` is no attribute: write key=value pairs, separated by commas; in a value write a \
         comma as %2C and a percent sign as %25"
    )]
    NoPair(String),
}

impl Resource {
    /// The attributes of this process, and those that the variables `OTEL_SERVICE_NAME` and
    /// `OTEL_RESOURCE_ATTRIBUTES` have.
    ///
    /// # Errors
    /// A [`ResourceError`].
    pub fn new(name: Option<&str>, attributes: Option<&str>) -> Result<Self, ResourceError> {
        let mut resource = Self(Vec::new());
        resource.set(NAME, env!("CARGO_PKG_NAME"));
        resource.set("service.version", env!("CARGO_PKG_VERSION"));
        resource.set(INSTANCE, &instance());
        resource.set("telemetry.sdk.name", env!("CARGO_PKG_NAME"));
        resource.set("telemetry.sdk.language", "rust");
        resource.set("telemetry.sdk.version", env!("CARGO_PKG_VERSION"));
        let attributes = attributes.unwrap_or_default();
        if attributes.len() > BYTES_MAX {
            return Err(ResourceError::TooLong(attributes.len()));
        }
        for pair in attributes.split(',').map(str::trim) {
            if pair.is_empty() {
                continue;
            }
            let no_pair = || ResourceError::NoPair(pair.into());
            let (key, value) = pair.split_once('=').ok_or_else(no_pair)?;
            let (key, value) = (key.trim(), decoded(value.trim()).ok_or_else(no_pair)?);
            if key.is_empty() {
                return Err(no_pair());
            }
            resource.set(key, &value);
        }
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            resource.set(NAME, name);
        }
        Ok(resource)
    }

    fn set(&mut self, key: &str, value: &str) {
        self.0.retain(|(known, _)| known != key);
        self.0.push((key.into(), value.into()));
    }

    pub(super) fn attributes(&self) -> Vec<KeyValue> {
        self.0
            .iter()
            .map(|(key, value)| text(key, value.clone()))
            .collect()
    }
}

/// An id that no other process has: a UUID of random bits (RFC 9562, version 4).
fn instance() -> String {
    let bits = rand::random::<u128>();
    let bits = bits & !(0xf << 76) & !(0x3 << 62) | 0x4 << 76 | 0x2 << 62;
    let digits = format!("{bits:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| &digits[range]);
    parts.join("-")
}

/// The text without percent encoding; none if a `%` has no digits, or the bytes are no text.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, encoded)) = rest.split_once('%') {
        bytes.extend(plain.bytes());
        let digits = encoded.get(..2)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = &encoded[2..];
    }
    bytes.extend(rest.bytes());
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(resource: &Resource, key: &str) -> Option<String> {
        let found = resource.0.iter().find(|(known, _)| known == key);
        found.map(|(_, value)| value.clone())
    }

    #[test]
    fn every_process_has_an_instance_of_its_own() {
        let (one, two) = (
            Resource::new(None, None).unwrap(),
            Resource::new(None, None).unwrap(),
        );
        assert_eq!(value(&one, NAME).unwrap(), "tombola");
        let ids = [&one, &two].map(|resource| value(resource, INSTANCE).unwrap());
        assert_ne!(ids[0], ids[1]);
        for id in ids {
            let lengths: Vec<_> = id.split('-').map(str::len).collect();
            assert_eq!(lengths, [8, 4, 4, 4, 12], "{id}");
            assert_eq!(&id[14..15], "4", "{id}");
            assert!(matches!(&id[19..20], "8" | "9" | "a" | "b"), "{id}");
        }
    }

    #[test]
    fn the_standard_variables_add_attributes_and_replace_ours() {
        let text = "k8s.pod.name=tombola-0, service.name=shop-draws,note=a%2Cb=%C3%A9,,empty=";
        let resource = Resource::new(None, Some(text)).unwrap();
        for (key, wanted) in [
            ("k8s.pod.name", "tombola-0"),
            (NAME, "shop-draws"),
            ("note", "a,b=é"),
            ("empty", ""),
        ] {
            assert_eq!(value(&resource, key).as_deref(), Some(wanted), "{key}");
        }
        let named = Resource::new(Some("draws"), Some(text)).unwrap();
        assert_eq!(value(&named, NAME).unwrap(), "draws");
        assert_eq!(named.0.len(), resource.0.len());
        let unnamed = Resource::new(Some(""), None).unwrap();
        assert_eq!(value(&unnamed, NAME).unwrap(), "tombola");
    }

    #[test]
    fn what_is_no_attribute_is_refused() {
        for text in ["key", "=value", "a=1,b", "a=%", "a=%2", "a=%zz", "a=%ff"] {
            let refused = Resource::new(None, Some(text));
            assert!(matches!(refused, Err(ResourceError::NoPair(_))), "{text}");
        }
        let long = format!("a={}", "x".repeat(BYTES_MAX));
        let refused = Resource::new(None, Some(&long));
        assert!(matches!(refused, Err(ResourceError::TooLong(_))));
    }
}
