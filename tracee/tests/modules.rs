//! The modules of running programs, held against what the programs and `nm` say.

#![allow(clippy::unwrap_used, reason = "a test stops at what it does not expect")]

mod traced;

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use failsketch_tests::folder::Folder;
use failsketch_tests::process::tool;
use failsketch_tests::skip::skipped;
use program::elf::Elf;
use program::{LinkAddr, RunAddr};
use traced::compile;
use tracee::process::{ExitWatch, Memory, ModuleMap, Process};
use tracee::ptrace::{End, Launch, Stream, Tracer, on_own_thread};
use tracee::{MappedFile, Pid};

/// A running `modules.c`.
struct Running {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
}

impl Running {
    fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        Self {
            stdin: child.stdin.take().unwrap(),
            stdout: BufReader::new(child.stdout.take().unwrap()),
            child,
        }
    }

    fn pid(&self) -> Pid {
        Pid(self.child.id())
    }

    fn addresses(&mut self) -> Vec<RunAddr> {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line.split_whitespace().filter_map(address).collect()
    }

    fn tell(&mut self, what: &str) -> Vec<RunAddr> {
        self.stdin.write_all(what.as_bytes()).unwrap();
        self.addresses()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

fn address(text: &str) -> Option<RunAddr> {
    u64::from_str_radix(text.strip_prefix("0x")?, 16)
        .ok()
        .map(RunAddr)
}

fn nm(program: &Path, name: &str) -> LinkAddr {
    let text = tool(Command::new("nm").arg(program), Path::new("/"));
    let line = text
        .lines()
        .find(|line| line.ends_with(&format!(" {name}")))
        .unwrap();
    LinkAddr(u64::from_str_radix(line.split(' ').next().unwrap(), 16).unwrap())
}

/// Whoever starts a program goes on while the kernel still maps it.
#[test]
fn a_program_that_was_just_started_is_there() {
    let folder = Folder::new("modules-at-once");
    let program = compile(&folder, "modules.c", &["-O1"]);
    for _ in 0..50 {
        let running = Running::start(&mut Command::new(&program));
        let map = ModuleMap::of(running.pid()).unwrap();
        let executable = map.executable().map(|module| Path::new(&module.mapped.path));
        assert_eq!(executable, Some(program.as_path()));
    }
}

#[test]
fn addresses_go_both_ways() {
    let folder = Folder::new("modules");
    for options in [
        &["-pie", "-fpie"][..],
        &["-no-pie", "-fno-pie"],
        &["-static"],
        &["-static-pie", "-fpie"],
    ] {
        let program = compile(&folder, "modules.c", options);
        let mut running = Running::start(&mut Command::new(&program));
        let found = running.addresses();
        let map = ModuleMap::of(running.pid()).unwrap();
        let [initialised, last, function] = found[..] else {
            panic!("{found:?}")
        };
        let zeroed = nm(&program, "zeroed");
        let expected = [
            (nm(&program, "initialised"), initialised),
            (zeroed.offset(4 * 4999), last),
            (nm(&program, "function"), function),
        ];
        for (link, run) in expected {
            assert_eq!(map.to_run(link), Some(run), "{options:?}");
            let (module, back) = map.find(run).unwrap();
            assert_eq!((Path::new(&module.mapped.path), back), (program.as_path(), link));
        }
        let file = MappedFile::open(&program).unwrap();
        let module = map.executable().unwrap();
        assert_eq!(module.mapped.build_id, Elf::parse(&file).unwrap().build_id());
        assert!(module.mapped.build_id.is_some() && !module.deleted);
        assert_eq!(map.file(module), Some(program.clone()));
        assert!(map.modules().iter().any(|module| module.mapped.path == "[vdso]"));
        assert_eq!(map.find(RunAddr(0)), None);
        let value = Memory::of(running.pid()).read(initialised, 4);
        assert_eq!(value, Some(7_i32.to_le_bytes().to_vec()));
    }
}

#[test]
fn libraries_come_and_go() {
    let folder = Folder::new("modules");
    let program = compile(&folder, "modules.c", &[]);
    let library = compile(&folder, "library.c", &["-shared", "-fPIC"]);
    let mut running = Running::start(Command::new(&program).arg(&library));
    running.addresses();
    let mut map = ModuleMap::of(running.pid()).unwrap();
    assert_eq!(map.refresh().unwrap(), tracee::process::ModuleChanges::default());
    for _ in 0..3 {
        let there = running.tell("open\n")[0];
        let changes = map.refresh().unwrap();
        let [module] = &changes.mapped[..] else {
            panic!("{changes:?}")
        };
        assert_eq!(Path::new(&module.mapped.path), library);
        assert_eq!(module.to_run(nm(&library, "in_library")), Some(there));
        assert!(changes.unmapped.is_empty());
        running.tell("close\n");
        let changes = map.refresh().unwrap();
        assert!(changes.mapped.is_empty());
        assert_eq!(Path::new(&changes.unmapped[0].mapped.path), library);
    }
}

#[test]
fn removed_and_replaced_files_are_still_found() {
    let folder = Folder::new("modules");
    let program = compile(&folder, "modules.c", &[]);
    let bytes = fs::read(&program).unwrap();
    let mut running = Running::start(&mut Command::new(&program));
    running.addresses();
    fs::remove_file(&program).unwrap();
    fs::write(&program, "another file").unwrap();
    let map = ModuleMap::of(running.pid()).unwrap();
    let module = map.executable().unwrap();
    assert!(module.deleted);
    assert_eq!(Path::new(&module.mapped.path), program);
    assert_eq!(fs::read(map.file(module).unwrap()).unwrap(), bytes);
    assert_eq!(Process::new(running.pid()).executable().unwrap(), program);
}

#[test]
fn files_in_other_mount_namespaces_are_found() {
    let folder = Folder::new("modules");
    let program = compile(&folder, "modules.c", &[]);
    let inside = folder.path().join("inside");
    fs::create_dir(&inside).unwrap();
    let script = "mount -t tmpfs none \"$1\" && cp \"$0\" \"$1/hidden\" && exec \"$1/hidden\"";
    let mut unshare = Command::new("unshare");
    unshare
        .args(["--mount", "sh", "-c", script])
        .arg(&program)
        .arg(&inside);
    let mut running = Running::start(&mut unshare);
    if running.addresses().is_empty() {
        return skipped("no new mount namespace may be made");
    }
    let hidden: PathBuf = inside.join("hidden");
    assert!(!hidden.exists());
    let map = ModuleMap::of(running.pid()).unwrap();
    let module = map.executable().unwrap();
    assert_eq!(Path::new(&module.mapped.path), hidden);
    assert_eq!(
        fs::read(map.file(module).unwrap()).unwrap(),
        fs::read(&program).unwrap()
    );
    assert!(module.mapped.build_id.is_some());
}

#[test]
fn a_launched_program_has_its_modules_before_its_first_instruction() {
    let folder = Folder::new("modules");
    let program = compile(&folder, "modules.c", &[]);
    on_own_thread(|| {
        let launch = Launch::new(&program).stdin(Stream::Null).stdout(Stream::Null);
        let (tracer, _) = Tracer::launch(launch).unwrap();
        let map = ModuleMap::of(tracer.pid()).unwrap();
        let there = map.to_run(nm(&program, "initialised")).unwrap();
        assert_eq!(
            Memory::of(tracer.pid()).read(there, 4),
            Some(7_i32.to_le_bytes().to_vec())
        );
        let rip = tracer.registers(tracer.pid().first_thread()).unwrap().rip;
        let (loader, _) = map.find(RunAddr(rip)).unwrap();
        assert!(loader.mapped.path.contains("ld-"), "{}", loader.mapped.path);
    });
}

#[test]
fn reads_end_where_memory_does() {
    let folder = Folder::new("modules");
    let program = compile(&folder, "modules.c", &["-no-pie", "-fno-pie"]);
    let mut running = Running::start(&mut Command::new(&program));
    running.addresses();
    let maps = fs::read_to_string(format!("/proc/{}/maps", running.pid())).unwrap();
    // The last mapping before a gap.
    let ranges: Vec<(u64, u64)> = maps
        .lines()
        .filter_map(|line| {
            let (start, end) = line.split(' ').next()?.split_once('-')?;
            let hex = |text| u64::from_str_radix(text, 16).ok();
            Some((hex(start)?, hex(end)?))
        })
        .collect();
    let gap = ranges.windows(2).find(|pair| pair[0].1 < pair[1].0).unwrap()[0].1;
    let memory = Memory::of(running.pid());
    let mut buffer = vec![0; 10_000];
    assert_eq!(memory.read_some(RunAddr(gap - 5000), &mut buffer).unwrap(), 5000);
    assert_eq!(memory.read_some(RunAddr(gap), &mut buffer).unwrap(), 0);
    assert_eq!(memory.read(RunAddr(gap - 4), 8), None);
    assert_eq!(memory.read_some(RunAddr(u64::MAX - 3), &mut buffer).unwrap(), 0);
}

#[test]
fn the_end_of_a_foreign_process_is_seen() {
    let mut child = Command::new("sleep").arg("1000").spawn().unwrap();
    let pid = Pid(child.id());
    let watch = ExitWatch::of(pid).unwrap();
    assert!(!watch.wait(std::time::Duration::from_millis(5)).unwrap());
    child.kill().unwrap();
    assert!(watch.wait(traced::LONG).unwrap());
    assert!(Process::new(pid).is_zombie().unwrap());
    let killed = End::Killed {
        signal: failure::Signal(libc::SIGKILL),
        core_dumped: false,
    };
    assert_eq!(watch.how(), killed);
    child.wait().unwrap();
    assert!(watch.wait(std::time::Duration::ZERO).unwrap());
    // Kernels before 6.15 tell only the parent then.
    assert!([killed, End::Unknown].contains(&watch.how()));
    assert!(ExitWatch::of(pid).is_err());
}

#[test]
fn how_a_foreign_process_ended_is_seen() {
    let mut child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
    let watch = ExitWatch::of(Pid(child.id())).unwrap();
    assert!(watch.wait(traced::LONG).unwrap());
    assert_eq!(watch.how(), End::Exited(7));
    child.wait().unwrap();
    assert!([End::Exited(7), End::Unknown].contains(&watch.how()));
}
