//! Every packet that is not one of the frequent ones, and what it binds to.
//!
//! Some packets only announce: a FUP or TIP that follows says where.

use super::consumer::{Consumer, Event, Part, Why};
use super::decoder::{Known, State};
use super::memo::Outcomes;
use crate::code::block::UNKNOWN;
use crate::code::blocks::VM_ENTRY_SIZE;
use crate::config::{Config, Erratum};
use crate::packet::{IpPayload, Packet, PacketError, Tnt};

/// Kinds of control-flow events whose FUP, when they do not have one of their own, is an interrupt's.
const INTERRUPTING: [u8; 8] = [1, 3, 4, 5, 6, 8, 9, 12];

impl Known<'_> {
    /// Decodes the next packet. Whether that was the end.
    ///
    /// Apart from the fast packets: among so much code their loop would be translated with less care.
    #[inline(never)]
    pub fn slow<C: Consumer>(&mut self, state: &mut State<'_>, consumer: &mut C) -> Result<bool, Why> {
        let (packet, size) = match state.packet(state.position) {
            Ok(parsed) => parsed,
            Err(PacketError::End) => {
                self.finish(state, consumer);
                return Ok(true);
            }
            Err(error) => return Err(error.into()),
        };
        let mut next = state.position + size;
        match packet {
            Packet::Psb => return self.psb(state, next, consumer),
            Packet::Overflow => next = self.overflow(state, next, consumer)?,
            Packet::Tnt(tnt) => next = self.tnt(state, tnt, next, consumer)?,
            Packet::Tip(payload) => self.tip(state, payload, consumer)?,
            Packet::TipPge(payload) => self.enable(state, payload, consumer)?,
            Packet::TipPgd(payload) => self.disable(state, payload, consumer)?,
            Packet::Fup(payload) => self.fup(state, payload, consumer)?,
            Packet::ModeExec { mode, .. } => state.pending.mode = Some(mode),
            Packet::ModeTsx { aborted, .. } if state.enabled => {
                if aborted {
                    state.pending.shared_fup = true;
                    state.pending.aborted = true;
                } else {
                    state.pending.own_fup = true;
                }
            }
            Packet::Mwait { .. } => state.pending.mwait = true,
            Packet::ExStop { ip } => {
                state.pending.mwait = false;
                state.pending.own_fup |= ip;
            }
            Packet::Ptw { ip: true, .. } => {
                state.pending.own_fup = true;
                state.pending.ptwrite = true;
            }
            Packet::Ptw { .. } if state.enabled => {
                if let Some(at) = self.next_ptwrite(state)
                    && self.walk_to(state, at, consumer)?
                {
                    self.pass_ptwrite(state, at, consumer);
                }
            }
            Packet::ControlFlowEvent { ip: true, .. } => state.pending.own_fup = true,
            Packet::ControlFlowEvent { kind, .. } if state.enabled && INTERRUPTING.contains(&kind) => {
                state.pending.shared_fup = true;
            }
            Packet::BlockBegin { short, .. } => state.pending.items = Some(short),
            Packet::BlockEnd { ip } => {
                state.pending.items = None;
                state.pending.own_fup |= ip;
            }
            Packet::TraceStop if state.enabled => return Err(Why::UnexpectedPacket),
            packet => self.timing(state, packet, false, consumer),
        }
        state.position = next;
        Ok(false)
    }

    /// A timing packet; whatever else comes here tells nothing of what ran.
    pub fn timing<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        packet: Packet,
        in_psb: bool,
        consumer: &mut C,
    ) {
        if !C::EVENTS {
            return;
        }
        let (timeline, Config { errata, clock, .. }) = (&mut state.timeline, &state.config);
        let before = timeline.now();
        match packet {
            Packet::Tsc(ticks) => timeline.tsc(ticks),
            Packet::Tma { ctc, fast } => timeline.tma(clock, ctc, fast),
            Packet::Mtc(ctc) => timeline.mtc(clock, ctc, *errata),
            Packet::Cyc(cycles) => timeline.cyc(cycles),
            Packet::Cbr { ratio } => timeline.cbr(clock, ratio, in_psb),
            _ => return,
        }
        if let Some(time) = timeline.now()
            && before != Some(time)
        {
            self.event(Event::Time(time), consumer);
        }
    }

    /// The address of a packet; it is the last one from now on.
    pub fn address(state: &mut State<'_>, payload: IpPayload) -> Option<u64> {
        let ip = payload.resolve(state.last_ip)?;
        state.last_ip = ip;
        Some(ip)
    }

    fn tnt<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        tnt: Tnt,
        next: usize,
        consumer: &mut C,
    ) -> Result<usize, Why> {
        if !state.enabled {
            return Err(Why::UnexpectedPacket);
        }
        let mut block = self.here(state);
        let mut left = u32::from(tnt.count);
        let mut end = next;
        while left > 0 && block != UNKNOWN {
            let count = left.min(6);
            left -= count;
            let bits = tnt.bits >> left & ((1 << count) - 1);
            let outcomes = Outcomes::try_from(1 << count | bits).unwrap_or(1);
            (block, end) = self.outcomes(state, block, outcomes, end, consumer)?;
        }
        state.block = block;
        match self.blocks.starts().get(block as usize) {
            Some(&ip) => state.ip = ip,
            None => state.enabled = false,
        }
        Ok(end)
    }

    /// The TIP behind a packet of outcomes, and the offset after it; `None` when the trace ends before.
    pub fn deferred_tip<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        mut at: usize,
        consumer: &mut C,
    ) -> Result<Option<(u64, usize)>, Why> {
        loop {
            match state.packet(at) {
                Ok((Packet::Tip(payload), size)) => {
                    let ip = Self::address(state, payload).ok_or(Why::NoAddress)?;
                    return Ok(Some((ip, at + size)));
                }
                Ok((packet, size)) if packet.is_timing() => {
                    self.timing(state, packet, false, consumer);
                    at += size;
                }
                Ok((Packet::Pad, size)) => at += size,
                Err(PacketError::End) => return Ok(None),
                _ => return Err(Why::Mismatch),
            }
        }
    }

    fn tip<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        payload: IpPayload,
        consumer: &mut C,
    ) -> Result<(), Why> {
        if !state.enabled {
            return Err(Why::UnexpectedPacket);
        }
        let ip = Self::address(state, payload);
        if let Some(from) = state.pending.interrupted.take() {
            self.arrive(state, from, consumer)?;
            let to = ip.ok_or(Why::NoAddress)?;
            self.event(Event::Interrupted { from, to }, consumer);
            state.go(to);
        } else {
            let head = self.here(state);
            self.leave_indirect(state, head, consumer)?;
            state.go(ip.ok_or(Why::NoAddress)?);
        }
        state.switch_as_told();
        Ok(())
    }

    fn enable<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        payload: IpPayload,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let ip = Self::address(state, payload).ok_or(Why::NoAddress)?;
        if state.enabled || state.pending.interrupted.is_some() {
            return Err(Why::UnexpectedPacket);
        }
        state.enabled = true;
        state.go(ip);
        state.switch_as_told();
        self.event(Event::Enabled(ip), consumer);
        Ok(())
    }

    fn disable<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        payload: IpPayload,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let ip = Self::address(state, payload);
        if !state.enabled {
            return Err(Why::UnexpectedPacket);
        }
        if let Some(at) = state.pending.interrupted.take() {
            self.arrive(state, at, consumer)?;
            if state.has(Erratum::Skd022) && self.blocks.is_vm_entry(at) {
                // SKD022: the FUP should not be there. The instruction ran, and left what is traced.
                self.flush(consumer);
                let part = Part {
                    start: at,
                    end: at.wrapping_add(VM_ENTRY_SIZE),
                    instructions: 1,
                };
                consumer.part(&self.blocks, part);
            }
        } else {
            let head = self.here(state);
            self.leave_disabled(state, head, ip, consumer)?;
        }
        state.enabled = false;
        state.switch_as_told();
        self.event(Event::Disabled(ip), consumer);
        Ok(())
    }

    fn fup<C: Consumer>(
        &mut self,
        state: &mut State<'_>,
        payload: IpPayload,
        consumer: &mut C,
    ) -> Result<(), Why> {
        let ip = Self::address(state, payload);
        let mode = state.pending.take_mode();
        let own = std::mem::take(&mut state.pending.own_fup) || mode.is_some();
        let shared = std::mem::take(&mut state.pending.shared_fup);
        if std::mem::take(&mut state.pending.aborted)
            && state.has(Erratum::Bdm64)
            && state.enabled
            && let Some(ip) = ip
            && !self.reaches(state, ip)
        {
            // BDM64: what was told of the branch right before the abort is wrong. It led here.
            state.go(ip);
        }
        let ptwrite = std::mem::take(&mut state.pending.ptwrite);
        if (own || shared)
            && state.enabled
            && let Some(ip) = ip
        {
            self.arrive(state, ip, consumer)?;
            if ptwrite {
                self.pass_ptwrite(state, ip, consumer);
            }
        }
        if let Some(mode) = mode {
            state.switch(mode);
        }
        if !own {
            let ip = ip.ok_or(Why::NoAddress)?;
            if state.pending.interrupted.replace(ip).is_some() {
                return Err(Why::UnexpectedPacket);
            }
        }
        Ok(())
    }
}
