//! The caller's span, as its headers name it: `traceparent` and `tracestate` (W3C Trace Context,
//! level 2). They come from strangers, so whatever is not exactly in order is ignored.

use hyper::HeaderMap;

use super::ids::{SpanId, TraceId, nibble};

const TRACEPARENT: &str = "traceparent";
const TRACESTATE: &str = "tracestate";

/// The length of a `traceparent` of version 00. Later versions may have more after a dash.
const BYTES: usize = 55;
/// The largest `tracestate` that is kept, and its most members. Longer ones are dropped whole.
const STATE_BYTES_MAX: usize = 512;
const STATE_MEMBERS_MAX: usize = 32;

/// The flag of a trace that is recorded.
pub(super) const SAMPLED: u8 = 1;

/// The caller's span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Parent {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    pub(super) flags: u8,
}

impl Parent {
    /// The caller's span; none if the headers name none, several, or one that is not in order.
    pub(super) fn of(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all(TRACEPARENT).iter();
        let value = values.next()?;
        if values.next().is_some() {
            return None;
        }
        Self::parse(value.as_bytes())
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (known, rest) = text.split_at_checked(BYTES)?;
        let dashes = [known[2], known[35], known[52]];
        if dashes != [b'-'; 3] {
            return None;
        }
        match byte(&known[..2])? {
            0 if !rest.is_empty() => return None,
            0xff => return None,
            _ if rest.first().is_some_and(|next| *next != b'-') => return None,
            _ => {}
        }
        Some(Self {
            trace: TraceId::parse(known[3..35].try_into().ok()?)?,
            span: SpanId::parse(known[36..52].try_into().ok()?)?,
            flags: byte(&known[53..55])?,
        })
    }

    /// Whether the caller records its trace.
    pub(super) fn is_sampled(&self) -> bool {
        self.flags & SAMPLED != 0
    }
}

/// Two hexadecimal digits.
fn byte(digits: &[u8]) -> Option<u8> {
    let [high, low] = digits else { return None };
    Some(nibble(*high)? << 4 | nibble(*low)?)
}

/// The caller's `tracestate`; empty if there is none, or one that is not in order.
pub(super) fn state(headers: &HeaderMap) -> String {
    let mut state = String::new();
    for value in headers.get_all(TRACESTATE) {
        let Ok(value) = value.to_str() else {
            return String::new();
        };
        if !state.is_empty() {
            state.push(',');
        }
        if state.len() + value.len() > STATE_BYTES_MAX {
            return String::new();
        }
        state.push_str(value);
    }
    let members = state.split(',').map(|it| it.trim_matches([' ', '\t']));
    let members = members.filter(|member| !member.is_empty());
    for (index, member) in members.enumerate() {
        if index >= STATE_MEMBERS_MAX || !is_member(member) {
            return String::new();
        }
    }
    state
}

/// Whether it is a key and a value.
fn is_member(member: &str) -> bool {
    let Some((key, value)) = member.split_once('=') else {
        return false;
    };
    let is_of_key = |c: char| {
        c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-' | '*' | '/' | '@')
    };
    let is_of_value = |c: char| (' '..='~').contains(&c) && c != '=';
    !key.is_empty()
        && key.chars().all(is_of_key)
        && !value.is_empty()
        && value.chars().all(is_of_value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn of(values: &[&str]) -> Option<Parent> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(TRACEPARENT, value.parse().unwrap());
        }
        Parent::of(&headers)
    }

    #[test]
    fn the_caller_s_span_is_read_as_the_standard_writes_it() {
        for (flags, is_sampled) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let parent = of(&[&format!("00-{TRACE}-{SPAN}-{flags}")]).unwrap();
            assert_eq!(parent.trace.to_string(), TRACE);
            assert_eq!(parent.span.to_string(), SPAN);
            assert_eq!(parent.is_sampled(), is_sampled, "{flags}");
        }
        for later in ["cc-", "01-"] {
            for more in ["", "-", "-what-the-future-has"] {
                let text = format!("{later}{TRACE}-{SPAN}-01{more}");
                assert!(of(&[&text]).is_some(), "{text}");
            }
        }
    }

    #[test]
    fn what_is_no_traceparent_is_ignored() {
        let zeros = "0".repeat(32);
        for text in [
            String::new(),
            "00".into(),
            format!("00-{TRACE}-{SPAN}"),
            format!("00-{TRACE}-{SPAN}-0"),
            format!("00-{TRACE}-{SPAN}-01-more"),
            format!("00-{TRACE}-{SPAN}-01 "),
            format!("cc-{TRACE}-{SPAN}-01more"),
            format!("ff-{TRACE}-{SPAN}-01"),
            format!("0G-{TRACE}-{SPAN}-01"),
            format!("00-{}-{SPAN}-01", TRACE.to_uppercase()),
            format!("00-{zeros}-{SPAN}-01"),
            format!("00-{TRACE}-{}-01", &zeros[..16]),
            format!("00_{TRACE}_{SPAN}_01"),
            format!("00-{TRACE}-{SPAN}-zz"),
            "-".repeat(55),
            "x".repeat(4000),
        ] {
            assert_eq!(of(&[&text]), None, "{text:?}");
        }
        let one = format!("00-{TRACE}-{SPAN}-01");
        assert_eq!(of(&[&one, &one]), None, "two of them");
        let mut headers = HeaderMap::new();
        headers.insert(TRACEPARENT, [0xff; 55].as_slice().try_into().unwrap());
        assert_eq!(Parent::of(&headers), None);
    }

    #[test]
    fn the_state_of_a_trace_is_kept_if_it_is_in_order_and_short() {
        let kept = |values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(TRACESTATE, value.parse().unwrap());
            }
            state(&headers)
        };
        assert_eq!(kept(&[]), "");
        assert_eq!(kept(&["rojo=00f067aa0ba902b7"]), "rojo=00f067aa0ba902b7");
        assert_eq!(kept(&["a=1, b@c=2", "d=3"]), "a=1, b@c=2,d=3");
        assert_eq!(kept(&["a=1,,b=2"]), "a=1,,b=2");
        for bad in ["a", "=1", "a=", "A=1", "a=1=2", "a b=1", "\t=1"] {
            assert_eq!(kept(&[bad]), "", "{bad:?}");
        }
        let of_bytes = |bytes: usize| format!("a={}", "x".repeat(bytes - 2));
        let (most, half) = (of_bytes(STATE_BYTES_MAX), of_bytes(STATE_BYTES_MAX / 2));
        assert_eq!(kept(&[&most]), most);
        assert_eq!(kept(&[&of_bytes(STATE_BYTES_MAX + 1)]), "");
        // With the comma between them.
        let less = of_bytes(STATE_BYTES_MAX / 2 - 1);
        assert_eq!(kept(&[&half, &less]).len(), STATE_BYTES_MAX);
        assert_eq!(kept(&[&half, &half]), "");
        let many = vec!["a=1"; 33].join(",");
        assert_eq!(kept(&[&many]), "");
        assert_eq!(kept(&["a=1"; 200]), "");
    }
}
