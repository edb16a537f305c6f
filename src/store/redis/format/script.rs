//! A Lua script and the digest that Redis knows it by.

use redis::{Cmd, Value};
use sha1::{Digest as _, Sha1};

use super::{constants::replace_constants, words::Words};
use crate::chance::hex;

/// The most bytes of the number of keys.
const COUNT_BYTES_MAX: usize = 20;

/// What a script did, as its reply says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It wrote.
    Wrote,
    /// It wrote nothing, and repeats what was written before.
    Repeated,
    /// It may have written or repeat what was written before: its reply cannot be read.
    Unread,
    /// It wrote nothing and says nothing of what was written before.
    Nothing,
}

/// A part of scripts. Its last statement, `return a, b`, names what it gives.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Module {
    /// Its functions are made whenever the script runs.
    Always(&'static str),
    /// Its functions are made when the first that it names is called. Until then the others are
    /// nil and may not be called. No name may be copied before. This is for what few campaigns
    /// need: making a function takes Redis about 0.2 µs, whether it is called or not.
    Late(&'static str),
}

impl Module {
    /// The Lua text that defines what it gives, as local variables.
    fn defined(self) -> String {
        let (Self::Always(text) | Self::Late(text)) = self;
        let (_, names) = text.trim_end().rsplit_once("\nreturn ").unwrap_or_default();
        let made = format!("{names} = (function()\n{text}\nend)()");
        match self {
            Self::Always(_) => format!("local {made}"),
            Self::Late(_) => {
                let first = names.split(',').next().unwrap_or_default();
                format!("local {names}\n{first} = function(...)\n{made}\nreturn {first}(...)\nend")
            }
        }
    }
}

/// A command's script. Its text is sent to a server that does not know it yet; afterwards the
/// digest is enough.
#[derive(Debug)]
pub struct Script {
    name: &'static str,
    text: String,
    sha: String,
    effect: fn(&Value) -> Effect,
}

impl Script {
    /// A script of several parts.
    ///
    /// ```
    /// use tombola::store::redis::Script;
    /// let script = Script::new(&["local one = 1", "return one"]);
    /// assert_eq!(script.text(), "local one = 1\nreturn one\n");
    /// ```
    pub fn new(parts: &[&str]) -> Self {
        let mut text = String::with_capacity(parts.iter().map(|part| part.len() + 1).sum());
        for part in parts {
            text.push_str(part);
            text.push('\n');
        }
        let sha = hex(&Sha1::digest(text.as_bytes()));
        Self {
            name: "",
            text,
            sha,
            effect: |_| Effect::Wrote,
        }
    }

    /// A script of modules, followed by the command's own text. Later modules and the command use
    /// what a module returns under the names that it has there. Numbers replace constants.
    pub(crate) fn of_modules(modules: &[Module], main: &str) -> Self {
        let mut text = String::new();
        for module in modules {
            text.push_str(&module.defined());
            text.push('\n');
        }
        text.push_str(main);
        Self::new(&[&replace_constants(&text)])
    }

    /// The same script, with a name for spans.
    pub(crate) fn named(self, name: &'static str) -> Self {
        Self { name, ..self }
    }

    /// Its name; empty if it has none.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }

    /// The same script, with a function that reads its effect from a reply.
    pub(crate) fn with_effect(self, effect: fn(&Value) -> Effect) -> Self {
        Self { effect, ..self }
    }

    /// The effect of a run, by its reply.
    pub(crate) fn effect(&self, reply: &Value) -> Effect {
        (self.effect)(reply)
    }

    /// The whole Lua text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The SHA-1 of the text, in hexadecimal.
    pub fn sha(&self) -> &str {
        &self.sha
    }

    /// The call by digest, which fails with `NOSCRIPT` if the server does not know the script.
    pub(crate) fn by_digest(&self, keys: &Words, arguments: &Words) -> Cmd {
        call("EVALSHA", &self.sha, keys, arguments)
    }

    /// The call with the whole text, which the server remembers.
    pub(crate) fn by_text(&self, keys: &Words, arguments: &Words) -> Cmd {
        call("EVAL", &self.text, keys, arguments)
    }
}

fn call(verb: &str, script: &str, keys: &Words, arguments: &Words) -> Cmd {
    let data = keys.size() + arguments.size();
    let mut cmd = Cmd::with_capacity(
        3 + keys.len() + arguments.len(),
        verb.len() + script.len() + COUNT_BYTES_MAX + data,
    );
    cmd.arg(verb).arg(script).arg(keys.len());
    for word in keys.iter().chain(arguments.iter()) {
        cmd.arg(word);
    }
    cmd
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_text() {
        // The text has a line's end, which counts for the digest.
        let script = Script::new(&["return 1"]);
        assert_eq!(script.text(), "return 1\n");
        assert_eq!(script.sha().len(), 40);
        assert_eq!(
            Script::new(&[]).sha(),
            "da39a3ee5e6b4b0d3255bfef95601890afd80709"
        );
    }

    #[test]
    fn what_modules_return_has_the_same_names_outside_of_them() {
        let module = "local function one() return 1 end\nlocal two = 2\nreturn one, two\n";
        let script = Script::of_modules(&[Module::Always(module)], "return one() + two + OLDER");
        let main = format!("return one() + two + {}\n", super::super::record::OLDER);
        let expected = ["local one, two = (function()", module, "end)()", &main];
        assert_eq!(script.text(), expected.join("\n"));
    }

    #[test]
    fn a_late_module_is_made_when_its_first_function_is_called() {
        let module = "local function one() return 1 end\nlocal two = 2\nreturn one, two\n";
        let script = Script::of_modules(&[Module::Late(module)], "return one() + two");
        let expected = [
            "local one, two",
            "one = function(...)",
            "one, two = (function()",
            module,
            "end)()",
            "return one(...)",
            "end",
            "return one() + two\n",
        ];
        assert_eq!(script.text(), expected.join("\n"));
    }

    #[test]
    fn a_call_names_its_keys_before_its_arguments() {
        let script = Script::new(&["return 1"]);
        let cmd = script.by_digest(&[b"k"].into(), &[b"a".as_slice(), &[0, 255]].into());
        let packed = cmd.get_packed_command();
        let expected = [
            b"*6\r\n$7\r\nEVALSHA\r\n$40\r\n".as_slice(),
            script.sha().as_bytes(),
            b"\r\n$1\r\n1\r\n$1\r\nk\r\n$1\r\na\r\n$2\r\n\x00\xff\r\n",
        ]
        .concat();
        assert_eq!(packed, expected);
    }
}
