//! The executable and the shared libraries of a running process, and how addresses go from one to the other.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use failure::image::{MappedModule, ModuleHeaders};
use program::{LinkAddr, LinkRange, RunAddr};

use super::error::ProcessError;
use super::facts::Process;
use super::maps::{self, MapLine};
use super::memory::Memory;
use crate::ids::Pid;

/// The page that holds the headers of a module.
const HEADERS: usize = 4096;
const AT_ENTRY: u64 = 9;
/// How long the kernel may take to map a program.
const MAPPED_WITHIN: Duration = Duration::from_millis(200);
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// A file with code in a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module {
    /// Path, load bias, ranges and build-id, as for a module of a core.
    pub mapped: MappedModule,
    /// The file was removed or replaced after it was mapped.
    pub deleted: bool,
    /// The file's number in its file system.
    pub inode: u64,
    /// The addresses that it was linked for.
    pub extent: LinkRange,
}

impl Module {
    /// The link-time address of an address in this module.
    #[must_use]
    pub fn to_link(&self, addr: RunAddr) -> Option<LinkAddr> {
        let link = LinkAddr(addr.0.wrapping_sub(self.mapped.bias?));
        self.extent.contains(&link).then_some(link)
    }

    /// Where a link-time address of this module is in the process.
    #[must_use]
    pub fn to_run(&self, addr: LinkAddr) -> Option<RunAddr> {
        let bias = self.mapped.bias.filter(|_| self.extent.contains(&addr))?;
        Some(RunAddr(bias.wrapping_add(addr.0)))
    }

    /// Whether both are the same mapping of the same file, however many of its parts are there yet: the
    /// loader maps a library in several steps.
    fn is_same(&self, other: &Self) -> bool {
        let start = |module: &Self| module.mapped.ranges.first().map(|(range, _)| range.start);
        self.inode == other.inode && self.mapped.path == other.mapped.path && start(self) == start(other)
    }
}

/// What was mapped and unmapped between two looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModuleChanges {
    /// Modules that came.
    pub mapped: Vec<Module>,
    /// Modules that went.
    pub unmapped: Vec<Module>,
}

/// The modules of a process, in address order.
#[derive(Clone, Debug)]
pub struct ModuleMap {
    pid: Pid,
    modules: Vec<Module>,
    entry: Option<RunAddr>,
}

impl ModuleMap {
    /// Reads the modules of a process.
    ///
    /// # Errors
    /// When there is no such process, or it is not ours to look at.
    pub fn of(pid: Pid) -> Result<Self, ProcessError> {
        let mut map = Self {
            pid,
            modules: Vec::new(),
            entry: None,
        };
        map.refresh()?;
        let started = Instant::now();
        while map.is_being_replaced() && started.elapsed() < MAPPED_WITHIN {
            std::thread::sleep(BETWEEN_LOOKS);
            map.refresh()?;
        }
        Ok(map)
    }

    /// Whether the process is in the middle of an exec: nothing of the program before is mapped any more, and of the next one not all
    /// yet. Whoever starts a program goes on at that moment.
    fn is_being_replaced(&self) -> bool {
        self.executable().is_none() && fs::read_link(format!("/proc/{}/exe", self.pid)).is_ok()
    }

    /// What somebody else has read.
    #[must_use]
    pub fn told(pid: Pid, modules: Vec<Module>, entry: Option<RunAddr>) -> Self {
        Self { pid, modules, entry }
    }

    /// Where the kernel told the program that its executable begins.
    #[must_use]
    pub fn entry(&self) -> Option<RunAddr> {
        self.entry
    }

    /// Looks again: one read of `/proc/PID/maps`, and of the headers of what is new. Says what changed.
    ///
    /// # Errors
    /// When there is no such process any more.
    pub fn refresh(&mut self) -> Result<ModuleChanges, ProcessError> {
        let failed = |error| ProcessError::of(self.pid, "the mappings", error);
        let mut text = fs::read(format!("/proc/{}/maps", self.pid)).map_err(failed)?;
        if text.is_empty() {
            let living = Process::new(self.pid).living_thread();
            text = fs::read(format!("/proc/{living}/maps")).map_err(failed)?;
        }
        let lines = maps::parse(&String::from_utf8_lossy(&text));
        let memory = Memory::of(self.pid);
        let mut old = std::mem::take(&mut self.modules);
        let mut changes = ModuleChanges::default();
        for group in group(&lines) {
            let Some(mut module) = module(&group, &old, &memory) else {
                continue;
            };
            match old.iter().position(|before| before.is_same(&module)) {
                Some(index) => {
                    let before = old.swap_remove(index);
                    module.mapped.build_id = module.mapped.build_id.or(before.mapped.build_id);
                }
                None => changes.mapped.push(module.clone()),
            }
            self.modules.push(module);
        }
        old.sort_by_key(|module| module.mapped.ranges.first().map(|(range, _)| range.start));
        changes.unmapped = old;
        if !changes.mapped.is_empty() {
            self.entry = entry(self.pid);
        }
        Ok(changes)
    }

