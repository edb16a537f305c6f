//! The server program under test: a separate file, built from the same sources as the bench.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    failure::{Failure, Outcome},
    process::Process,
};

/// The file's name, without a platform's suffix.
const NAME: &str = "tombola";
/// What to do if their builds differ.
const BUILD_BOTH: &str = "\"cargo build --release --workspace\" builds both from the same sources";

/// Finds the server program: the one that `--tombola` names, or the one in the same directory as
/// this program.
///
/// # Errors
/// If it does not exist, or its build id differs from the bench's. Its figures would belong to
/// other sources, and it may not know the options that the bench passes.
pub(crate) fn find(named: Option<PathBuf>) -> Outcome<PathBuf> {
    let program = match named {
        Some(program) => program,
        None => in_same_directory().map_err(|error| absent(Path::new(NAME), &error))?,
    };
    let output = Process::command(&program)
        .arg("--version")
        .stdin(std::process::Stdio::null())
        .output()
        .map_err(|error| absent(&program, &error))?;
    let version = String::from_utf8_lossy(&output.stdout);
    match build_of(&version) {
        Some(tombola::BUILD_ID) => Ok(program),
        build => Err(Failure::usage(format!(
            "the server program {} is of {}, this bench of build {}: {BUILD_BOTH}",
            program.display(),
            build.map_or("an unknown build".into(), |build| format!("build {build}")),
            tombola::BUILD_ID,
        ))),
    }
}

fn in_same_directory() -> io::Result<PathBuf> {
    let this = std::env::current_exe()?;
    Ok(this.with_file_name(format!("{NAME}{}", std::env::consts::EXE_SUFFIX)))
}

fn absent(program: &Path, error: &io::Error) -> Box<Failure> {
    Failure::usage(format!(
        "the server program {} cannot be started ({error}): {BUILD_BOTH}; or name another one \
         with --tombola",
        program.display()
    ))
}

/// The build id in the text that `--version` prints.
fn build_of(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("build "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_build_stands_on_a_line_of_its_own() {
        assert_eq!(build_of("tombola 0.1.0\nbuild 12ab\n"), Some("12ab"));
        assert_eq!(build_of("tombola 0.1.0\n"), None);
    }
}
