//! What is known about a program's failure: its `facts.toml`, and the marks in its sources that the facts refer
//! to. `zoo/README.md` describes both.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde::Deserialize;

/// A program with its facts.
#[derive(Debug)]
pub struct Program {
    /// The folder with the sources and the facts.
    pub folder: PathBuf,
    /// The facts.
    pub facts: Facts,
    marks: BTreeMap<String, Place>,
}

/// A line of a source file; files go by their last component.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The file's name.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

/// A facts file.
#[derive(Debug, Deserialize)]
pub struct Facts {
    /// The folder's name.
    pub name: String,
    /// `c`, `c++` or `rust`.
    pub language: String,
    /// File names in the folder.
    pub sources: Vec<String>,
    /// The class of the bug, such as `order-WR`.
    pub class: String,
    /// The command line.
    #[serde(default)]
    pub args: Vec<String>,
    /// Standard input.
    #[serde(default)]
    pub stdin: String,
    /// A run that takes longer hangs.
    pub timeout_secs: u64,
    /// Functions that cannot reach the failure.
    #[serde(default)]
    pub unreachable: Vec<String>,
    /// How it fails.
    pub failure: FailureFacts,
    /// Why it fails.
    pub root: RootFacts,
    /// The ideal sketch, in order.
    pub ideal: Vec<Step>,
}

/// How a program fails.
#[derive(Debug, Deserialize)]
pub struct FailureFacts {
    /// The kind.
    pub kind: Kind,
    /// The signal's name, for a failure by signal.
    pub signal: Option<String>,
    /// The mark of the failing statement.
    pub at: String,
    /// The function around it.
    pub function: String,
    /// The thread that fails.
    pub thread: String,
    /// What standard error then contains.
    pub message: Option<String>,
    /// For a hang: the marks of every blocking call of the cycle.
    #[serde(default)]
    pub blocked: Vec<String>,
}

/// Kinds of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A fault, or another signal that ends a process.
    Signal,
    /// A failed assertion or a panic.
    Assertion,
    /// An abort for another reason.
    Abort,
    /// The program does not end.
    Hang,
}

impl Kind {
    /// Its name in facts and in sketches.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Signal => "signal",
            Self::Assertion => "assertion",
            Self::Abort => "abort",
            Self::Hang => "hang",
        }
    }
}

/// Why a program fails.
#[derive(Debug, Deserialize)]
pub struct RootFacts {
    /// Such as `RWR`.
    pub pattern: String,
    /// The variable that it is about.
    pub variable: String,
    /// The racing statements in the order of the failing interleaving.
    pub statements: Vec<Step>,
    /// The failing thread's accesses that a slice from the failing statement reaches.
    pub failing_thread_access: Vec<String>,
}

/// A statement of a thread.
#[derive(Debug, Deserialize)]
pub struct Step {
    /// Its mark.
    pub at: String,
    /// The thread, by its start routine.
    pub thread: String,
    /// `R`, `W` or `RW`.
    pub access: Option<String>,
    /// The variable that is accessed.
    pub variable: Option<String>,
}

impl Program {
    /// Loads the facts of one folder.
    ///
    /// # Errors
    /// When the facts or a source cannot be read, or the facts refer to a mark that is not there.
    pub fn load(folder: &Path) -> Result<Self, String> {
        let file = folder.join("facts.toml");
        let text = read(&file)?;
        let facts: Facts = toml::from_str(&text).map_err(|error| format!("{}: {error}", file.display()))?;
        let mut marks = BTreeMap::new();
        for source in &facts.sources {
            for (mark, line) in marks_of(&read(&folder.join(source))?) {
                let file = source.clone();
                if marks.insert(mark.clone(), Place { file, line }).is_some() {
                    return Err(format!("{}: mark {mark} occurs twice", folder.display()));
                }
            }
        }
        let program = Self {
            folder: folder.to_owned(),
            facts,
            marks,
        };
        for mark in program.marks_in_facts() {
            program.find(mark)?;
        }
        Ok(program)
    }

