//! The scenario files: code, registers after a trap, and what is to be found. See their README.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;

use failure::image::Registers;
use program::RunAddr;
use program::code::Code;
use program::elf::Elf;
use watchpoint::access::{self, CodeMap, Trap};
use watchpoint::values::{self, Moment};
use watchpoint::watcher::{Report, Snapshot};
use watchpoint::{Location, Provenance, Trigger, Value};

use crate::support::Folder;

/// Where the test pretends the code to be loaded, beside where it was linked.
const BIASES: [u64; 2] = [0, 0x5555_5000_0000];

struct Scenario<'t> {
    name: &'t str,
    code: Vec<&'t str>,
    facts: Vec<(&'t str, &'t str)>,
}

fn parse(text: &str) -> Vec<Scenario<'_>> {
    let mut scenarios: Vec<Scenario<'_>> = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if let Some(name) = line.strip_prefix("== ") {
            scenarios.push(Scenario {
                name,
                code: Vec::new(),
                facts: Vec::new(),
            });
            continue;
        }
        let scenario = scenarios.last_mut().expect("a scenario begins with its name");
        match line.strip_prefix("-- ") {
            Some("expect none") => scenario.facts.push(("expect", "none")),
            Some(fact) => scenario
                .facts
                .push(fact.split_once(' ').expect("a fact and its value")),
            None => scenario.code.push(line),
        }
    }
    scenarios
}

/// All scenarios of a file as one program: each a function, its labels numbered.
fn assemble(scenarios: &[Scenario<'_>], folder: &Folder) -> (Vec<u8>, HashMap<String, u64>) {
    let mut source = String::from(".text\n.globl _start\n_start: nop\n");
    for (number, scenario) in scenarios.iter().enumerate() {
        writeln!(source, ".balign 64\n.type f{number}, @function\nf{number}:\nnop")
            .expect("scenarios are well formed");
        let labels: Vec<&str> = scenario
            .code
            .iter()
            .flat_map(|line| line.split(':').rev().skip(1).map(str::trim))
            .filter(|label| label.chars().all(char::is_alphabetic))
            .collect();
        for line in &scenario.code {
            let mut line = (*line).to_owned();
            for label in &labels {
                line = replace_word(&line, label, &format!("{label}_{number}"));
            }
            writeln!(source, "{line}").expect("scenarios are well formed");
        }
        writeln!(source, "ret\n.size f{number}, .-f{number}").expect("scenarios are well formed");
    }
    source.push_str(".bss\n.balign 64\ndata: .skip 64\nother: .skip 64\n");
    folder.write("it.s", &source);
    folder.run("gcc -nostdlib -static -no-pie -Wl,--build-id=none -o it it.s");
    let symbols = folder.run("nm it");
    let symbols = symbols.lines().filter_map(|line| {
        let mut words = line.split_whitespace();
        let addr = u64::from_str_radix(words.next()?, 16).ok()?;
        Some((words.nth(1)?.to_owned(), addr))
    });
    let symbols = symbols.collect();
    (
        std::fs::read(folder.path().join("it")).expect("scenarios are well formed"),
        symbols,
    )
}

fn replace_word(line: &str, word: &str, with: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '%' || c == '$' || c == '.';
    let mut out = String::new();
    let mut rest = line;
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let whole = !before.ends_with(is_part) && !after.starts_with(is_part);
        out.push_str(before);
        out.push_str(if whole { with } else { word });
        rest = after;
    }
    out + rest
}

struct Loaded<'a> {
    code: Code<'a>,
    bias: u64,
}

impl<'a> CodeMap<'a> for Loaded<'a> {
    fn code_at(&self, at: RunAddr) -> Option<(&Code<'a>, u64)> {
        let link = program::LinkAddr(at.0.wrapping_sub(self.bias));
        let known = self.code.elf().segments().contains(link);
        known.then_some((&self.code, self.bias))
    }
}

/// Turns words of a scenario into numbers, and numbers back into words.
struct Names<'n> {
    symbols: &'n HashMap<String, u64>,
    number: usize,
    bias: u64,
}

impl Names<'_> {
    fn resolve(&self, word: &str) -> u64 {
        let (name, plus) = word.split_once('+').unwrap_or((word, "0"));
        number(name)
            .unwrap_or_else(|| {
                let own = format!("{name}_{}", self.number);
                let known = self.symbols.get(&own).or_else(|| self.symbols.get(name));
                known.unwrap_or_else(|| panic!("no symbol {name}")) + self.bias
            })
            .wrapping_add(number(plus).expect("a number after +"))
    }

    /// A value with its provenance, `?` for none.
    fn value(&self, word: &str) -> Option<Value> {
        if word == "?" {
            return None;
        }
        let (bits, from) = word.split_at(word.len() - 1);
        let from = match from {
            "r" => Provenance::Register,
            "c" => Provenance::Computed,
            "m" => Provenance::Memory,
            other => panic!("{other} is no provenance"),
        };
        Some(Value::new(self.resolve(bits), from))
    }
}

fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => word.parse().ok(),
    }
}

fn registers(words: &str, names: &Names<'_>) -> Registers {
    let mut registers = Registers::default();
    for word in words.split_whitespace() {
        let (name, value) = word.split_once('=').expect("register=value");
        if name == "flags" {
            registers.eflags = value.split(',').map(flag).sum();
            continue;
        }
        let value = names.resolve(value);
        let place = match name {
            "rax" => &mut registers.rax,
            "rbx" => &mut registers.rbx,
            "rcx" => &mut registers.rcx,
            "rdx" => &mut registers.rdx,
            "rsi" => &mut registers.rsi,
            "rdi" => &mut registers.rdi,
            "rbp" => &mut registers.rbp,
            "rsp" => &mut registers.rsp,
            "fs_base" => &mut registers.fs_base,
            other => panic!("{other} is not used in scenarios"),
        };
        *place = value;
    }
    registers
}

