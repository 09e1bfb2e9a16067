//! Lines of source files.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use crate::Debuginfod;

/// Larger files are generated ones, or not sources at all.
pub const LARGEST: u64 = 32 << 20;

/// Reads source files once.
#[derive(Default)]
pub struct SourceText {
    map: Vec<(String, String)>,
    /// Files are read where the compiler recorded them.
    where_compiled: bool,
    /// What is not below the new beginning of a path is not read: the paths may be anybody's.
    confined: bool,
    /// When the program was built, as far as its file tells.
    built: Option<SystemTime>,
    debuginfod: Option<Arc<Debuginfod>>,
    build: RefCell<Option<String>>,
    files: RefCell<HashMap<String, Option<Arc<Vec<String>>>>>,
    newer: RefCell<BTreeSet<String>>,
}

impl SourceText {
    /// Files where the compiler recorded them, or where they are now: with a list of old and new path beginnings.
    #[must_use]
    pub fn new(map: &[(String, String)]) -> Self {
        Self {
            map: map.to_vec(),
            where_compiled: true,
            ..Self::default()
        }
    }

    /// Only files below the new path beginnings: for paths from programs that others have sent.
    #[must_use]
    pub fn mapped_only(map: &[(String, String)]) -> Self {
        Self {
            map: map.to_vec(),
            confined: true,
            ..Self::default()
        }
    }

    /// Of the program in a file: sources that were changed after it are not those that were compiled.
    #[must_use]
    pub fn of_program(mut self, file: &Path) -> Self {
        self.built = std::fs::metadata(file).and_then(|file| file.modified()).ok();
        self
    }

    /// What is not here is asked for elsewhere, once the build is [known](Self::set_build).
    #[must_use]
    pub fn or_from(mut self, debuginfod: Arc<Debuginfod>) -> Self {
        self.debuginfod = Some(debuginfod);
        self
    }

    /// Says of which build the files are: its build-id in hexadecimal digits.
    pub fn set_build(&self, build: Option<String>) {
        *self.build.borrow_mut() = build;
    }

    /// A line of a file without the space around it, if the file is there.
    #[must_use]
    pub fn line(&self, file: &str, line: u32) -> Option<String> {
        self.whole_line(file, line).map(|text| text.trim().to_owned())
    }

    /// A line of a file as it is, if the file is there and has it.
    #[must_use]
    pub fn whole_line(&self, file: &str, line: u32) -> Option<String> {
        let known = self.files.borrow().get(file).cloned();
        let lines = known.unwrap_or_else(|| {
            let lines = self.find(file);
            self.files.borrow_mut().insert(file.to_owned(), lines.clone());
            lines
        });
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        lines?.get(index).cloned()
    }

    /// The files whose text is newer than the program.
    #[must_use]
    pub fn newer(&self) -> Vec<String> {
        self.newer.borrow().iter().cloned().collect()
    }

    fn find(&self, file: &str) -> Option<Arc<Vec<String>>> {
        if let Some(lines) = self.mapped(file) {
            return Some(Arc::new(lines));
        }
        let here = Path::new(file);
        let is_newer = self.where_compiled && self.is_newer(here);
        let own = || self.where_compiled.then(|| read(here)).flatten().map(Arc::new);
        if !is_newer && let Some(lines) = own() {
            return Some(lines);
        }
        let build = self.build.borrow().clone();
        let elsewhere = self.debuginfod.as_ref().zip(build);
        if let Some(lines) = elsewhere.and_then(|(server, build)| server.source(&build, file)) {
            return Some(lines);
        }
        let lines = own()?;
        self.newer.borrow_mut().insert(file.to_owned());
        Some(lines)
    }

    fn is_newer(&self, file: &Path) -> bool {
        let changed = std::fs::metadata(file).and_then(|file| file.modified()).ok();
        matches!((changed, self.built), (Some(changed), Some(built)) if changed > built)
    }

    /// Somebody said where the file is: it is his word that it is the right one.
    fn mapped(&self, file: &str) -> Option<Vec<String>> {
        let (new, path) = self.map.iter().find_map(|(old, new)| {
            let rest = file.strip_prefix(old.as_str())?;
            Some((new, PathBuf::from(format!("{new}{rest}"))))
        })?;
        if self.confined {
            let path = path.canonicalize().ok()?;
            return match path.starts_with(Path::new(new).canonicalize().ok()?) {
                true => read(&path),
                false => None,
            };
        }
        read(&path)
    }
}

fn read(path: &Path) -> Option<Vec<String>> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    Some(lines(&std::fs::read(path).ok()?))
}

/// The lines of a file's content.
pub(crate) fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    text.lines().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::Duration;

    fn folder() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("src")).unwrap();
        fs::write(folder.path().join("src/a.c"), "one\n  two\n").unwrap();
        fs::write(folder.path().join("secret"), "secret\n").unwrap();
        folder
    }

    fn map(folder: &tempfile::TempDir) -> [(String, String); 1] {
        let new = folder.path().join("src").to_str().unwrap().to_owned();
        [("/build/app".to_owned(), new)]
    }

    #[test]
    fn a_file_is_read_where_it_is_now() {
        let folder = folder();
        let text = SourceText::new(&map(&folder));
        assert_eq!(text.line("/build/app/a.c", 2).as_deref(), Some("two"));
        assert_eq!(text.whole_line("/build/app/a.c", 2).as_deref(), Some("  two"));
        assert_eq!(text.line("/build/app/a.c", 3), None);
        assert_eq!(text.line("/build/app/a.c", 0), None);
        assert_eq!(text.line("/build/app/b.c", 1), None);
    }

    /// Whoever sends a program chooses the paths in it.
    #[test]
    fn nothing_is_read_that_was_not_named() {
        let folder = folder();
        let text = SourceText::mapped_only(&map(&folder));
        assert_eq!(text.line("/build/app/a.c", 1).as_deref(), Some("one"));
        let own = folder.path().join("src/a.c");
        assert_eq!(text.line(own.to_str().unwrap(), 1), None);
        assert_eq!(text.line("/build/app/../secret", 1), None);
        std::os::unix::fs::symlink("../secret", folder.path().join("src/link.c")).unwrap();
        assert_eq!(text.line("/build/app/link.c", 1), None);
        assert_eq!(text.line("/build/apples/../../secret", 1), None);
    }

    #[test]
    fn a_file_that_is_newer_than_the_program_is_said_to_be() {
        let folder = folder();
        let source = folder.path().join("src/a.c");
        let file = source.to_str().unwrap();
        let program = folder.path().join("program");
        fs::write(&program, "").unwrap();
        let text = SourceText::new(&[]).of_program(&program);
        assert_eq!(text.line(file, 1).as_deref(), Some("one"));
        assert!(text.newer().is_empty());
        let later = SystemTime::now() + Duration::from_secs(5);
        fs::File::options()
            .append(true)
            .open(&source)
            .unwrap()
            .set_modified(later)
            .unwrap();
        let text = SourceText::new(&[]).of_program(&program);
        assert_eq!(text.line(file, 1).as_deref(), Some("one"));
        assert_eq!(text.newer(), [file]);
    }
}