    /// Loads every folder of `folder` that has facts, by name.
    ///
    /// # Errors
    /// As [`Program::load`], and when there is none.
    pub fn load_all(folder: &Path) -> Result<Vec<Self>, String> {
        let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let mut folders: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.join("facts.toml").is_file())
            .collect();
        folders.sort();
        if folders.is_empty() {
            return Err(format!("no folder in {} has a facts.toml", folder.display()));
        }
        folders.iter().map(|folder| Self::load(folder)).collect()
    }

    /// The line of a mark.
    ///
    /// # Panics
    /// On a mark that the facts do not mention.
    #[must_use]
    pub fn place(&self, mark: &str) -> &Place {
        self.find(mark).unwrap_or_else(|error| panic!("{error}"))
    }

    /// The lines of several marks.
    #[must_use]
    pub fn places(&self, marks: &[String]) -> Vec<Place> {
        marks.iter().map(|mark| self.place(mark).clone()).collect()
    }

    fn find(&self, mark: &str) -> Result<&Place, String> {
        self.marks
            .get(mark)
            .ok_or_else(|| format!("{}: mark {mark} is not in the sources", self.folder.display()))
    }

    fn marks_in_facts(&self) -> impl Iterator<Item = &str> {
        let Facts {
            failure, root, ideal, ..
        } = &self.facts;
        let steps = root.statements.iter().chain(ideal).map(|step| &step.at);
        let named = failure.blocked.iter().chain(&root.failing_thread_access);
        steps.chain(named).chain([&failure.at]).map(String::as_str)
    }
}

fn read(file: &Path) -> Result<String, String> {
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

/// The marks of a source text with their lines: a comment with nothing but `@names` gives its line those names.
#[must_use]
pub fn marks_of(text: &str) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for (line, number) in text.lines().zip(1..) {
        let comments = line.match_indices("/*").map(|(at, _)| {
            let rest = &line[at + 2..];
            rest.find("*/").map(|end| &rest[..end])
        });
        let to_the_end = line.match_indices("//").map(|(at, _)| Some(&line[at + 2..]));
        for comment in comments.chain(to_the_end).flatten() {
            let names: Vec<&str> = comment.split_whitespace().collect();
            if !names.is_empty() && names.iter().all(|name| is_mark(name)) {
                found.extend(names.into_iter().map(|name| (name.to_owned(), number)));
            }
        }
    }
    found
}

fn is_mark(word: &str) -> bool {
    word.strip_prefix('@').is_some_and(|name| {
        !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || c == '-' || c == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comment_of_marks_names_its_line() {
        let text = "a(); /* @one */\nb(); // @two @three-four\n/* @one is set here */ c(); /* d */\n";
        let expected = [("@one", 1), ("@two", 2), ("@three-four", 2)];
        assert_eq!(
            marks_of(text),
            expected.map(|(mark, line)| (mark.to_owned(), line))
        );
    }

    #[test]
    fn facts_that_refer_to_nothing_are_refused() {
        let folder = crate::folder::Folder::new("facts");
        let facts = "name = 'x'\nlanguage = 'c'\nsources = ['x.c']\nclass = 'order-WR'\ntimeout_secs = 1\n\
                     ideal = []\n[failure]\nkind = 'abort'\nat = '@fail'\nfunction = 'f'\nthread = 'main'\n\
                     [root]\npattern = 'WR'\nvariable = 'v'\nstatements = []\nfailing_thread_access = []\n";
        folder.write("facts.toml", facts);
        folder.write("x.c", "void f(void) {} /* @other */\n");
        let error = Program::load(folder.path()).expect_err("@fail is missing");
        assert!(error.contains("mark @fail is not in the sources"), "{error}");
        folder.write("x.c", "\nvoid f(void) {} /* @fail */\n");
        let program = Program::load(folder.path()).expect("@fail is there");
        assert_eq!(program.place("@fail").to_string(), "x.c:2");
    }
}
