//! A document: its headings, fences of code and links.

use std::{
    fs,
    path::{Component, Path, PathBuf},
};

use crate::process::project;

const FENCE: &str = "```";

/// A document of the project.
pub struct Page {
    /// Its path in the project.
    pub path: String,
    pub headings: Vec<Heading>,
    pub fences: Vec<Fence>,
    /// The targets of its links.
    pub links: Vec<String>,
}

/// A heading.
pub struct Heading {
    /// 1 for the title.
    pub level: usize,
    pub text: String,
}

/// A fenced code block.
#[derive(Debug)]
pub struct Fence {
    /// Its first line, counted from 1.
    pub line: usize,
    /// The words after the backticks: the language, then words for this test.
    pub info: String,
    pub text: String,
}

impl Page {
    /// All documents of the project.
    pub fn all() -> Vec<Self> {
        let mut paths = Vec::new();
        collect(Path::new(""), false, &mut paths);
        collect(Path::new("docs"), true, &mut paths);
        paths.sort();
        let pages: Vec<_> = paths.iter().map(|path| Self::read(path)).collect();
        assert!(pages.len() > 15, "{paths:?}");
        pages
    }

    /// Reads the document at a path in the project.
    pub fn read(path: &str) -> Self {
        let text =
            fs::read_to_string(project(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
        let mut page = Self {
            path: path.into(),
            headings: Vec::new(),
            fences: Vec::new(),
            links: Vec::new(),
        };
        let mut open: Option<(usize, Fence)> = None;
        for (index, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            let indent = line.len() - trimmed.len();
            match (&mut open, trimmed.strip_prefix(FENCE)) {
                (None, Some(info)) => {
                    let fence = Fence {
                        line: index + 1,
                        info: info.trim().into(),
                        text: String::new(),
                    };
                    open = Some((indent, fence));
                }
                (Some(_), Some("")) => page.fences.extend(open.take().map(|(_, fence)| fence)),
                (Some((indent, fence)), _) => {
                    let blank = line.chars().take_while(|c| *c == ' ').count();
                    fence.text.push_str(&line[blank.min(*indent)..]);
                    fence.text.push('\n');
                }
                (None, None) => page.read_prose(line),
            }
        }
        assert!(
            open.is_none(),
            "{path}: the fence of line {} does not end",
            open.unwrap().1.line
        );
        page
    }

    fn read_prose(&mut self, line: &str) {
        let level = line.bytes().take_while(|byte| *byte == b'#').count();
        if level > 0 && line[level..].starts_with(' ') {
            let text = line[level..].trim().to_owned();
            self.headings.push(Heading { level, text });
        }
        let targets = line.split("](").skip(1);
        let targets = targets.filter_map(|rest| rest.split_once(')'));
        self.links
            .extend(targets.map(|(target, _)| target.to_owned()));
    }

    /// Checks that the target of a link exists.
    pub fn follow(&self, link: &str, pages: &[Self]) -> Result<(), String> {
        if link.starts_with("https://") {
            return Ok(());
        }
        let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = if path.is_empty() {
            self.path.clone()
        } else {
            let directory = Path::new(&self.path).parent().unwrap();
            plain(&directory.join(path))
        };
        if !project(&path).exists() {
            return Err(format!("there is no {path}"));
        }
        let Some(page) = pages.iter().find(|page| page.path == path) else {
            return Ok(());
        };
        let mut headings = page.headings.iter();
        let is_there = anchor.is_empty() || headings.any(|heading| heading.anchor() == anchor);
        is_there
            .then_some(())
            .ok_or_else(|| format!("{path} has no heading #{anchor}"))
    }
}

impl Heading {
    /// The anchor that GitHub gives the heading.
    fn anchor(&self) -> String {
        let text = self.text.to_lowercase();
        let kept = text
            .chars()
            .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    }
}

impl Fence {
    /// The language.
    pub fn language(&self) -> &str {
        self.info.split(' ').next().unwrap_or_default()
    }

    /// Whether this word follows the language.
    pub fn has(&self, word: &str) -> bool {
        self.info.split(' ').skip(1).any(|found| found == word)
    }

    /// The name under which the text is saved.
    pub fn file(&self) -> Option<&str> {
        self.info
            .split(' ')
            .find_map(|word| word.strip_prefix("file="))
    }

    /// The text without comments, and without the blanks before them.
    pub fn code(&self) -> String {
        let lines = self.text.lines().map(|line| {
            let comment = line
                .find(" # ")
                .or_else(|| line.starts_with("# ").then_some(0));
            line[..comment.unwrap_or(line.len())].trim_end()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

/// Finds the Markdown files of a directory.
fn collect(directory: &Path, deep: bool, paths: &mut Vec<String>) {
    for entry in fs::read_dir(project(directory.to_str().unwrap())).unwrap() {
        let entry = entry.unwrap();
        let path = directory.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            if deep {
                collect(&path, deep, paths);
            }
        } else if path.extension().is_some_and(|extension| extension == "md") {
            paths.push(path.to_str().unwrap().to_owned());
        }
    }
}

/// The path without `..` components.
fn plain(path: &Path) -> String {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain.to_str().unwrap().to_owned()
}
