//! The executables and libraries that a core or a process speaks of, as this host has them.

use std::path::{Path, PathBuf};

use elsa::sync::FrozenMap;
use failure::image::ModuleFiles;
use program::BuildId;

use super::mapped::MappedFile;

/// Maps a core's modules by the paths in the core. The executable may be somewhere else by now: it is the
/// file that the user gave.
pub struct HostModules {
    executable: PathBuf,
    recorded: Option<String>,
    maps: FrozenMap<String, Box<Option<MappedFile>>>,
}

impl HostModules {
    /// The modules of a core in which `recorded` is the path of the file that is now at `executable`.
    #[must_use]
    pub fn new(executable: &Path, recorded: Option<&str>) -> Self {
        Self {
            executable: executable.to_owned(),
            recorded: recorded.map(str::to_owned),
            maps: FrozenMap::new(),
        }
    }

    /// The modules of a process of this host, which are where it says.
    #[must_use]
    pub fn of_this_host() -> Self {
        Self::new(Path::new(""), None)
    }

    /// Where a module of the core is on this host.
    #[must_use]
    pub fn path(&self, recorded: &str) -> PathBuf {
        if self.recorded.as_deref() == Some(recorded) {
            self.executable.clone()
        } else {
            PathBuf::from(recorded)
        }
    }
}

impl ModuleFiles for HostModules {
    fn module(&self, path: &str, _build_id: Option<&BuildId>) -> Option<&[u8]> {
        let map = self.maps.get(path).unwrap_or_else(|| {
            let opened = MappedFile::open_scattered(&self.path(path)).ok();
            self.maps.insert(path.to_owned(), Box::new(opened))
        });
        map.as_deref()
    }
}

/// Whether a path is where systems keep their libraries: code that is named in a stack, not looked into.
#[must_use]
pub fn is_system_path(path: &str) -> bool {
    const FOLDERS: [&str; 6] = [
        "/lib/",
        "/lib64/",
        "/lib32/",
        "/usr/lib/",
        "/usr/lib64/",
        "[vdso]",
    ];
    FOLDERS.iter().any(|folder| path.starts_with(folder))
}
