//! What the user wants watched, as places in the process.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use program::expression::{Expression, Place, PlaceError, Shape};
use program::{Module, RunAddr};
use tracee::ptrace::check_target;
use tracee::{Pid, ProgramFiles};

use super::modules::{ProcessModules, only_module};
use crate::args::WatchArgs;

/// A place to watch.
pub struct Wanted {
    /// What the user called it; nothing for a bare address.
    pub name: Option<String>,
    /// How its bytes are read.
    pub shape: Shape,
    /// How many bytes.
    pub len: u32,
    /// Where it is.
    pub at: At,
}

/// Where a place is.
pub enum At {
    /// At an address of the process.
    Run(RunAddr),
    /// In a module: the executable, or the library at a path.
    Module(Option<PathBuf>, Place),
}

impl Wanted {
    /// What to call it.
    pub fn label(&self) -> String {
        match (&self.name, &self.at) {
            (Some(name), _) => name.clone(),
            (None, At::Run(addr)) => format!("{addr}:{}", self.len),
            (None, At::Module(_, place)) => format!("{}:{}", place.base, self.len),
        }
    }
}

/// What is to be watched in a process that runs.
pub fn in_process(
    args: &WatchArgs,
    pid: Pid,
    modules: &ProcessModules<'_>,
    files: &ProgramFiles,
) -> Result<Vec<Wanted>> {
    let mut wanted = Vec::new();
    for name in &args.var {
        if let Some((library, rest)) = of_library(name) {
            let mapped = modules.libraries().map(|(path, _)| path).collect();
            let path = library_at(library, mapped)?;
            wanted.push(variable(name, Some(path.clone()), in_file(&path, rest, files)?)?);
            continue;
        }
        let expression = Expression::parse(name)?;
        let Some(executable) = modules.executable() else {
            // It may have ended since it was looked at.
            check_target(pid)?;
            bail!("the executable of process {pid} cannot be opened: give an address with --addr")
        };
        let mut found = find(executable, &expression).map(|place| (None, place));
        if matches!(found, Err(PlaceError::Unknown { .. })) {
            let in_library = modules
                .libraries()
                .find_map(|(path, library)| Some((Some(path), find(library, &expression).ok()?)));
            found = in_library.ok_or(()).or(found);
        }
        let (module, place) = found.map_err(with_libraries)?;
        wanted.push(variable(name, module, place)?);
    }
    wanted.extend(args.addr.iter().map(|&(addr, len)| address(addr, len)));
    Ok(wanted)
}

/// What is to be watched in a program that will be started.
pub fn in_program(args: &WatchArgs, executable: &Path, files: &ProgramFiles) -> Result<Vec<Wanted>> {
    let mut wanted = Vec::new();
    let module = files.module(executable)?;
    // Asking a static program for its libraries would run it.
    let listed = || match module.elf().interp() {
        Some(_) => libraries(executable),
        None => Vec::new(),
    };
    for name in &args.var {
        if let Some((library, rest)) = of_library(name) {
            let path = library_at(library, listed())?;
            wanted.push(variable(name, Some(path.clone()), in_file(&path, rest, files)?)?);
            continue;
        }
        let expression = Expression::parse(name)?;
        let mut found = Place::find(&module, &expression).map(|place| (None, place));
        if matches!(found, Err(PlaceError::Unknown { .. })) {
            let in_library = listed().into_iter().find_map(|path| {
                let library = files.module(&path).ok()?;
                let place = Place::find(&library, &expression).ok()?;
                Some((Some(path), place))
            });
            found = in_library.ok_or(()).or(found);
        }
        let (module, place) = found.map_err(with_libraries)?;
        wanted.push(variable(name, module, place)?);
    }
    for &(addr, len) in &args.addr {
        wanted.push(linked_address(&module, addr, len).unwrap_or_else(|| address(addr, len)));
    }
    Ok(wanted)
}

