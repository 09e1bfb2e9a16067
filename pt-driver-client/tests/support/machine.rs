//! Random programs, and a machine that runs them at random and traces itself.

use proptest::prelude::*;
use pt_driver_client::packet::{Compression, ExecMode, IpPayload, Packet, Tnt, encode};

pub const BASE: u64 = 0x55_5555_5000;

/// How a block of a random program ends; targets are numbers of blocks.
#[derive(Debug, Clone, Copy)]
pub enum Ending {
    Falls,
    Cond(usize),
    Jump(usize),
    Call(usize),
    IndirectJump,
    IndirectCall,
    Return,
    System,
}

/// A program: instructions of each block besides its ending, and the ending.
#[derive(Debug, Clone)]
pub struct Program {
    pub blocks: Vec<(Vec<usize>, Ending)>,
}

/// What the machine does at a point where it can choose.
pub type Choices = Vec<u16>;

/// Instructions that lead to the next one.
const PLAIN: [&[u8]; 11] = [
    &[0x90],
    &[0x48, 0x89, 0xe5],
    &[0x8b, 0x45, 0xfc],
    &[0x48, 0x8b, 0x04, 0x25, 0, 0, 0, 0],
    &[0x66, 0x0f, 0x1f, 0x44, 0, 0],
    &[0x48, 0xb8, 1, 2, 3, 4, 5, 6, 7, 8],
    &[0xc5, 0xf8, 0x77],
    &[0xf3, 0x0f, 0x1e, 0xfa],
    &[0x66, 0xb8, 1, 2],
    &[0xf7, 0x44, 0x24, 0x08, 1, 0, 0, 0],
    &[0xf3, 0x0f, 0xae, 0xe0],
];

pub fn programs() -> impl Strategy<Value = Program> {
    let ending = |count: usize| {
        prop_oneof![
            1 => Just(Ending::Falls),
            6 => (0..count).prop_map(Ending::Cond),
            1 => (0..count).prop_map(Ending::Jump),
            3 => (0..count).prop_map(Ending::Call),
            1 => Just(Ending::IndirectJump),
            1 => Just(Ending::IndirectCall),
            3 => Just(Ending::Return),
            1 => Just(Ending::System),
        ]
    };
    (2_usize..40).prop_flat_map(move |count| {
        let block = (prop::collection::vec(0..PLAIN.len(), 0..6), ending(count));
        prop::collection::vec(block, count).prop_map(closed)
    })
}

/// Makes a program stay inside itself, and without circles that need no packet: of those a trace does not tell how
/// often they ran.
fn closed(mut blocks: Vec<(Vec<usize>, Ending)>) -> Program {
    let last = blocks.len() - 1;
    for (index, (_, ending)) in blocks.iter_mut().enumerate() {
        let forward = |target: usize| index + 1 + target % (last - index).max(1);
        *ending = match *ending {
            _ if index == last => Ending::System,
            Ending::Jump(target) => Ending::Jump(forward(target)),
            Ending::Call(target) => Ending::Call(forward(target)),
            other => other,
        };
    }
    Program { blocks }
}

#[derive(Debug, Clone, Copy)]
struct Placed {
    start: u64,
    end: u64,
    ending: Ending,
}

/// A program in memory.
#[derive(Debug)]
pub struct Code {
    pub bytes: Vec<u8>,
    blocks: Vec<Placed>,
    instructions: Vec<Vec<u64>>,
}

fn ending_size(ending: Ending) -> u64 {
    match ending {
        Ending::Falls => 0,
        Ending::Cond(_) => 6,
        Ending::Jump(_) | Ending::Call(_) => 5,
        Ending::IndirectJump | Ending::IndirectCall | Ending::System => 2,
        Ending::Return => 1,
    }
}

