//! What keeper and front say to each other.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use failure::Signal;
use failure::image::Registers;
use iced_x86::Register;
use program::{FileOffset, LinkAddr, RunAddr};
use tracee::ptrace::End;
use tracee::{Pid, Tid};

use super::bytes::{In, Out};
use super::modules::{put_modules, take_modules};
use crate::location::{Location, Slot, Trigger};
use crate::watcher::{
    Address, Arming, Event, Expression, Pointed, Probe, RawHit, Report, SNAPSHOT, Snapshot, WatchSpec,
};

/// What the front asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) pid: Pid,
    pub(super) specs: Vec<WatchSpec>,
}

/// What the keeper says.
#[derive(Debug)]
pub(super) enum Said {
    /// Everything is armed.
    Ready,
    /// Something happened.
    Event(Event),
    /// It cannot be done, in words.
    Failed(String),
}

impl Order {
    pub(super) fn to_bytes(&self) -> Out {
        let mut out = Out::default();
        out.word(self.pid.0.into());
        out.word(self.specs.len() as u64);
        for spec in &self.specs {
            put_spec(&mut out, spec);
        }
        out
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut bytes = In::new(bytes);
        let order = Self {
            pid: Pid(bytes.number()?),
            specs: bytes.list(take_spec)?,
        };
        bytes.is_empty().then_some(order)
    }
}

fn put_spec(out: &mut Out, spec: &WatchSpec) {
    let module = |out: &mut Out, module: &Option<PathBuf>| {
        out.option(module.as_ref(), |out, path| out.text(path.as_os_str().as_bytes()));
    };
    match &spec.address {
        Address::Run(addr) => {
            out.byte(0);
            out.word(addr.0);
        }
        Address::Static { module: path, addr } => {
            out.byte(1);
            module(out, path);
            out.word(addr.0);
        }
        Address::Probed(probes) => {
            out.byte(2);
            out.word(probes.len() as u64);
            for probe in probes {
                module(out, &probe.module);
                put_probe(out, probe);
            }
        }
        Address::Pointed(pointed) => {
            out.byte(3);
            module(out, &pointed.module);
            out.word(pointed.addr.0);
            out.word(pointed.follows.len() as u64);
            for follow in &pointed.follows {
                out.word(*follow);
            }
            out.word(pointed.offset);
        }
    }
    out.word(spec.len.into());
    out.flag(spec.trigger == Trigger::ReadWrite);
    out.word(spec.places.into());
}

fn take_spec(bytes: &mut In<'_>) -> Option<WatchSpec> {
    let module = |bytes: &mut In<'_>| {
        let path = |bytes: &mut In<'_>| Some(PathBuf::from(OsString::from_vec(bytes.text()?.to_vec())));
        bytes.option(path)
    };
    let address = match bytes.byte()? {
        0 => Address::Run(RunAddr(bytes.word()?)),
        1 => Address::Static {
            module: module(bytes)?,
            addr: LinkAddr(bytes.word()?),
        },
        2 => Address::Probed(bytes.list(|bytes| {
            let module = module(bytes)?;
            take_probe(bytes, module)
        })?),
        3 => Address::Pointed(Pointed {
            module: module(bytes)?,
            addr: LinkAddr(bytes.word()?),
            follows: bytes.list(|bytes| bytes.word())?,
            offset: bytes.word()?,
        }),
        _ => return None,
    };
    Some(WatchSpec {
        address,
        len: bytes.number()?,
        trigger: take_trigger(bytes)?,
        places: bytes.number()?,
    })
}

fn put_probe(out: &mut Out, probe: &Probe) {
    out.word(probe.addr.0);
    out.word(probe.offset.0);
    out.option(probe.expression.base, |out, base| out.word(base as u64));
    out.option(probe.expression.index, |out, (index, scale)| {
        out.word(index as u64);
        out.word(scale.into());
    });
    out.word(probe.expression.disp.cast_unsigned());
    out.flag(probe.late);
    out.option(probe.nth, |out, nth| out.word(nth.into()));
}

