//! Riding along in a run: when probes are set, hits taken in, and threads ended.

use std::time::Duration;

use failure::report::Report;
use tracee::Tid;
use tracee::bpf::STOPPED_BY;
use tracee::ptrace::{Launched, SigInfo, Stop, Tracer};
use tracee::run::{Ended, Handled, TrackError, Tracker};

use super::SoftwarePt;
use super::live::follower;
use crate::recorder::{Recorder, Recording, Source};

const TICK: Duration = Duration::from_millis(10);

impl Tracker for SoftwarePt {
    fn started(&mut self, tracer: &mut Tracer<Launched>) -> Result<(), TrackError> {
        self.end_program();
        tracer.tell_end(tracer.pid().first_thread())?;
        self.attach(tracer.pid())
    }

    fn signal(
        &mut self,
        tracer: &mut Tracer<Launched>,
        stop: &Stop,
        info: &SigInfo,
    ) -> Result<Handled, TrackError> {
        const SIGTRAP: i32 = 5;
        const SI_KERNEL: i32 = 0x80;
        if matches!(
            (info.signal().0, info.code()),
            (SIGTRAP, _) | (STOPPED_BY, SI_KERNEL)
        ) {
            // Somebody's trap or probe, whom it does not interrupt.
            return Ok(Handled::Passed);
        }
        if self.over {
            return Ok(Handled::Passed);
        }
        let registers = tracer.registers(stop.tid);
        let limit = self.options.bytes_per_thread;
        if let (Some(live), Ok(registers)) = (&mut self.live, registers)
            && let Some(at) = live.placed.find(&self.layout, registers.rip)
        {
            self.drain()?;
            if let Some(live) = &mut self.live {
                follower(&mut live.followers, stop.tid, limit).signalled(at);
            }
        }
        Ok(Handled::Passed)
    }

    fn exiting(&mut self, tracer: &mut Tracer<Launched>, tid: Tid) -> Result<(), TrackError> {
        if self.over {
            return Ok(());
        }
        if let Ok(registers) = tracer.registers(tid) {
            self.drain()?;
            self.end_thread(tid, registers.rip);
        }
        Ok(())
    }

    fn tick(&mut self, _: &mut Tracer<Launched>) -> Result<(), TrackError> {
        self.drain()
    }

    fn period(&self) -> Option<Duration> {
        Some(TICK)
    }

    fn failing(&mut self, tracer: &mut Tracer<Launched>, _: &Report) -> Result<(), TrackError> {
        if self.over {
            return Ok(());
        }
        self.drain()?;
        let pid = tracer.pid();
        let threads: Vec<Tid> = tracer
            .threads()
            .filter(|(of, _)| *of == pid)
            .map(|(_, tid)| tid)
            .collect();
        for tid in threads {
            if let Ok(registers) = tracer.registers(tid) {
                self.end_thread(tid, registers.rip);
            }
        }
        self.over = true;
        Ok(())
    }

    fn ended(&mut self, _: Ended) {
        let _unprobed = self.drain();
    }
}

impl Recorder for SoftwarePt {
    fn source(&self) -> Source {
        Source::SoftwarePt
    }

    fn finish(self: Box<Self>) -> Recording {
        self.end()
    }
}
