//! Lines of source files.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use diagnosis::sketch::SourceFile;
use md5::{Digest as _, Md5};

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
    known: RefCell<HashMap<String, SourceFile>>,
    files: RefCell<HashMap<String, Option<Arc<Content>>>>,
    newer: RefCell<BTreeSet<String>>,
    others: RefCell<BTreeSet<String>>,
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

    /// Says what tells the right files from others.
    pub fn know(&self, files: &[SourceFile]) {
        let mut known = self.known.borrow_mut();
        for file in files {
            known.entry(file.file.clone()).or_insert_with(|| file.clone());
        }
    }

    /// Whether [that](Self::know) was said of a file.
    #[must_use]
    pub fn knows(&self, file: &str) -> bool {
        self.known.borrow().contains_key(file)
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
        let content = known.unwrap_or_else(|| {
            let found = self.find(file);
            self.files.borrow_mut().insert(file.to_owned(), found.clone());
            found
        });
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        content?.lines.get(index).cloned()
    }

    /// What a reader of the text has to know: files that are newer than the program, and others that were not shown.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let name = |file: &str| file.rsplit('/').next().unwrap_or(file).to_owned();
        let newer = self.newer.borrow();
        let newer = newer.iter().map(|file| {
            let name = name(file);
            format!("{name} was changed after the program was built: its lines may not be those that ran (--source-map says where the right ones are)")
        });
        let others = self.others.borrow();
        let others = others.iter().map(|file| {
            let name = name(file);
            format!("{name} is not the file that was compiled (its MD5 is another), so its text is not shown: --source-map says where the right one is")
        });
        newer.chain(others).collect()
    }

    fn find(&self, file: &str) -> Option<Arc<Content>> {
        let known = self.known.borrow().get(file).cloned().unwrap_or_default();
        let mut is_another = false;
        // Where it can be told which file is the right one, no other is shown.
        let mut right = |content: &Arc<Content>| {
            let is_right = known.md5.as_ref().is_none_or(|md5| *md5 == content.md5);
            is_another |= !is_right;
            is_right
        };
        if let Some(found) = self.mapped(file).filter(&mut right) {
            return Some(found);
        }
        let here = Path::new(file);
        let own = self.where_compiled.then(|| read(here)).flatten();
        // What has the right content may be as young as it likes.
        let is_newer = known.md5.is_none() && self.is_newer(here);
        if !is_newer && let Some(found) = own.clone().filter(&mut right) {
            return Some(found);
        }
        let build = known.build_id.clone().or_else(|| self.build.borrow().clone());
        let served = self.debuginfod.as_ref().zip(build);
        let served = served.and_then(|(server, build)| server.source(&build, file));
        if let Some(found) = served.filter(&mut right) {
            return Some(found);
        }
        if is_another {
            self.others.borrow_mut().insert(file.to_owned());
            return None;
        }
        let found = own?;
        self.newer.borrow_mut().insert(file.to_owned());
        Some(found)
    }

    fn is_newer(&self, file: &Path) -> bool {
        let changed = std::fs::metadata(file).and_then(|file| file.modified()).ok();
        matches!((changed, self.built), (Some(changed), Some(built)) if changed > built)
    }

    /// Somebody said where the file is: it is his word that it is the right one.
    fn mapped(&self, file: &str) -> Option<Arc<Content>> {
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

fn read(path: &Path) -> Option<Arc<Content>> {
    let metadata = std::fs::metadata(path).ok()?;
    if !metadata.is_file() || metadata.len() > LARGEST {
        return None;
    }
    Some(Arc::new(Content::new(&std::fs::read(path).ok()?)))
}

/// What a file has in it.
#[derive(Debug)]
pub struct Content {
    pub(crate) lines: Vec<String>,
    /// In hexadecimal digits.
    md5: String,
}

impl Content {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let digest = Md5::digest(bytes);
        Self {
            lines: text.lines().map(str::to_owned).collect(),
            md5: digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        }
    }
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
        assert!(text.notes().is_empty());
        let later = SystemTime::now() + Duration::from_secs(5);
        fs::File::options()
            .append(true)
            .open(&source)
            .unwrap()
            .set_modified(later)
            .unwrap();
        let text = SourceText::new(&[]).of_program(&program);
        assert_eq!(text.line(file, 1).as_deref(), Some("one"));
        let [note] = &text.notes()[..] else {
            panic!("one note: {:?}", text.notes());
        };
        assert!(note.starts_with("a.c was changed after"), "{note}");
    }

    #[test]
    fn only_the_file_that_was_compiled_is_shown_where_it_can_be_told() {
        let folder = folder();
        let own = folder.path().join("src/a.c");
        let known = |md5: &str| {
            let text = SourceText::new(&map(&folder));
            let files = [own.to_str().unwrap(), "/build/app/a.c"].map(|file| SourceFile {
                file: file.to_owned(),
                md5: Some(md5.to_owned()),
                build_id: None,
            });
            text.know(&files);
            text
        };
        // As md5sum says it is.
        let text = known("495734e59085c1e02887cf43aded17e8");
        for file in [own.to_str().unwrap(), "/build/app/a.c"] {
            assert_eq!(text.line(file, 1).as_deref(), Some("one"));
        }
        assert!(text.notes().is_empty(), "{:?}", text.notes());
        let text = known("00000000000000000000000000000001");
        for file in [own.to_str().unwrap(), "/build/app/a.c"] {
            assert_eq!(text.line(file, 1), None);
        }
        let notes = text.notes();
        assert!(
            notes.len() == 2 && notes[0].starts_with("a.c is not the file that was compiled"),
            "{notes:?}"
        );
    }
}
