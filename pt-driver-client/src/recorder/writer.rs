//! What one thread did, written down as the processor would: PSB+, TIP.PGE, TNT, TIP, TIP.PGD, TSC, OVF.

use crate::packet::{Compression, ExecMode, IpPayload, PSB, Packet, Tnt, encode, next_psb};

/// So many bytes after a PSB, the next one: decoding can begin at any of them, and what is dropped is dropped from
/// one to another.
const PSB_PERIOD: usize = 4096;

/// Outcomes in the longest TNT packet of one byte.
const SHORT_TNT: u8 = 6;

/// Writes the packets of one thread. Returns are never compressed: a decoder needs no calls to follow them.
#[derive(Debug, Default)]
pub(crate) struct PacketWriter {
    bytes: Vec<u8>,
    /// Outcomes that wait for a packet, the youngest in bit 0.
    outcomes: u8,
    waiting: u8,
    last_ip: u64,
    last_time: u64,
    last_psb: usize,
    limit: Option<usize>,
    dropped: u64,
}

/// A thread's packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub bytes: Vec<u8>,
    pub dropped: u64,
}

impl PacketWriter {
    /// A writer that keeps about so many of the last bytes.
    pub fn keeping(limit: Option<usize>) -> Self {
        Self {
            limit,
            ..Self::default()
        }
    }

    /// The time of what follows.
    pub fn time(&mut self, ticks: u64) {
        if ticks > self.last_time {
            self.last_time = ticks;
            if !self.bytes.is_empty() {
                self.put(Packet::Tsc(ticks));
            }
        }
    }

    /// Tracing goes on here. While it is off, this is where a new PSB costs nothing.
    pub fn enable(&mut self, ip: u64) {
        self.synchronise(None);
        self.address(Packet::TipPge, ip);
    }

    /// A conditional branch inside the traced code, and the address that it led to.
    pub fn outcome(&mut self, taken: bool, now_at: u64) {
        self.outcomes = self.outcomes << 1 | u8::from(taken);
        self.waiting += 1;
        if self.waiting == SHORT_TNT {
            self.flush();
        }
        self.synchronise(Some(now_at));
    }

    /// An indirect branch inside the traced code.
    pub fn target(&mut self, ip: u64) {
        self.address(Packet::Tip, ip);
        self.synchronise(Some(ip));
    }

    /// A branch left the traced code.
    pub fn disable(&mut self, ip: u64) {
        self.address(Packet::TipPgd, ip);
    }

    /// A system call, or something like it.
    pub fn disable_far(&mut self) {
        self.put(Packet::TipPgd(IpPayload::SUPPRESSED));
    }

    /// Tracing ended before the instruction at this address, without a branch.
    pub fn disable_before(&mut self, ip: u64) {
        self.address(Packet::Fup, ip);
        self.put(Packet::TipPgd(IpPayload::SUPPRESSED));
    }

    /// Packets are missing here. Tracing is off.
    pub fn overflow(&mut self) {
        self.synchronise(None);
        self.put(Packet::Overflow);
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Everything that was written and kept.
    pub fn finish(mut self) -> Written {
        self.flush();
        Written {
            bytes: self.bytes,
            dropped: self.dropped,
        }
    }

    /// Writes a PSB+ if it is time for one. `at` is where the thread is, if it is traced.
    fn synchronise(&mut self, at: Option<u64>) {
        if !self.bytes.is_empty() && self.bytes.len() - self.last_psb < PSB_PERIOD {
            return;
        }
        self.flush();
        self.keep_to_limit();
        self.last_psb = self.bytes.len();
        self.put(Packet::Psb);
        self.last_ip = 0;
        if self.last_time > 0 {
            self.put(Packet::Tsc(self.last_time));
        }
        self.put(Packet::ModeExec {
            mode: ExecMode::Bits64,
            interrupts: false,
        });
        if let Some(ip) = at {
            self.address(Packet::Fup, ip);
        }
        self.put(Packet::PsbEnd);
    }

    /// Drops the first half of what there is, up to a PSB, when it is more than the limit.
    fn keep_to_limit(&mut self) {
        let Some(limit) = self.limit.filter(|&limit| self.bytes.len() > limit) else {
            return;
        };
        let enough = self.bytes.len() - limit / 2;
        let psb = next_psb(&self.bytes, enough.saturating_sub(PSB_PERIOD + PSB.len()));
        if let Some(psb) = psb {
            self.bytes.drain(..psb);
            self.dropped += psb as u64;
        }
    }

    fn flush(&mut self) {
        if self.waiting > 0 {
            let tnt = Tnt {
                bits: self.outcomes.into(),
                count: self.waiting,
                long: false,
            };
            self.waiting = 0;
            self.outcomes = 0;
            encode(Packet::Tnt(tnt), &mut self.bytes);
        }
    }

    fn put(&mut self, packet: Packet) {
        self.flush();
        encode(packet, &mut self.bytes);
    }

    fn address(&mut self, packet: fn(IpPayload) -> Packet, ip: u64) {
        let same_above = |bits: u32| ip >> bits == self.last_ip >> bits;
        let compression = if same_above(16) {
            Compression::Update16
        } else if same_above(32) {
            Compression::Update32
        } else {
            // User space has 47 bits; with five levels of page tables, more.
            match ip >> 47 {
                0 => Compression::SignExtend48,
                _ => Compression::Full,
            }
        };
        self.last_ip = ip;
        self.put(packet(IpPayload {
            compression,
            bits: ip,
        }));
    }
}