fn take_probe(bytes: &mut In<'_>, module: Option<PathBuf>) -> Option<Probe> {
    let register = |bytes: &mut In<'_>| Register::try_from(usize::try_from(bytes.word()?).ok()?).ok();
    Some(Probe {
        module,
        addr: LinkAddr(bytes.word()?),
        offset: FileOffset(bytes.word()?),
        expression: Expression {
            base: bytes.option(register)?,
            index: bytes.option(|bytes| Some((register(bytes)?, bytes.number()?)))?,
            disp: bytes.word()?.cast_signed(),
        },
        late: bytes.flag()?,
        nth: bytes.option(|bytes| bytes.number())?,
    })
}

fn take_trigger(bytes: &mut In<'_>) -> Option<Trigger> {
    Some(if bytes.flag()? {
        Trigger::ReadWrite
    } else {
        Trigger::Write
    })
}

impl Said {
    pub(super) fn to_bytes(&self) -> Out {
        let mut out = Out::default();
        match self {
            Self::Ready => out.byte(0),
            Self::Failed(why) => {
                out.byte(1);
                out.text(why.as_bytes());
            }
            Self::Event(Event::Modules(modules)) => {
                out.byte(2);
                put_modules(&mut out, modules);
            }
            Self::Event(Event::Armed(arming)) => {
                out.byte(3);
                put_arming(&mut out, arming);
            }
            Self::Event(Event::Disarmed {
                location,
                at,
                until_ns,
            }) => {
                out.byte(4);
                out.word(*location as u64);
                out.word(at.0);
                out.word(*until_ns);
            }
            Self::Event(Event::Hit(hit)) => {
                out.byte(5);
                put_hit(&mut out, hit);
            }
            Self::Event(Event::Complete(until)) => {
                out.byte(6);
                out.word(*until);
            }
            Self::Event(Event::Lost(lost)) => {
                out.byte(7);
                out.word(*lost);
            }
            Self::Event(Event::Counted(slot, count)) => {
                out.byte(8);
                out.word(slot.addr.0);
                out.byte(slot.len);
                out.word(*count);
            }
            Self::Event(Event::Vforked) => out.byte(10),
            Self::Event(Event::Ended(end)) => {
                out.byte(9);
                put_end(&mut out, *end);
            }
        }
        out
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let mut bytes = In::new(bytes);
        let said = match bytes.byte()? {
            0 => Self::Ready,
            1 => Self::Failed(String::from_utf8_lossy(bytes.text()?).into_owned()),
            2 => Self::Event(Event::Modules(Box::new(take_modules(&mut bytes)?))),
            3 => Self::Event(Event::Armed(take_arming(&mut bytes)?)),
            4 => Self::Event(Event::Disarmed {
                location: usize::try_from(bytes.word()?).ok()?,
                at: RunAddr(bytes.word()?),
                until_ns: bytes.word()?,
            }),
            5 => Self::Event(Event::Hit(Box::new(take_hit(&mut bytes)?))),
            6 => Self::Event(Event::Complete(bytes.word()?)),
            7 => Self::Event(Event::Lost(bytes.word()?)),
            8 => {
                let slot = Slot {
                    addr: RunAddr(bytes.word()?),
                    len: bytes.byte()?,
                };
                Self::Event(Event::Counted(slot, bytes.word()?))
            }
            9 => Self::Event(Event::Ended(take_end(&mut bytes)?)),
            10 => Self::Event(Event::Vforked),
            _ => return None,
        };
        bytes.is_empty().then_some(said)
    }
}

fn put_arming(out: &mut Out, arming: &Arming) {
    out.word(arming.location as u64);
    out.word(arming.at.addr.0);
    out.word(arming.at.len.into());
    out.flag(arming.at.trigger == Trigger::ReadWrite);
    out.word(arming.from_ns);
    out.flag(arming.late);
    out.option(arming.content.as_ref(), |out, (bytes, exact)| {
        out.text(bytes);
        out.flag(*exact);
    });
}