impl Code {
    pub fn new(program: &Program) -> Self {
        let mut starts = Vec::new();
        let mut at = BASE;
        for (plain, ending) in &program.blocks {
            starts.push(at);
            at += plain.iter().map(|&index| PLAIN[index].len() as u64).sum::<u64>() + ending_size(*ending);
        }
        let mut code = Self {
            bytes: Vec::new(),
            blocks: Vec::new(),
            instructions: Vec::new(),
        };
        for (index, (plain, ending)) in program.blocks.iter().enumerate() {
            let mut at = starts[index];
            let mut instructions = Vec::new();
            for &plain in plain {
                instructions.push(at);
                code.bytes.extend_from_slice(PLAIN[plain]);
                at += PLAIN[plain].len() as u64;
            }
            let end = at + ending_size(*ending);
            let relative = |target: usize| (starts[target].wrapping_sub(end) as u32).to_le_bytes();
            match *ending {
                Ending::Falls => {}
                Ending::Cond(target) => code
                    .bytes
                    .extend([0x0f, 0x85].into_iter().chain(relative(target))),
                Ending::Jump(target) => code.bytes.extend([0xe9].into_iter().chain(relative(target))),
                Ending::Call(target) => code.bytes.extend([0xe8].into_iter().chain(relative(target))),
                Ending::IndirectJump => code.bytes.extend([0xff, 0xe1]),
                Ending::IndirectCall => code.bytes.extend([0xff, 0xd1]),
                Ending::Return => code.bytes.push(0xc3),
                Ending::System => code.bytes.extend([0x0f, 0x05]),
            }
            if ending_size(*ending) > 0 {
                instructions.push(at);
            }
            code.instructions.push(instructions);
            code.blocks.push(Placed {
                start: starts[index],
                end,
                ending: *ending,
            });
        }
        code
    }
}

impl Code {
    /// Where its blocks start.
    pub fn starts(&self) -> impl Iterator<Item = u64> + '_ {
        self.blocks.iter().map(|block| block.start)
    }
}

/// A run of a program, and its trace.
#[derive(Debug, Default)]
pub struct Run {
    pub ran: Vec<u64>,
    pub trace: Vec<u8>,
}

struct Machine<'a> {
    code: &'a Code,
    choices: std::slice::Iter<'a, u16>,
    run: Run,
    outcomes: Vec<bool>,
    /// TIPs that wait for the outcomes to be written.
    deferred: Vec<u64>,
    last_ip: u64,
    calls: Vec<usize>,
    compressed: bool,
}

/// Runs a program until the choices are used up or it ends.
pub fn run(code: &Code, choices: &Choices, compressed: bool) -> Run {
    let mut machine = Machine {
        code,
        choices: choices.iter(),
        run: Run::default(),
        outcomes: Vec::new(),
        deferred: Vec::new(),
        last_ip: 0,
        calls: Vec::new(),
        compressed,
    };
    machine.psb(None);
    machine.enable(0);
    machine.go();
    machine.run
}

