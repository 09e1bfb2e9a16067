//! Riding along in a run: which stops are steps, gates or somebody else's.

use failure::report::Report;
use tracee::Tid;
use tracee::bpf::STOPPED_BY;
use tracee::ptrace::{Launched, SigInfo, Stop, Tracer};
use tracee::run::{Handled, TrackError, Tracker};

use super::SingleStep;

impl Tracker for SingleStep {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        self.close();
        self.arm(tracer.pid())
    }

    fn signal(
        &mut self,
        tracer: &mut Tracer<Launched>,
        stop: &Stop,
        info: &SigInfo,
    ) -> Result<Handled, TrackError> {
        let at = self.threads.get(&stop.tid).and_then(|thread| thread.at);
        let from = match (info.signal().0, info.code()) {
            (STOPPED_BY, SI_KERNEL) => match (at, self.gate(stop.tid)) {
                // It came by in a step, which is told by itself.
                (Some(_), Some(_)) => return Ok(Handled::Taken),
                (None, Some(gate)) => {
                    self.come_to(stop.tid, gate);
                    gate
                }
                (_, None) => return Ok(Handled::Passed),
            },
            // The end of a step over an instruction that the kernel had executed elsewhere.
            (SIGTRAP, SI_USER) => match at {
                Some(at) => at,
                None => return Ok(Handled::Passed),
            },
            _ => return Ok(Handled::Passed),
        };
        // It may have been killed meanwhile.
        if let Ok(registers) = tracer.registers(stop.tid) {
            self.advance(stop.tid, from, registers.rip);
        }
        Ok(Handled::Taken)
    }

    fn steps(&self, tid: Tid) -> bool {
        self.threads.get(&tid).is_some_and(|thread| thread.at.is_some())
    }

    fn stepped(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        let from = self.threads.get(&tid).and_then(|thread| thread.at);
        if let (Some(from), Ok(registers)) = (from, tracer.registers(tid)) {
            self.advance(tid, from, registers.rip);
        }
        Ok(())
    }

    fn failing(&mut self, tracer: &mut Tracer<Launched>, _: &Report) -> Result<(), TrackError> {
        if self.over {
            return Ok(());
        }
        let pid = tracer.pid();
        let tids: Vec<Tid> = tracer
            .threads()
            .filter(|(of, _)| *of == pid)
            .map(|(_, tid)| tid)
            .collect();
        for tid in tids {
            let Ok(registers) = tracer.registers(tid) else {
                continue;
            };
            let at = self.threads.get(&tid).and_then(|thread| thread.at);
            // One that was caught and then interrupted with everybody else gets its signal only later.
            let gate = self.gate(tid).filter(|_| at.is_none());
            if let Some(gate) = gate {
                self.come_to(tid, gate);
            }
            if let Some(from) = at.or(gate) {
                self.advance(tid, from, registers.rip);
            }
        }
        for thread in self.threads.values_mut() {
            if let Some(at) = thread.away_from.or(thread.at) {
                thread.off_before(at);
            }
        }
        self.over = true;
        Ok(())
    }
}

/// Who sends a signal: the kernel on behalf of a gate, or, after a step that it made out of line, on its own.
const SIGTRAP: i32 = 5;
const SI_KERNEL: i32 = 0x80;
const SI_USER: i32 = 0;
