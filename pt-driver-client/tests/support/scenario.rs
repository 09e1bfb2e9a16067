//! Scenario files: code, packets and what they mean, in one text.
//!
//!     # what it is about
//!     erratum bdm70           (of the processor, if any)
//!     filter 0x1000 0x1fff    (first and last address that are traced, if it has one)
//!     code 0x1000
//!     start: nop
//!            je   there
//!     packets
//!     psb
//!     tip.pge 3 start         (the number is the IP compression, as in the packet)
//!     tnt tn                  (oldest first)
//!     flow
//!     start..there            (lines of code, from one label to another)
//!     gap overflow            (the start of the reason's name)
//!
//! The synthesiser here knows instructions and packets from the manual and shares nothing with the decoder.

use std::collections::HashMap;

use pt_driver_client::config::{Config, Erratum, Filter};

/// A scenario, ready to be decoded.
#[derive(Debug, Default)]
pub struct Scenario {
    pub base: u64,
    pub code: Vec<u8>,
    pub trace: Vec<u8>,
    pub flow: Vec<Expected>,
    /// What libipt says instead, and why that is known to be so.
    pub libipt: Option<Vec<Expected>>,
    pub config: Config,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Expected {
    Ran(u64),
    Gap(String),
}

struct Line {
    labels: Vec<String>,
    words: Vec<String>,
    address: u64,
}

pub fn read(text: &str) -> Scenario {
    let mut scenario = Scenario::default();
    let (mut lines, mut section) = (Vec::new(), String::new());
    let mut labels = HashMap::new();
    let mut pending = Vec::new();
    for raw in text.lines() {
        let line = raw.split('#').next().unwrap_or_default().trim();
        let words: Vec<&str> = line.split_whitespace().collect();
        match words.as_slice() {
            [] => {}
            ["erratum", name] => {
                let named = |erratum: &Erratum| format!("{erratum:?}").to_lowercase() == *name;
                let erratum = Erratum::ALL.into_iter().find(named);
                scenario.config.errata = erratum.into_iter().collect();
                assert!(erratum.is_some(), "no erratum {name}");
            }
            ["filter", first, last] => {
                let mut filter = Filter::default();
                filter.ranges[0] = Some((number(first), number(last)));
                scenario.config.filter = Some(filter);
            }
            ["code", base] => {
                section = "code".to_owned();
                scenario.base = number(base);
            }
            ["packets" | "flow" | "libipt"] => {
                if section == "code" {
                    assemble(&mut scenario, &mut lines, &mut labels);
                }
                section = words[0].to_owned();
                if section == "libipt" {
                    scenario.libipt = Some(Vec::new());
                }
            }
            _ if section == "code" => {
                let mut words = words;
                while let Some(label) = words.first().and_then(|word| word.strip_suffix(':')) {
                    pending.push(label.to_owned());
                    words.remove(0);
                }
                if !words.is_empty() {
                    lines.push(Line {
                        labels: std::mem::take(&mut pending),
                        words: words.into_iter().map(str::to_owned).collect(),
                        address: 0,
                    });
                }
            }
            _ if section == "packets" => packet(&words, &labels, &mut scenario.trace),
            _ => {
                let expected = expected(&words, &lines, &labels);
                let list = match (&mut scenario.libipt, section.as_str()) {
                    (Some(list), "libipt") => list,
                    _ => &mut scenario.flow,
                };
                list.extend(expected);
            }
        }
    }
    scenario
}

fn number(word: &str) -> u64 {
    let parsed = match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => word.parse(),
    };
    parsed.unwrap_or_else(|_| panic!("not a number: {word}"))
}

fn place(word: &str, labels: &HashMap<String, u64>) -> u64 {
    labels.get(word).copied().unwrap_or_else(|| number(word))
}

fn size(words: &[String]) -> usize {
    match words[0].as_str() {
        "nop" | "ret" | "int3" | "hlt" => 1,
        "syscall" | "jmp*" | "call*" | "iretq" | "loop" | "jmp.short" => 2,
        "movcr3" | "vmlaunch" => 3,
        "ptwrite" => 4,
        "jmp" | "call" => 5,
        "je" => 6,
        "bytes" => words.len() - 1,
        "skip" => number(&words[1]) as usize,
        other => panic!("unknown instruction {other}"),
    }
}

fn assemble(scenario: &mut Scenario, lines: &mut [Line], labels: &mut HashMap<String, u64>) {
    let mut address = scenario.base;
    for line in lines.iter_mut() {
        line.address = address;
        for label in &line.labels {
            labels.insert(label.clone(), address);
        }
        address += size(&line.words) as u64;
    }
    for line in lines.iter() {
        let next = line.address + size(&line.words) as u64;
        let relative = || place(&line.words[1], labels).wrapping_sub(next);
        let long = || (relative() as u32).to_le_bytes();
        let code = &mut scenario.code;
        match line.words[0].as_str() {
            "nop" => code.push(0x90),
            "ret" => code.push(0xc3),
            "int3" => code.push(0xcc),
            "hlt" => code.push(0xf4),
            "syscall" => code.extend([0x0f, 0x05]),
            "jmp*" => code.extend([0xff, 0xe0]),
            "call*" => code.extend([0xff, 0xd0]),
            "iretq" => code.extend([0x48, 0xcf]),
            "movcr3" => code.extend([0x0f, 0x22, 0xd8]),
            "vmlaunch" => code.extend([0x0f, 0x01, 0xc2]),
            "ptwrite" => code.extend([0xf3, 0x0f, 0xae, 0xe0]),
            "loop" => code.extend([0xe2, relative() as u8]),
            "jmp.short" => code.extend([0xeb, relative() as u8]),
            "jmp" => code.extend([0xe9].into_iter().chain(long())),
            "call" => code.extend([0xe8].into_iter().chain(long())),
            "je" => code.extend([0x0f, 0x84].into_iter().chain(long())),
            "skip" => code.extend(std::iter::repeat_n(0x06, size(&line.words))),
            _ => code.extend(
                line.words[1..]
                    .iter()
                    .map(|byte| u8::from_str_radix(byte, 16).unwrap()),
            ),
        }
    }
}

