#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    tombola::fuzzing::check("records", data);
});
