//! Packets, and how addresses and outcomes get into them.

use pt_driver_client::packet::{Compression, ExecMode, IpPayload, Packet, Tnt, encode};

use super::Processor;

impl Processor<'_> {
    pub fn emit(&mut self, packet: Packet) {
        encode(packet, &mut self.run.trace);
    }

    pub fn payload(&mut self, ip: u64) -> IpPayload {
        let fits = |bits: u32| self.last_ip >> bits == ip >> bits;
        let (fits_16, fits_32, fits_48) = (fits(16), fits(32), fits(48));
        let compression = match self.pick(4) {
            0 if fits_16 => Compression::Update16,
            0 | 1 if fits_32 => Compression::Update32,
            2 if fits_48 => Compression::Update48,
            3 => Compression::Full,
            _ => Compression::SignExtend48,
        };
        self.last_ip = ip;
        let size = compression.size() as u32 * 8;
        let bits = if size == 64 { ip } else { ip & ((1 << size) - 1) };
        IpPayload { compression, bits }
    }

    pub fn fup(&mut self, ip: u64) {
        let payload = self.payload(ip);
        self.emit(Packet::Fup(payload));
    }

    pub fn tip(&mut self, ip: u64) {
        let payload = self.payload(ip);
        self.emit(Packet::Tip(payload));
        self.decide();
    }

    pub fn flush(&mut self) {
        if self.outcomes.is_empty() {
            return;
        }
        let bits = self
            .outcomes
            .iter()
            .fold(0, |bits, &taken| bits << 1 | u64::from(taken));
        let count = self.outcomes.len() as u8;
        let long = count > 6 || self.pick(8) == 0;
        self.outcomes.clear();
        self.emit(Packet::Tnt(Tnt { bits, count, long }));
    }

    pub fn outcome(&mut self, taken: bool) {
        self.outcomes.push(taken);
        let most = if self.pick(16) == 0 { 47 } else { 6 };
        if self.outcomes.len() >= most {
            self.flush();
        }
        self.decide();
    }

    /// One packet that means nothing to what runs.
    fn timing(&mut self) {
        let value = self.pick(1 << 40);
        let packet = match self.pick(8) {
            0 => Packet::Tsc(value),
            1 => Packet::Mtc(value as u8),
            2 => Packet::Cyc(value >> 20),
            3 => Packet::Cyc(value & 0x1f),
            4 => Packet::Cbr {
                ratio: value as u8 | 1,
            },
            // TMA says how the crystal's clock stood at the TSC before it.
            5 => {
                self.emit(Packet::Tsc(value));
                Packet::Tma {
                    ctc: value as u16,
                    fast: value as u16 & 0x1ff,
                }
            }
            6 => Packet::Mnt(value),
            _ => Packet::Pad,
        };
        self.emit(packet);
    }

    pub fn timings(&mut self) {
        for _ in 0..self.pick(3) {
            self.timing();
        }
    }

    /// MODE.Exec before a TIP that changes the width, and now and then before one that does not.
    pub fn change_mode(&mut self) {
        let is_other = self.setup.narrow && self.pick(3) == 0;
        if !is_other && self.pick(3) != 0 {
            return;
        }
        if is_other {
            self.mode = match self.mode {
                ExecMode::Bits64 => ExecMode::Bits32,
                _ => ExecMode::Bits64,
            };
        }
        self.emit(Packet::ModeExec {
            mode: self.mode,
            interrupts: true,
        });
    }

    pub fn psb(&mut self, ip: Option<u64>) {
        self.flush();
        self.emit(Packet::Psb);
        self.timings();
        self.emit(Packet::ModeExec {
            mode: self.mode,
            interrupts: true,
        });
        if self.pick(2) == 0 {
            self.emit(Packet::ModeTsx {
                inside: false,
                aborted: false,
            });
        }
        if self.pick(2) == 0 {
            self.emit(Packet::Pip {
                cr3: 0x1234_5000,
                non_root: false,
            });
            self.emit(Packet::Vmcs { base: 0x5000 });
        }
        self.last_ip = 0;
        if let Some(ip) = ip {
            self.fup(ip);
        }
        self.timings();
        self.emit(Packet::PsbEnd);
        // The processor forgets its calls at PSB.
        self.calls.clear();
    }
}