impl Machine<'_> {
    fn emit(&mut self, packet: Packet) {
        encode(packet, &mut self.run.trace);
    }

    fn payload(&mut self, ip: u64, choice: u16) -> IpPayload {
        let fits = |bits: u32| self.last_ip >> bits == ip >> bits;
        let compression = match choice % 4 {
            0 if fits(16) => Compression::Update16,
            0 | 1 if fits(32) => Compression::Update32,
            2 if fits(48) => Compression::Update48,
            3 => Compression::Full,
            _ => Compression::SignExtend48,
        };
        self.last_ip = ip;
        let size = compression.size() as u32 * 8;
        let bits = if size == 64 { ip } else { ip & ((1 << size) - 1) };
        IpPayload { compression, bits }
    }

    fn flush(&mut self) {
        if !self.outcomes.is_empty() {
            let bits = self
                .outcomes
                .iter()
                .fold(0, |bits, &taken| bits << 1 | u64::from(taken));
            let count = self.outcomes.len() as u8;
            let long = count > 6;
            self.emit(Packet::Tnt(Tnt { bits, count, long }));
            self.outcomes.clear();
        }
        for ip in std::mem::take(&mut self.deferred) {
            let payload = self.payload(ip, 0);
            self.emit(Packet::Tip(payload));
        }
    }

    fn outcome(&mut self, taken: bool, choice: u16) {
        self.outcomes.push(taken);
        let most = if choice % 32 == 1 { 47 } else { 6 };
        if self.outcomes.len() >= most {
            self.flush();
        }
    }

    fn psb(&mut self, ip: Option<u64>) {
        self.flush();
        self.emit(Packet::Psb);
        self.emit(Packet::Tsc(self.run.ran.len() as u64));
        self.emit(Packet::ModeExec {
            mode: ExecMode::Bits64,
            interrupts: true,
        });
        self.last_ip = 0;
        if let Some(ip) = ip {
            let payload = self.payload(ip, 3);
            self.emit(Packet::Fup(payload));
        }
        self.emit(Packet::PsbEnd);
        // The processor forgets its calls at PSB.
        self.calls.clear();
    }

    fn enable(&mut self, block: usize) {
        let payload = self.payload(self.code.blocks[block].start, 1);
        self.emit(Packet::TipPge(payload));
    }

    fn disable(&mut self, ip: Option<u64>) {
        self.flush();
        let payload = match ip {
            Some(ip) => self.payload(ip, 0),
            None => IpPayload::SUPPRESSED,
        };
        self.emit(Packet::TipPgd(payload));
    }

    fn target(&mut self, ip: u64, choice: u16) {
        if !self.outcomes.is_empty() && choice % 8 == 5 {
            self.deferred.push(ip);
        } else {
            self.flush();
            let payload = self.payload(ip, choice >> 3);
            self.emit(Packet::Tip(payload));
        }
    }

    fn go(&mut self) {
        let mut block = 0;
        while let Some(&choice) = self.choices.next() {
            let Placed { start, end, ending } = self.code.blocks[block];
            let other = usize::from(choice >> 4) % self.code.blocks.len();
            let to = self.code.blocks[other].start;
            if choice % 16 == 9 {
                let instructions = &self.code.instructions[block];
                let before = usize::from(choice >> 4) % (instructions.len() + 1);
                let Some(&from) = instructions.get(before) else {
                    continue;
                };
                self.run.ran.extend_from_slice(&instructions[..before]);
                self.flush();
                let payload = self.payload(from, choice >> 6);
                match choice >> 4 & 3 {
                    0 => {
                        self.emit(Packet::Fup(payload));
                        self.disable(None);
                        self.enable(other);
                    }
                    1 => {
                        self.emit(Packet::Fup(payload));
                        let payload = self.payload(to, 0);
                        self.emit(Packet::Tip(payload));
                    }
                    2 => {
                        self.psb(Some(from));
                        // The rest of the block follows: an interrupt at the same place leaves it.
                        let payload = self.payload(from, 0);
                        self.emit(Packet::Fup(payload));
                        let payload = self.payload(to, 0);
                        self.emit(Packet::Tip(payload));
                    }
                    _ => {
                        self.emit(Packet::Cbr { ratio: 8 });
                        self.emit(Packet::Fup(payload));
                        let payload = self.payload(to, 2);
                        self.emit(Packet::Tip(payload));
                    }
                }
                block = other;
                continue;
            }
            if choice % 64 == 7 {
                self.psb(Some(start));
            }
            self.run.ran.extend_from_slice(&self.code.instructions[block]);
            let after = block + 1;
            let next = match ending {
                Ending::Falls => after,
                Ending::Cond(target) => {
                    let taken = choice & 1 == 0;
                    self.outcome(taken, choice >> 4);
                    if taken { target } else { after }
                }
                Ending::Jump(target) => target,
                Ending::Call(target) => {
                    if self.code.blocks[target].start != end {
                        self.remember(after);
                    }
                    target
                }
                Ending::IndirectJump => {
                    self.target(to, choice);
                    other
                }
                Ending::IndirectCall => {
                    self.remember(after);
                    self.target(to, choice);
                    other
                }
                Ending::Return => match self.calls.pop() {
                    // Behind deferred TIPs nothing may be left out.
                    Some(caller) if self.compressed && self.deferred.is_empty() => {
                        self.outcome(true, choice >> 4);
                        caller
                    }
                    _ => {
                        // An address is told for calls that were forgotten.
                        self.calls.clear();
                        self.flush();
                        let payload = self.payload(to, choice);
                        self.emit(Packet::Tip(payload));
                        other
                    }
                },
                Ending::System => {
                    self.disable((choice & 1 == 0).then_some(0xffff_ffff_8000_0000));
                    self.enable(other);
                    other
                }
            };
            block = next;
        }
        let at = self.code.blocks[block];
        self.flush();
        // Stops before the block, by an interrupt.
        let payload = self.payload(at.start, 0);
        self.emit(Packet::Fup(payload));
        self.emit(Packet::TipPgd(IpPayload::SUPPRESSED));
    }

    fn remember(&mut self, after: usize) {
        self.calls.push(after);
        if self.calls.len() > 64 {
            self.calls.remove(0);
        }
    }
}
