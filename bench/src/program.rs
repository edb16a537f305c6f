//! The server program under measure: a file of its own, built from the same sources as this bench.

use std::{
    io,
    path::{Path, PathBuf},
};

use crate::{
    failure::{Failure, Outcome},
    process::Process,
};

/// The file's name, without what a platform adds to it.
const NAME: &str = "tombola";
/// How the two come to fit.
const BUILD_BOTH: &str = "\"cargo build --release --workspace\" builds both from the same sources";

/// The server program: the one that `--tombola` names, or the one beside this program's own file.
///
/// # Errors
/// If it does not exist, or is of another build: its figures would be those of other sources, and
/// it may not take the options that the bench gives it.
pub(crate) fn find(named: Option<PathBuf>) -> Outcome<PathBuf> {
    let program = match named {
        Some(program) => program,
        None => beside_this().map_err(|error| absent(Path::new(NAME), &error))?,
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

fn beside_this() -> io::Result<PathBuf> {
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
