//! Where a slice starts.

use program::{Pc, Program};

use crate::dependence::uses::Role;

/// An instruction that a slice starts from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The instruction.
    pub pc: Pc,
    /// Which of its inputs the failure is about.
    pub role: Role,
    /// The return addresses of its callers, innermost first, as far as a stack told them.
    pub callers: Vec<Pc>,
}

/// Where a slice starts: one failing instruction, all instructions of a line, or each thread's blocking call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criterion {
    /// The instructions.
    pub starts: Vec<Start>,
}

impl Criterion {
    /// A slice from one instruction, whoever called.
    #[must_use]
    pub fn instruction(pc: Pc) -> Self {
        Self {
            starts: vec![Start {
                pc,
                role: Role::Everything,
                callers: Vec::new(),
            }],
        }
    }

    /// A slice from every instruction in some address ranges of one module: the code of a source line.
    #[must_use]
    pub fn ranges(program: &Program<'_>, ranges: &[(Pc, Pc)]) -> Self {
        let mut starts = Vec::new();
        for (from, to) in ranges {
            let mut at = *from;
            while at.addr < to.addr {
                let Some(function) = program.function_at(at) else {
                    break;
                };
                let Some(module) = program.module(at.module) else {
                    break;
                };
                let flow = module.code().flow(function.function);
                let Some(ix) = flow.at(at.addr) else {
                    at.addr = at.addr.offset(1);
                    continue;
                };
                starts.push(Start {
                    pc: at,
                    role: Role::Everything,
                    callers: Vec::new(),
                });
                let length = flow.instruction(ix).map_or(1, |instr| instr.len().max(1));
                at.addr = at.addr.offset(i64::try_from(length).unwrap_or(1));
            }
        }
        Self { starts }
    }
}