fn take_arming(bytes: &mut In<'_>) -> Option<Arming> {
    Some(Arming {
        location: usize::try_from(bytes.word()?).ok()?,
        at: Location {
            addr: RunAddr(bytes.word()?),
            len: bytes.number()?,
            trigger: take_trigger(bytes)?,
        },
        from_ns: bytes.word()?,
        late: bytes.flag()?,
        content: bytes.option(|bytes| Some((bytes.text()?.to_vec(), bytes.flag()?)))?,
    })
}

fn put_hit(out: &mut Out, hit: &RawHit) {
    out.word(hit.time_ns);
    out.word(hit.earliest_ns);
    out.word(hit.likely_ns);
    out.word(hit.tid.0.into());
    out.word(hit.watched.0);
    for register in registers_in_order(&mut hit.registers.clone()) {
        out.word(*register);
    }
    out.flag(hit.has_segment_bases);
    out.byte(match hit.report {
        Report::Watch => 0,
        Report::Late => 1,
        Report::Probe => 2,
        Report::Died => 3,
    });
    out.text(&hit.stack);
    out.option(hit.probed, |out, at| out.word(at.0));
    out.word(hit.memory.len() as u64);
    for seen in &hit.memory {
        out.word(seen.addr.0);
        out.byte(seen.len);
        seen.bytes.iter().for_each(|byte| out.byte(*byte));
    }
    out.word(hit.looking_ns);
    out.word(hit.looked_ns);
}

fn take_hit(bytes: &mut In<'_>) -> Option<RawHit> {
    let (time_ns, earliest_ns, likely_ns) = (bytes.word()?, bytes.word()?, bytes.word()?);
    let tid = Tid(bytes.number()?);
    let watched = RunAddr(bytes.word()?);
    let mut registers = Registers::default();
    for register in registers_in_order(&mut registers) {
        *register = bytes.word()?;
    }
    Some(RawHit {
        time_ns,
        earliest_ns,
        likely_ns,
        tid,
        watched,
        registers,
        has_segment_bases: bytes.flag()?,
        report: match bytes.byte()? {
            0 => Report::Watch,
            1 => Report::Late,
            2 => Report::Probe,
            3 => Report::Died,
            _ => return None,
        },
        stack: bytes.text()?.to_vec(),
        probed: bytes.option(In::word)?.map(RunAddr),
        memory: bytes.list(|bytes| {
            let mut seen = Snapshot {
                addr: RunAddr(bytes.word()?),
                len: bytes.byte().filter(|len| usize::from(*len) <= SNAPSHOT)?,
                ..Snapshot::default()
            };
            for byte in &mut seen.bytes {
                *byte = bytes.byte()?;
            }
            Some(seen)
        })?,
        looking_ns: bytes.word()?,
        looked_ns: bytes.word()?,
    })
}

fn registers_in_order(registers: &mut Registers) -> [&mut u64; 21] {
    let Registers {
        rax,
        rbx,
        rcx,
        rdx,
        rsi,
        rdi,
        rbp,
        rsp,
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
        rip,
        eflags,
        orig_rax,
        fs_base,
        gs_base,
    } = registers;
    [
        rax, rbx, rcx, rdx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15, rip, eflags, orig_rax,
        fs_base, gs_base,
    ]
}

fn put_end(out: &mut Out, end: End) {
    match end {
        End::Unknown => out.byte(0),
        End::Exited(status) => {
            out.byte(1);
            out.word(i64::from(status).cast_unsigned());
        }
        End::Killed { signal, core_dumped } => {
            out.byte(2);
            out.word(i64::from(signal.0).cast_unsigned());
            out.flag(core_dumped);
        }
    }
}

fn take_end(bytes: &mut In<'_>) -> Option<End> {
    let number = |bytes: &mut In<'_>| i32::try_from(bytes.word()?.cast_signed()).ok();
    Some(match bytes.byte()? {
        0 => End::Unknown,
        1 => End::Exited(number(bytes)?),
        2 => End::Killed {
            signal: Signal(number(bytes)?),
            core_dumped: bytes.flag()?,
        },
        _ => return None,
    })
}

#[cfg(test)]
mod tests;