fn flag(name: &str) -> u64 {
    match name {
        "CF" => 1,
        "ZF" => 1 << 6,
        "SF" => 1 << 7,
        "DF" => 1 << 10,
        other => panic!("{other} is no flag"),
    }
}

fn location(words: &str, names: &Names<'_>) -> Location {
    let (place, trigger) = words.split_once(' ').expect("bytes and trigger");
    let (addr, len) = place.split_once(':').expect("address:length");
    Location {
        addr: RunAddr(names.resolve(addr)),
        len: len.parse().expect("a length"),
        trigger: if trigger == "w" {
            Trigger::Write
        } else {
            Trigger::ReadWrite
        },
    }
}

fn snapshot(words: &str, names: &Names<'_>) -> Snapshot {
    let (addr, hex) = words.split_once('=').expect("address=bytes");
    let mut seen = Snapshot {
        addr: RunAddr(names.resolve(addr)),
        len: u8::try_from(hex.len() / 2).expect("scenarios are well formed"),
        ..Snapshot::default()
    };
    for (at, byte) in seen.bytes.iter_mut().take(hex.len() / 2).enumerate() {
        *byte = u8::from_str_radix(&hex[at * 2..at * 2 + 2], 16).expect("scenarios are well formed");
    }
    seen
}

/// What was found, in the order of the expectations: instructions, access, bytes, values.
type Row = (Vec<u64>, String, (u32, Option<u64>), Option<Value>, Option<Value>);

fn expected(words: &str, names: &Names<'_>) -> Row {
    let words: Vec<&str> = words.split_whitespace().collect();
    let [pcs, access, bytes, change] = words[..] else {
        panic!("expect INSTRUCTION ACCESS LEN@ADDR BEFORE->AFTER, not {words:?}")
    };
    let (len, addr) = bytes.split_once('@').expect("len@addr");
    let (before, after) = change.split_once("->").expect("before->after");
    (
        pcs.split('|').map(|pc| names.resolve(pc)).collect(),
        access.to_owned(),
        (
            len.parse().expect("scenarios are well formed"),
            (addr != "?").then(|| names.resolve(addr)),
        ),
        names.value(before),
        names.value(after),
    )
}

fn found(scenario: &Scenario<'_>, names: &Names<'_>, code: &Loaded<'_>) -> Vec<Row> {
    let facts = |name: &'static str| {
        let named = scenario.facts.iter().filter(move |(fact, _)| *fact == name);
        named.map(|(_, value)| *value)
    };
    let mut registers = registers(facts("regs").next().unwrap_or_default(), names);
    let died = facts("died").next().map(|at| names.resolve(at));
    registers.rip = died.unwrap_or_else(|| names.resolve("next"));
    let locations: Vec<Location> = facts("watch").map(|words| location(words, names)).collect();
    let memory: Vec<Snapshot> = facts("memory").map(|words| snapshot(words, names)).collect();
    let stack_top = facts("stack").next().map(|word| names.resolve(word));
    let trap = Trap {
        registers: &registers,
        has_segment_bases: true,
        stack_top,
        watched: locations[0].addr,
        locations: &locations,
        report: match (died, facts("probe").next()) {
            (Some(_), _) => Report::Died,
            (None, Some(_)) => Report::Probe,
            (None, None) => Report::Watch,
        },
    };
    let moment = Moment {
        registers: &registers,
        stack_top,
        memory: &memory,
    };
    let accessors = access::find(&trap, code);
    let pcs: Vec<u64> = accessors.iter().map(|accessor| accessor.pc.0).collect();
    let first = accessors.first().into_iter();
    first
        .flat_map(|accessor| accessor.touches.iter().map(move |touch| (accessor, touch)))
        .map(|(accessor, touch)| {
            let change = values::change(accessor, touch, &locations[touch.location], &moment);
            let atomic = if touch.access.atomic { "a" } else { "" };
            (
                pcs.clone(),
                format!("{}{atomic}", touch.access),
                (touch.len, touch.addr.map(|addr| addr.0)),
                change.before,
                change.after,
            )
        })
        .collect()
}

fn check(text: &str) {
    let folder = Folder::new("scenarios");
    let scenarios = parse(text);
    assert!(!scenarios.is_empty());
    let (bytes, symbols) = assemble(&scenarios, &folder);
    let mut wrong = String::new();
    for bias in BIASES {
        let code = Code::new(Arc::new(Elf::parse(&bytes).expect("scenarios are well formed")));
        let loaded = Loaded { code, bias };
        for (number, scenario) in scenarios.iter().enumerate() {
            // A fixed address in an instruction does not move with the code.
            let fixed = scenario.code.iter().any(|line| line.contains("(,%"));
            let names = Names {
                symbols: &symbols,
                number,
                bias,
            };
            let expectations = scenario
                .facts
                .iter()
                .filter(|(fact, words)| *fact == "expect" && *words != "none");
            let want: Vec<Row> = expectations.map(|(_, words)| expected(words, &names)).collect();
            let got = found(scenario, &names, &loaded);
            if want != got && !(fixed && bias != 0) {
                writeln!(
                    wrong,
                    "{} (bias {bias:#x})\n  want {want:x?}\n  got  {got:x?}",
                    scenario.name
                )
                .expect("scenarios are well formed");
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn moves() {
    check(include_str!("../scenarios/moves.txt"));
}

#[test]
fn modify() {
    check(include_str!("../scenarios/modify.txt"));
}

#[test]
fn control() {
    check(include_str!("../scenarios/control.txt"));
}

#[test]
fn strings() {
    check(include_str!("../scenarios/strings.txt"));
}
