//! What must hold for every input: the bodies of the fuzz targets in `fuzz/`.
//!
//! Each property stands in a file `fuzzing.rs` beside the code that it tests, so that private code
//! can be reached. It is a function that takes any bytes, panics if it does not hold for them, and
//! says whether the bytes were accepted. This module is compiled for fuzzing and for the tests of
//! this library only. The tests give every kept input to its property again.

use crate::{grpc, ledger, model, store};

/// Takes any bytes and checks what must hold for them; whether they were accepted as something.
pub type Property = fn(&[u8]) -> bool;

/// All targets, by name.
pub const TARGETS: [(&str, Property); 7] = [
    ("campaigns", model::fuzzing::campaign_file),
    ("definitions", model::fuzzing::definition),
    ("ids", model::fuzzing::id),
    ("cursors", grpc::fuzzing::cursor),
    ("records", store::redis::fuzzing::record),
    ("entries", ledger::fuzzing::entry),
    ("tokens", grpc::access::fuzzing::token),
];

/// Checks the property of a target; the fuzz targets call this.
///
/// # Panics
/// If there is no such target, or if the property does not hold.
pub fn check(target: &str, data: &[u8]) -> bool {
    let found = TARGETS.iter().find(|(name, _)| *name == target);
    let (_, property) = found.expect("a target of the list");
    property(data)
}

/// Takes an input apart into fields: each is its length in two bytes and then so many bytes, the
/// last one as many as there are.
pub(crate) fn fields(mut data: &[u8]) -> Vec<&[u8]> {
    let mut fields = Vec::new();
    while let Some((length, rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length)).min(rest.len());
        let (field, rest) = rest.split_at(length);
        fields.push(field);
        data = rest;
    }
    fields
}

/// Asserts that a value is written as JSON and read back as the same value, and always as the same
/// bytes.
pub(crate) fn assert_json_reads_back<T>(value: &T)
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    let json = serde_json::to_string(value).expect("a value can be written as JSON");
    let read: T = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
    assert_eq!(&read, value, "{json}");
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeSet,
        fs,
        path::{Path, PathBuf},
    };

    use super::*;

    fn folder(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fuzz")
            .join(name)
    }

    fn names(folder: &Path) -> BTreeSet<String> {
        let Ok(found) = fs::read_dir(folder) else {
            return BTreeSet::new();
        };
        let name = |path: PathBuf| path.file_stem().unwrap().to_string_lossy().into_owned();
        found.map(|entry| name(entry.unwrap().path())).collect()
    }

    /// The inputs in a folder of a target, with their names.
    fn inputs(kind: &str, target: &str) -> Vec<(String, Vec<u8>)> {
        let folder = folder(kind).join(target);
        let Ok(found) = fs::read_dir(&folder) else {
            return Vec::new();
        };
        let paths = found.map(|entry| entry.unwrap().path());
        paths
            .map(|path| (path.display().to_string(), fs::read(path).unwrap()))
            .collect()
    }

    #[test]
    fn every_target_has_its_program_and_its_seeds() {
        let targets = TARGETS.map(|(name, _)| name.to_owned()).into();
        assert_eq!(names(&folder("fuzz_targets")), targets);
        assert_eq!(names(&folder("seeds")), targets);
        assert!(names(&folder("regressions")).is_subset(&targets));
    }

    /// A program that checked another target, or nothing, would find nothing.
    #[test]
    fn every_program_checks_its_target_and_is_built() {
        let manifest = fs::read_to_string(folder("Cargo.toml")).unwrap();
        let built: BTreeSet<_> = manifest.split("[[bin]]").skip(1).map(str::trim).collect();
        let wanted = TARGETS.map(|(name, _)| {
            let program =
                fs::read_to_string(folder("fuzz_targets").join(name).with_extension("rs"));
            let call = format!("    tombola::fuzzing::check(\"{name}\", data);");
            let whole = format!(
                "#![no_main]\n\nlibfuzzer_sys::fuzz_target!(|data: &[u8]| {{\n{call}\n}});\n"
            );
            assert_eq!(program.unwrap(), whole, "{name}");
            format!(
                "name = \"{name}\"\npath = \"fuzz_targets/{name}.rs\"\n\
                 test = false\ndoc = false\nbench = false"
            )
        });
        let wanted: BTreeSet<_> = wanted.iter().map(String::as_str).collect();
        assert_eq!(built, wanted);
    }

    /// Seeds are real inputs: a property that refuses them would test nothing.
    #[test]
    fn every_seed_is_accepted() {
        let mut refused = Vec::new();
        for (target, property) in TARGETS {
            for (name, seed) in inputs("seeds", target) {
                if !property(&seed) {
                    refused.push(name);
                }
            }
        }
        assert!(refused.is_empty(), "{refused:#?}");
    }

    /// Each was found by fuzzing, and made a property fail.
    #[test]
    fn every_kept_input_holds() {
        for (target, property) in TARGETS {
            for (name, input) in inputs("regressions", target) {
                let held = std::panic::catch_unwind(|| property(&input));
                assert!(held.is_ok(), "{name}");
            }
        }
    }

    #[test]
    fn fields_are_taken_apart_and_the_last_one_may_be_cut_off() {
        assert_eq!(
            fields(b"\x00\x01a\x00\x00\x00\x09bc"),
            [&b"a"[..], b"", b"bc"]
        );
        assert_eq!(fields(b"\x00"), [&b""[..]; 0]);
    }
}
