//! What packets there are.

/// A packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packet {
    /// Nothing.
    Pad,
    /// Begins a group of packets that tell the whole state: a decoder can begin here.
    Psb,
    /// Ends that group.
    PsbEnd,
    /// Outcomes of conditional branches and compressed returns.
    Tnt(Tnt),
    /// Where an indirect branch, a return, an interrupt goes.
    Tip(IpPayload),
    /// Tracing is switched on, and where.
    TipPge(IpPayload),
    /// Tracing is switched off; where the branch that did it goes.
    TipPgd(IpPayload),
    /// Where something asynchronous happened.
    Fup(IpPayload),
    /// The width of code from the next TIP on.
    ModeExec {
        /// The width.
        mode: ExecMode,
        /// Whether interrupts are on.
        interrupts: bool,
    },
    /// A transaction begins, ends or is aborted.
    ModeTsx {
        /// Inside a transaction.
        inside: bool,
        /// It was aborted.
        aborted: bool,
    },
    /// Another address space.
    Pip {
        /// CR3 without its low five bits.
        cr3: u64,
        /// In a virtual machine.
        non_root: bool,
    },
    /// Another virtual machine.
    Vmcs {
        /// Address of its control structure.
        base: u64,
    },
    /// The core's frequency as a multiple of the bus's.
    Cbr {
        /// The multiple.
        ratio: u8,
    },
    /// The timestamp counter, 56 bits of it.
    Tsc(u64),
    /// How the crystal's clock stood at the last TSC.
    Tma {
        /// The low 16 bits of the crystal's clock.
        ctc: u16,
        /// Ticks of the fast counter since then, 9 bits.
        fast: u16,
    },
    /// Eight bits of the crystal's clock.
    Mtc(u8),
    /// Cycles since the last CYC.
    Cyc(u64),
    /// For the maker of the processor.
    Mnt(u64),
    /// Packets were lost.
    Overflow,
    /// Tracing has stopped for good.
    TraceStop,
    /// Execution stopped (a sleep state).
    ExStop {
        /// A FUP tells where.
        ip: bool,
    },
    /// An MWAIT that went to a deeper state than C0.
    Mwait {
        /// EAX.
        hints: u32,
        /// ECX.
        extensions: u32,
    },
    /// Entry into a sleep state.
    PwrEntry {
        /// The state.
        state: u8,
        /// Its kind.
        sub_state: u8,
        /// The hardware decided it.
        hardware: bool,
    },
    /// The end of a sleep state.
    PwrExit {
        /// The last state.
        last: u8,
        /// The deepest state.
        deepest: u8,
        /// What woke it: four bits.
        reason: u8,
    },
    /// The operand of a PTWRITE instruction.
    Ptw {
        /// The operand.
        value: u64,
        /// Eight bytes, not four.
        wide: bool,
        /// A FUP tells where.
        ip: bool,
    },
    /// Begins a block of items (events-based sampling through PT).
    BlockBegin {
        /// The type of the block, five bits.
        kind: u8,
        /// Items have four bytes, not eight.
        short: bool,
    },
    /// An item of such a block.
    BlockItem {
        /// Which, five bits.
        id: u8,
        /// Its value.
        value: u64,
        /// Four bytes, not eight.
        short: bool,
    },
    /// Ends such a block.
    BlockEnd {
        /// A FUP tells where.
        ip: bool,
    },
    /// An interrupt, return from one, VM exit and so on.
    ControlFlowEvent {
        /// What, five bits.
        kind: u8,
        /// The vector.
        vector: u8,
        /// A FUP tells where.
        ip: bool,
    },
    /// Data of the control-flow event that follows.
    EventData {
        /// What, six bits.
        kind: u8,
        /// The data.
        value: u64,
    },
}

impl Packet {
    /// Whether it only tells the time, or how fast it goes by.
    #[must_use]
    pub fn is_timing(self) -> bool {
        matches!(
            self,
            Self::Tsc(_) | Self::Tma { .. } | Self::Mtc(_) | Self::Cyc(_) | Self::Cbr { .. }
        )
    }
}

/// Outcomes of branches, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tnt {
    /// The outcomes, the youngest in bit 0: 1 is taken.
    pub bits: u64,
    /// How many: 1 to 6 in a short packet, 1 to 47 in a long one.
    pub count: u8,
    /// The long form.
    pub long: bool,
}

/// How an address is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    Suppressed,
    /// Its low 16 bits; the rest as in the last address.
    Update16,
    /// Its low 32 bits.
    Update32,
    /// Its low 48 bits, sign-extended.
    SignExtend48,
    /// Its low 48 bits; the rest as in the last address.
    Update48,
    /// All of it.
    Full,
}

impl Compression {
    /// From the three bits of a packet's header.
    #[must_use]
    pub fn of(bits: u8) -> Option<Self> {
        match bits {
            0 => Some(Self::Suppressed),
            1 => Some(Self::Update16),
            2 => Some(Self::Update32),
            3 => Some(Self::SignExtend48),
            4 => Some(Self::Update48),
            6 => Some(Self::Full),
            _ => None,
        }
    }

    /// The three bits of a packet's header.
    #[must_use]
    pub fn bits(self) -> u8 {
        match self {
            Self::Suppressed => 0,
            Self::Update16 => 1,
            Self::Update32 => 2,
            Self::SignExtend48 => 3,
            Self::Update48 => 4,
            Self::Full => 6,
        }
    }

    /// How many bytes of address follow the header.
    #[must_use]
    pub fn size(self) -> usize {
        match self {
            Self::Suppressed => 0,
            Self::Update16 => 2,
            Self::Update32 => 4,
            Self::SignExtend48 | Self::Update48 => 6,
            Self::Full => 8,
        }
    }
}

/// An address as a packet has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IpPayload {
    /// How it is written.
    pub compression: Compression,
    /// The bits that are there.
    pub bits: u64,
}

impl IpPayload {
    /// No address.
    pub const SUPPRESSED: Self = Self {
        compression: Compression::Suppressed,
        bits: 0,
    };

    /// The address, given the last one; `None` when it is not told.
    #[must_use]
    pub fn resolve(self, last: u64) -> Option<u64> {
        let low = |width: u32| {
            let mask = (1_u64 << width) - 1;
            (last & !mask) | (self.bits & mask)
        };
        match self.compression {
            Compression::Suppressed => None,
            Compression::Update16 => Some(low(16)),
            Compression::Update32 => Some(low(32)),
            Compression::Update48 => Some(low(48)),
            Compression::SignExtend48 => Some(((self.bits << 16).cast_signed() >> 16).cast_unsigned()),
            Compression::Full => Some(self.bits),
        }
    }
}

/// The width of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum ExecMode {
    /// 16 bits.
    Bits16,
    /// 32 bits.
    Bits32,
    /// 64 bits.
    #[default]
    Bits64,
}