fn expected(words: &[&str], lines: &[Line], labels: &HashMap<String, u64>) -> Vec<Expected> {
    if words[0] == "gap" {
        return vec![Expected::Gap(words[1..].join(" "))];
    }
    let mut list = Vec::new();
    for word in words {
        let (from, to) = word.split_once("..").unwrap_or((word, word));
        let (from, to) = (place(from, labels), place(to, labels));
        assert!(from <= to, "{word} goes backwards");
        let between = lines.iter().map(|line| line.address);
        list.extend(between.filter(|at| (from..=to).contains(at)).map(Expected::Ran));
    }
    list
}

fn packet(words: &[&str], labels: &HashMap<String, u64>, out: &mut Vec<u8>) {
    let value = |index: usize| number(words[index]);
    let mut bytes = |bytes: &[u8]| out.extend_from_slice(bytes);
    match words[0] {
        "raw" => words[1..]
            .iter()
            .for_each(|byte| bytes(&[u8::from_str_radix(byte, 16).unwrap()])),
        "pad" => bytes(&[0]),
        "psb" => (0..8).for_each(|_| bytes(&[2, 0x82])),
        "psbend" => bytes(&[2, 0x23]),
        "ovf" => bytes(&[2, 0xf3]),
        "stop" => bytes(&[2, 0x83]),
        "mode.64" => bytes(&[0x99, 1]),
        "mode.32" => bytes(&[0x99, 2]),
        "mode.tsx" => bytes(&[0x99, 0x20 | value(1) as u8]),
        "cbr" => bytes(&[2, 3, value(1) as u8, 0]),
        "mtc" => bytes(&[0x59, value(1) as u8]),
        "cyc" => bytes(&[(value(1) as u8) << 3 | 3]),
        "tma" => bytes(&[2, 0x73, 1, 0, 0, 2, 0]),
        "tsc" => {
            bytes(&[0x19]);
            bytes(&value(1).to_le_bytes()[..7]);
        }
        "pip" => {
            bytes(&[2, 0x43]);
            bytes(&(value(1) >> 5 << 1).to_le_bytes()[..6]);
        }
        "vmcs" => {
            bytes(&[2, 0xc8]);
            bytes(&(value(1) >> 12).to_le_bytes()[..5]);
        }
        "mnt" => bytes(&[2, 0xc3, 0x88, 0, 0, 0, 0, 0, 0, 0, 0]),
        "ptw" => bytes(&[2, 0x12, 1, 2, 3, 4]),
        "ptw.ip" => bytes(&[2, 0x92, 1, 2, 3, 4]),
        "exstop" => bytes(&[2, 0x62]),
        "exstop.ip" => bytes(&[2, 0xe2]),
        "mwait" => bytes(&[2, 0xc2, 0, 0, 0, 0, 0, 0, 0, 0]),
        "pwre" => bytes(&[2, 0x22, 0, 0x10]),
        "pwrx" => bytes(&[2, 0xa2, 0x11, 1, 0, 0, 0]),
        "cfe" => bytes(&[2, 0x13, value(1) as u8, 0x20]),
        "cfe.ip" => bytes(&[2, 0x13, value(1) as u8 | 0x80, 0x20]),
        "evd" => bytes(&[2, 0x53, value(1) as u8, 1, 2, 3, 4, 5, 6, 7, 8]),
        "bbp.4" => bytes(&[2, 0x63, 0x84]),
        "bbp.8" => bytes(&[2, 0x63, 4]),
        // Items whose content looks like other packets: outcomes, tracing off, a PSB.
        "bip.4" => bytes(&[(value(1) as u8) << 3 | 4, 6, 1, 2, 0x82]),
        "bip.8" => bytes(&[(value(1) as u8) << 3 | 4, 6, 1, 2, 0x82, 2, 0xf3, 0x41, 0x1d]),
        "bep" => bytes(&[2, 0x33]),
        "bep.ip" => bytes(&[2, 0xb3]),
        "tnt" => {
            let short = words[1]
                .chars()
                .fold(1, |bits, outcome| bits << 1 | u8::from(outcome == 't'));
            bytes(&[short << 1]);
        }
        "tnt.long" => {
            let long = words[1]
                .chars()
                .fold(1_u64, |bits, outcome| bits << 1 | u64::from(outcome == 't'));
            bytes(&[2, 0xa3]);
            bytes(&long.to_le_bytes()[..6]);
        }
        "tip" | "tip.pge" | "tip.pgd" | "fup" => {
            let header = match words[0] {
                "tip" => 0x0d,
                "tip.pge" => 0x11,
                "tip.pgd" => 0x01,
                _ => 0x1d,
            };
            let compression = value(1) as u8;
            let size = [0, 2, 4, 6, 6, 0, 8][usize::from(compression)];
            bytes(&[compression << 5 | header]);
            let address = words.get(2).map_or(0, |word| place(word, labels));
            bytes(&address.to_le_bytes()[..size]);
        }
        other => panic!("unknown packet {other}"),
    }
}