    /// Whose modules.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// All of them, in address order.
    #[must_use]
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The module of the executable: the one with the entry point that the kernel told the program of.
    #[must_use]
    pub fn executable(&self) -> Option<&Module> {
        let (module, _) = self.find(self.entry?)?;
        Some(module)
    }

    /// The module that an address lies in, and the address there as linked.
    #[must_use]
    pub fn find(&self, addr: RunAddr) -> Option<(&Module, LinkAddr)> {
        self.modules
            .iter()
            .find_map(|module| Some((module, module.to_link(addr)?)))
    }

    /// Where a link-time address of the executable is in the process.
    #[must_use]
    pub fn to_run(&self, addr: LinkAddr) -> Option<RunAddr> {
        self.executable()?.to_run(addr)
    }

    /// A path under which the very file that is mapped can be opened from here, even if it was removed,
    /// replaced or is in another mount namespace. `None` for the vdso, and when there is no way.
    #[must_use]
    pub fn file(&self, module: &Module) -> Option<PathBuf> {
        let path = Path::new(&module.mapped.path);
        if !path.is_absolute() {
            return None;
        }
        let inside = path.strip_prefix("/").unwrap_or(path);
        let proc = PathBuf::from(format!("/proc/{}", Process::new(self.pid).living_thread()));
        let in_namespace = proc.join("root").join(inside);
        let is_mapped = |path: &PathBuf| fs::metadata(path).is_ok_and(|file| file.ino() == module.inode);
        let by_name = [path.to_owned(), in_namespace];
        if !module.deleted
            && let Some(found) = by_name.iter().find(|path| is_mapped(path))
        {
            return Some(found.clone());
        }
        let (range, _) = module.mapped.ranges.first()?;
        let part = format!("{:x}-{:x}", range.start.0, range.end.0);
        let exe = proc.join("exe");
        let by_mapping = [proc.join("map_files").join(part), exe];
        if let Some(found) = by_mapping.iter().find(|path| is_mapped(path)) {
            return Some(found.clone());
        }
        // Layered file systems show one inode in the mappings and another in the file.
        let [_, in_namespace] = by_name;
        (!module.deleted && in_namespace.is_file()).then_some(in_namespace)
    }
}

/// Puts together the mappings of one loaded copy of a file.
fn group(lines: &[MapLine]) -> Vec<Vec<&MapLine>> {
    let mut groups: Vec<Vec<&MapLine>> = Vec::new();
    for line in lines {
        // A file that is loaded twice starts again at its beginning.
        let continued = groups.iter_mut().rev().find(|group| {
            group
                .last()
                .is_some_and(|last| last.inode == line.inode && last.mapping.path == line.mapping.path)
        });
        match continued {
            Some(group) if !starts_again(group, line) => group.push(line),
            _ => groups.push(vec![line]),
        }
    }
    groups.retain(|group| group.iter().any(|line| line.executable));
    groups
}

/// A small file has its only page mapped as headers, as code and as data, one behind the other.
fn starts_again(group: &[&MapLine], line: &MapLine) -> bool {
    let touches = group
        .last()
        .is_some_and(|last| last.mapping.range.end == line.mapping.range.start);
    line.mapping.offset.0 == 0 && !touches
}

fn module(group: &[&MapLine], known: &[Module], memory: &Memory) -> Option<Module> {
    let first = group.first()?;
    let ranges = group
        .iter()
        .map(|line| (line.mapping.range.clone(), line.mapping.offset))
        .collect();
    let mut module = Module {
        mapped: MappedModule {
            path: first.mapping.path.clone(),
            bias: None,
            ranges,
            build_id: None,
        },
        deleted: first.deleted,
        inode: first.inode,
        extent: LinkAddr(0)..LinkAddr(0),
    };
    if let Some(before) = known
        .iter()
        .find(|before| before.is_same(&module) && before.mapped.bias.is_some())
    {
        module.mapped.bias = before.mapped.bias;
        module.mapped.build_id.clone_from(&before.mapped.build_id);
        module.extent = before.extent.clone();
        return Some(module);
    }
    let mut page = vec![0; HEADERS];
    let count = memory.read_some(first.mapping.range.start, &mut page).ok()?;
    let headers = ModuleHeaders::parse(page.get(..count)?)?;
    let bias = headers.bias(&module.mapped.ranges)?;
    module.mapped.bias = Some(bias);
    module.mapped.build_id =
        headers.build_id(|addr, len| memory.read(RunAddr(bias.wrapping_add(addr.0)), len));
    module.extent = headers.extent()?;
    Some(module)
}

/// The entry point of the executable, which the kernel puts into the auxiliary vector.
fn entry(pid: Pid) -> Option<RunAddr> {
    let auxv = fs::read(format!("/proc/{}/auxv", Process::new(pid).living_thread())).ok()?;
    let mut entries = auxv.chunks_exact(16).filter_map(|entry| {
        let (key, value) = entry.split_first_chunk::<8>()?;
        Some((
            u64::from_le_bytes(*key),
            u64::from_le_bytes(*value.first_chunk()?),
        ))
    });
    entries
        .find(|&(key, _)| key == AT_ENTRY)
        .map(|(_, value)| RunAddr(value))
}
