//! What can happen between two instructions.

use pt_driver_client::packet::Packet;

use super::Processor;

impl Processor<'_> {
    /// Something happens before an instruction; where the processor goes on, if not there.
    pub fn happen(&mut self, at: u64) -> Option<u64> {
        self.flush();
        self.timings();
        let to = self.entry();
        match self.pick(11) {
            0 => {
                self.fup(at);
                let shown = (self.pick(2) == 0).then_some(to);
                self.disable(shown);
                return Some(self.enable());
            }
            1 => {
                self.fup(at);
                if self.pick(2) == 0 {
                    self.emit(Packet::Pip {
                        cr3: 0x8000,
                        non_root: false,
                    });
                }
                self.change_mode();
            }
            2 => {
                self.psb(Some(at));
                self.decide();
                return None;
            }
            3 => return Some(self.overflow()),
            4 => {
                self.emit(Packet::ModeTsx {
                    inside: true,
                    aborted: false,
                });
                self.fup(at);
                self.decide();
                return None;
            }
            5 => {
                self.emit(Packet::ModeTsx {
                    inside: false,
                    aborted: true,
                });
                self.fup(at);
                self.timings();
            }
            6 => {
                if self.pick(2) == 0 {
                    self.emit(Packet::EventData {
                        kind: 0,
                        value: 0x1000,
                    });
                }
                self.emit(Packet::ControlFlowEvent {
                    kind: 1,
                    vector: 14,
                    ip: false,
                });
                self.fup(at);
            }
            7 => {
                // An SMI, whose FUP is its own.
                self.emit(Packet::ControlFlowEvent {
                    kind: 3,
                    vector: 0,
                    ip: true,
                });
                self.fup(at);
                self.decide();
                return None;
            }
            8 => {
                self.emit(Packet::Mwait {
                    hints: 0,
                    extensions: 0,
                });
                self.emit(Packet::ExStop { ip: true });
                self.fup(at);
                self.emit(Packet::PwrEntry {
                    state: 3,
                    sub_state: 0,
                    hardware: true,
                });
                self.emit(Packet::PwrExit {
                    last: 3,
                    deepest: 3,
                    reason: 1,
                });
                self.decide();
                return None;
            }
            9 => {
                self.emit(Packet::ExStop { ip: false });
                return None;
            }
            _ => {
                self.timings();
                return None;
            }
        }
        self.calls.clear();
        self.tip(to);
        Some(to)
    }
}
