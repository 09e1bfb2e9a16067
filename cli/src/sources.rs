//! The text of source lines.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

/// Reads source files once, where the compiler recorded them or where the user says that they are now.
#[derive(Default)]
pub struct SourceText {
    map: Vec<(String, String)>,
    files: RefCell<HashMap<String, Option<Vec<String>>>>,
}

/// Larger files are generated ones, or not sources at all.
const LARGEST: u64 = 32 << 20;

impl SourceText {
    /// With a list of old and new path beginnings.
    #[must_use]
    pub fn new(map: &[(String, String)]) -> Self {
        Self {
            map: map.to_vec(),
            files: RefCell::default(),
        }
    }

    /// A line of a file without the space around it, if the file is there.
    #[must_use]
    pub fn line(&self, file: &str, line: u32) -> Option<String> {
        self.whole_line(file, line).map(|text| text.trim().to_owned())
    }

    /// A line of a file as it is, if the file is there and has it.
    #[must_use]
    pub fn whole_line(&self, file: &str, line: u32) -> Option<String> {
        let mut files = self.files.borrow_mut();
        let lines = files.entry(file.to_owned()).or_insert_with(|| self.read(file));
        let index = usize::try_from(line).ok()?.checked_sub(1)?;
        lines.as_ref()?.get(index).cloned()
    }

    fn read(&self, file: &str) -> Option<Vec<String>> {
        let path = self.current(file);
        let metadata = std::fs::metadata(&path).ok()?;
        if !metadata.is_file() || metadata.len() > LARGEST {
            return None;
        }
        let bytes = std::fs::read(&path).ok()?;
        Some(
            String::from_utf8_lossy(&bytes)
                .lines()
                .map(str::to_owned)
                .collect(),
        )
    }

    fn current(&self, file: &str) -> PathBuf {
        let moved = self.map.iter().find_map(|(old, new)| {
            let rest = file.strip_prefix(old.as_str())?;
            Some(format!("{new}{rest}"))
        });
        PathBuf::from(moved.unwrap_or_else(|| file.to_owned()))
    }
}
