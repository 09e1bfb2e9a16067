//! Tracing begins, ends and loses packets.

use pt_driver_client::packet::{IpPayload, Packet};

use super::Processor;

impl Processor<'_> {
    /// A call of code that is not traced: whatever can come then, until it returns.
    pub fn visit(&mut self, outside: u64, back: u64) -> u64 {
        self.disable(Some(outside));
        self.while_off();
        let payload = self.payload(back);
        self.emit(Packet::TipPge(payload));
        self.decide();
        back
    }

    /// Tracing is off: whatever can come then, until it is on again.
    pub fn enable(&mut self) -> u64 {
        self.while_off();
        self.change_mode();
        let to = self.entry();
        let payload = self.payload(to);
        self.emit(Packet::TipPge(payload));
        self.calls.clear();
        self.decide();
        to
    }

    fn while_off(&mut self) {
        for _ in 0..self.pick(4) {
            let packet = match self.pick(9) {
                0 => Packet::Pip {
                    cr3: 0x77_7000,
                    non_root: false,
                },
                1 => Packet::Vmcs { base: 0x9000 },
                2 => Packet::ModeTsx {
                    inside: false,
                    aborted: false,
                },
                3 => Packet::TraceStop,
                4 => Packet::PwrEntry {
                    state: 1,
                    sub_state: 0,
                    hardware: false,
                },
                5 => Packet::PwrExit {
                    last: 1,
                    deepest: 1,
                    reason: 1,
                },
                6 => Packet::Ptw {
                    value: 7,
                    wide: true,
                    ip: false,
                },
                7 => Packet::ControlFlowEvent {
                    kind: 1,
                    vector: 14,
                    ip: false,
                },
                _ => {
                    self.psb(None);
                    Packet::Pad
                }
            };
            self.emit(packet);
            self.timings();
        }
    }

    pub fn disable(&mut self, ip: Option<u64>) {
        self.flush();
        let payload = match ip {
            Some(ip) => self.payload(ip),
            None => IpPayload::SUPPRESSED,
        };
        self.emit(Packet::TipPgd(payload));
    }

    /// Packets were lost, and with them what ran since the last decision.
    pub fn overflow(&mut self) -> u64 {
        self.flush();
        self.run.ran.truncate(self.decided);
        self.run.overflows += 1;
        self.emit(Packet::Overflow);
        self.timings();
        self.last_ip = 0;
        // What a compressed return could come back to may have been lost.
        self.calls.clear();
        if self.pick(2) == 0 {
            return self.enable();
        }
        let to = self.entry();
        self.fup(to);
        self.decide();
        to
    }
}
