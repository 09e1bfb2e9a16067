//! What gdb says about a core, in its own words and as other tools would print it.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use crate::folder::Folder;
use crate::process;

/// What gdb prints for a command.
///
/// # Panics
/// When gdb is not installed.
#[must_use]
pub fn ask(exe: &Path, core: &Path, command: &str) -> String {
    let folder = Folder::new("gdb");
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set width 0", "-ex", command])
        .args([exe, core])
        .env("DEBUGINFOD_URLS", "");
    process::tool(&mut gdb, folder.path())
}

/// A thread's stack, innermost frame first.
#[derive(Debug)]
pub struct Stack {
    /// The kernel's thread id.
    pub tid: String,
    /// The frames that are on the stack: inlined functions and tail calls have none.
    pub frames: Vec<Frame>,
}

/// A frame.
#[derive(Debug)]
pub struct Frame {
    /// The address in the process.
    pub address: u64,
    /// The symbol, demangled.
    pub symbol: String,
    /// The symbol as it stands in the file.
    pub mangled: String,
    /// The address minus that of the symbol.
    pub symbol_offset: u64,
    /// The file that it is in.
    pub module: String,
    /// The address minus that of the file's first byte.
    pub module_offset: u64,
}

const WALK: &str = r#"
python
def symbol(address, demangle):
    gdb.execute("set print demangle " + demangle)
    return gdb.execute("info symbol %d" % address, to_string=True).split(" in section ")[0]

def mapped():
    for line in gdb.execute("info proc mappings", to_string=True).splitlines():
        words = line.split()
        if len(words) == 5 and words[4].startswith("/"):
            yield int(words[0], 16), int(words[1], 16), words[4]

maps = list(mapped())
for thread in sorted(gdb.selected_inferior().threads(), key=lambda thread: thread.num):
    thread.switch()
    print("THREAD", thread.ptid[1], sep="\t")
    frame, back = gdb.newest_frame(), 0
    while frame is not None:
        if frame.type() in (gdb.NORMAL_FRAME, gdb.SIGTRAMP_FRAME):
            pc = frame.pc()
            path = next((path for start, end, path in maps if start <= pc < end), None)
            if path is not None:
                base = min(start for start, _, other in maps if other == path)
                name, _, offset = symbol(pc - back, "on").partition(" + ")
                mangled = symbol(pc - back, "off").partition(" + ")[0]
                print("FRAME", pc, name, mangled, int(offset or 0) + back, path, pc - base, sep="\t")
            back = 0 if frame.type() == gdb.SIGTRAMP_FRAME else 1
        frame = frame.older()
end
"#;

/// Every thread's stack; the one that failed is the first.
///
/// # Panics
/// When gdb is not installed or finds nothing.
#[must_use]
pub fn stacks(exe: &Path, core: &Path) -> Vec<Stack> {
    let folder = Folder::new("gdb");
    let script = folder.write("walk.gdb", WALK);
    let mut stacks: Vec<Stack> = Vec::new();
    for line in ask(exe, core, &format!("source {}", script.display())).lines() {
        let words: Vec<&str> = line.split('\t').collect();
        match words[..] {
            ["THREAD", tid] => stacks.push(Stack {
                tid: tid.to_owned(),
                frames: Vec::new(),
            }),
            ["FRAME", address, symbol, mangled, offset, module, module_offset] => {
                let number = |text: &str| text.parse().expect("gdb prints a number");
                let stack = stacks.last_mut().expect("a frame is a thread's");
                stack.frames.push(Frame {
                    address: number(address),
                    symbol: symbol.to_owned(),
                    mangled: mangled.to_owned(),
                    symbol_offset: number(offset),
                    module: module.to_owned(),
                    module_offset: number(module_offset),
                });
            }
            _ => {}
        }
    }
    assert!(
        stacks.first().is_some_and(|stack| !stack.frames.is_empty()),
        "gdb finds no frames in {}",
        core.display()
    );
    stacks
}

/// The stacks as `coredumpctl info` shows them.
#[must_use]
pub fn as_coredumpctl(stacks: &[Stack], exe: &Path, signal: &str, build_id: &str) -> String {
    let exe = exe.display();
    let mut text = format!(
        "           PID: 4242 (program)\n        Signal: {signal}\n    Executable: {exe}\n       \
         Message: Process 4242 (program) of user 1000 dumped core.\n                \n                \
         Module {exe} with build-id {build_id}\n"
    );
    for stack in stacks {
        let _ = writeln!(text, "                Stack trace of thread {}:", stack.tid);
        for (number, frame) in stack.frames.iter().enumerate() {
            let file = frame.module.rsplit('/').next().unwrap_or_default();
            let _ = writeln!(
                text,
                "                #{number:<3}{:#018x} {} ({file} + {:#x})",
                frame.address, frame.mangled, frame.module_offset
            );
        }
        text.push_str("                \n");
    }
    text + "                ELF object binary architecture: AMD x86-64\n"
}

/// The failing stack as `perf script` and eBPF tools show stacks. Unlike gdb, they leave out the hashes in Rust's
/// names.
#[must_use]
pub fn as_perf(stacks: &[Stack]) -> String {
    let mut text = "program 4242  2376.504647:   10101010 cpu-clock: \n".to_owned();
    for frame in stacks.first().map_or(&[][..], |stack| &stack.frames) {
        let _ = writeln!(
            text,
            "\t{:>16x} {}+{:#x} ({})",
            frame.address,
            without_hashes(&frame.symbol),
            frame.symbol_offset,
            frame.module
        );
    }
    text + "\n"
}

/// A Rust name without `[e28293b1aa0f68bd]` and `::h2972f1f3c0505a06`.
fn without_hashes(name: &str) -> String {
    let is_hash = |text: &str| text.len() == 16 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    let mut text = String::new();
    for part in name.split_inclusive(['[', ']']) {
        match part.strip_suffix(']') {
            Some(hash) if is_hash(hash) => {
                let _ = text.pop();
            }
            _ => text.push_str(part),
        }
    }
    match text.rsplit_once("::h") {
        Some((path, hash)) if is_hash(hash) => path.to_owned(),
        _ => text,
    }
}

/// A text as journald shows it.
#[must_use]
pub fn in_journal(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| format!("Nov 16 03:12:07 web-1 program[4242]: {line}\n"));
    lines.collect()
}
