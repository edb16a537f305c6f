//! The documents: links lead somewhere, code runs, lists are complete, and the translation has the
//! same structure as its original.
//!
//! The first word of a fence's info string is its language. More words may follow. `norun`: the
//! code is not run, because it needs something that a test does not have. `background`: each line
//! is a server, which runs until the end of its document. `file=NAME`: the text is saved under this
//! name first.

mod complete;
pub mod page;
mod session;

use std::{collections::BTreeMap, thread};

use self::{
    page::{Fence, Page},
    session::Session,
};
use crate::process::{Ended, project, tombola};

/// The original and its translation.
const README: &str = "README.md";
const TRANSLATION: &str = "README.zh.md";

/// The result of a fence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    Ran,
    Parsed,
    /// Not run: output or pseudocode.
    Shown,
    NotRun,
}

#[test]
fn every_link_leads_to_a_file_and_a_heading_of_it() {
    let pages = Page::all();
    let mut dead = Vec::new();
    for page in &pages {
        for link in &page.links {
            if let Err(reason) = page.follow(link, &pages) {
                dead.push(format!("{}: {link}: {reason}", page.path));
            }
        }
    }
    assert!(dead.is_empty(), "{}", dead.join("\n"));
}

#[test]
fn every_fence_runs_or_parses_or_says_that_it_does_not() {
    let pages = Page::all();
    // Another test checks that the translation has the same code as the original.
    let run = pages.iter().filter(|page| page.path != TRANSLATION);
    let outcomes: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> = run.map(|page| scope.spawn(|| run_page(page))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().unwrap());
        ended.collect()
    });
    let mut counts = BTreeMap::<Verdict, u32>::new();
    let mut failures = Vec::new();
    for outcome in outcomes.into_iter().flatten() {
        match outcome {
            Ok(verdict) => *counts.entry(verdict).or_default() += 1,
            Err(failure) => failures.push(failure),
        }
    }
    println!("fences: {counts:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(
        counts[&Verdict::Ran] > counts[&Verdict::NotRun],
        "{counts:?}"
    );
}

/// Runs the fences of a page, one after the other.
fn run_page(page: &Page) -> Vec<Result<Verdict, String>> {
    let mut session = Session::new();
    let fences = page.fences.iter();
    let outcomes = fences.map(|fence| {
        let outcome = session.run(fence);
        outcome.map_err(|failure| format!("{}:{}: {failure}", page.path, fence.line))
    });
    outcomes.collect()
}

#[test]
fn the_translation_of_the_readme_keeps_step() {
    let (original, translation) = (Page::read(README), Page::read(TRANSLATION));
    let levels = |page: &Page| Vec::from_iter(page.headings.iter().map(|heading| heading.level));
    assert_eq!(
        levels(&original),
        levels(&translation),
        "levels of headings"
    );
    let code = |page: &Page| -> Vec<_> {
        let fences = page.fences.iter();
        fences
            .map(|fence| (fence.info.clone(), fence.code()))
            .collect()
    };
    let (original, translation) = (code(&original), code(&translation));
    assert_eq!(original.len(), translation.len(), "fences");
    for (original, translation) in original.into_iter().zip(translation) {
        assert_eq!(original, translation);
    }
}

#[test]
fn what_is_read_first_stays_short() {
    for path in [README, TRANSLATION, "ARCHITECTURE.md"] {
        let lines = std::fs::read_to_string(project(path))
            .unwrap()
            .lines()
            .count();
        assert!(
            lines <= 200,
            "{path} has {lines} lines: move what is too much to docs/"
        );
    }
}

#[test]
fn the_picture_is_made_from_a_demo() {
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("demo.svg");
    let mut make = std::process::Command::new(project(".venv/bin/python"));
    make.arg(project("docs/picture/make.py"));
    make.arg("--binary").arg(tombola([""; 0]).get_program());
    make.args(["--users", "20", "--output"]).arg(&picture);
    Ended::of(&mut make).well();
    let (made, kept) = (
        std::fs::read_to_string(picture).unwrap(),
        std::fs::read_to_string(project("docs/picture/demo.svg")).unwrap(),
    );
    for part in ["draws gave", "Where every unit is", "nothing vanished"] {
        assert!(made.contains(part), "no {part}: {made}");
        assert!(
            kept.contains(part),
            "no {part} in docs/picture/demo.svg: make it again"
        );
    }
}