/// `plugin.so:name`: a variable of a library, which may be loaded later.
fn of_library(name: &str) -> Option<(&str, &str)> {
    let (library, rest) = name.split_once(':')?;
    let file = Path::new(library).file_name()?.to_str()?;
    let is_library = file.ends_with(".so") || file.contains(".so.");
    (is_library && !rest.starts_with(':')).then_some((library, rest))
}

/// The file of a library: at its path, or the one of that name among those that the program has anyway.
fn library_at(library: &str, loaded: Vec<PathBuf>) -> Result<PathBuf> {
    let named = Path::new(library);
    if library.contains('/') || named.is_file() {
        // The kernel tells mappings by the whole path.
        return named
            .canonicalize()
            .with_context(|| format!("cannot open {library}"));
    }
    let same = |path: &PathBuf| path.file_name() == Some(OsStr::new(library));
    loaded.into_iter().find(same).with_context(|| {
        format!("the program has not loaded {library}: give the path of the file that it will load")
    })
}

fn in_file(path: &Path, expression: &str, files: &ProgramFiles) -> Result<Place> {
    let expression = Expression::parse(expression)?;
    Ok(Place::find(&files.module(path)?, &expression)?)
}

/// What is in no file that is known may be in one that the program loads by itself.
fn with_libraries(error: PlaceError) -> PlaceError {
    match error {
        PlaceError::Unknown { module, name, hint } if hint.is_empty() => PlaceError::Unknown {
            module,
            hint: format!("; of a library that it loads while it runs: LIBRARY.so:{name}"),
            name,
        },
        other => other,
    }
}

fn find(program: &program::Program<'_>, expression: &Expression) -> Result<Place, PlaceError> {
    let unknown = || PlaceError::Unknown {
        module: "the program".to_owned(),
        name: expression.name.clone(),
        hint: String::new(),
    };
    Place::find(only_module(program).ok_or_else(unknown)?, expression)
}

fn variable(name: &str, module: Option<PathBuf>, place: Place) -> Result<Wanted> {
    let len = u32::try_from(place.size).ok();
    let Some(len) = len.filter(|&len| len <= WIDEST) else {
        bail!(
            "`{name}` has {} bytes, and the processor's debug registers watch {WIDEST}: name a field or an element of it",
            place.size
        )
    };
    Ok(Wanted {
        name: Some(name.to_owned()),
        shape: place.shape.clone(),
        len,
        at: At::Module(module, place),
    })
}

/// Four registers of eight bytes.
const WIDEST: u32 = 32;

fn address(addr: u64, len: u32) -> Wanted {
    Wanted {
        name: None,
        shape: Shape::Unsigned,
        len,
        at: At::Run(RunAddr(addr)),
    }
}

/// Where a position-independent program will be is not known before it runs: such an address is one in its file.
fn linked_address(module: &Module<'_>, addr: u64, len: u32) -> Option<Wanted> {
    let base = program::LinkAddr(addr);
    if module.elf().is_fixed() || !module.elf().segments().contains(base) {
        return None;
    }
    let place = Place {
        base,
        follows: Vec::new(),
        offset: 0,
        size: len.into(),
        shape: Shape::Unsigned,
    };
    Some(Wanted {
        at: At::Module(None, place),
        ..address(addr, len)
    })
}

/// The shared libraries that the loader would load for a program, as `ldd` asks it.
fn libraries(executable: &Path) -> Vec<PathBuf> {
    let asked = Command::new(executable)
        .env("LD_TRACE_LOADED_OBJECTS", "1")
        .output();
    let listed = asked.map(|output| output.stdout).unwrap_or_default();
    let paths = listed.split(|&byte| byte == b'\n').filter_map(|line| {
        let start = line.iter().position(|&byte| byte == b'/')?;
        let path = line.get(start..)?;
        let end = path
            .windows(2)
            .position(|pair| pair == b" (")
            .unwrap_or(path.len());
        Some(PathBuf::from(OsStr::from_bytes(path.get(..end)?)))
    });
    paths.collect()
}
