//! The registers of a thread, in the three orders that they come in: the kernel's, the signal frame's and
//! DWARF's.

use super::bytes::u64_at;

/// The integer registers of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[expect(missing_docs, reason = "the names are the processor's")]
pub struct Registers {
    pub rax: u64,
    pub rbx: u64,
    pub rcx: u64,
    pub rdx: u64,
    pub rsi: u64,
    pub rdi: u64,
    pub rbp: u64,
    pub rsp: u64,
    pub r8: u64,
    pub r9: u64,
    pub r10: u64,
    pub r11: u64,
    pub r12: u64,
    pub r13: u64,
    pub r14: u64,
    pub r15: u64,
    pub rip: u64,
    pub eflags: u64,
    /// The number of the system call that the thread is in; -1 outside of one.
    pub orig_rax: u64,
    /// The base of the thread's own storage.
    pub fs_base: u64,
    pub gs_base: u64,
}

impl Registers {
    /// Reads `struct user_regs_struct`.
    #[must_use]
    pub fn from_user_regs(bytes: &[u8]) -> Option<Self> {
        let at = |index: u64| u64_at(bytes, index * 8);
        Some(Self {
            r15: at(0)?,
            r14: at(1)?,
            r13: at(2)?,
            r12: at(3)?,
            rbp: at(4)?,
            rbx: at(5)?,
            r11: at(6)?,
            r10: at(7)?,
            r9: at(8)?,
            r8: at(9)?,
            rax: at(10)?,
            rcx: at(11)?,
            rdx: at(12)?,
            rsi: at(13)?,
            rdi: at(14)?,
            orig_rax: at(15)?,
            rip: at(16)?,
            eflags: at(18)?,
            rsp: at(19)?,
            fs_base: at(21)?,
            gs_base: at(22)?,
        })
    }
}

/// The registers of one frame, in DWARF's numbering, as far as they are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameRegisters {
    pub(super) rip: u64,
    general: [Option<u64>; 16],
}

/// DWARF's number for the frame pointer.
pub(super) const RBP: u16 = 6;
/// DWARF's number for the stack pointer.
pub(super) const RSP: u16 = 7;
/// What the psABI makes a function preserve: rbx, rbp, r12 to r15.
const CALLEE_SAVED: [u16; 6] = [3, RBP, 12, 13, 14, 15];

impl FrameRegisters {
    pub(super) fn of_thread(regs: &Registers) -> Self {
        Self {
            rip: regs.rip,
            general: [
                regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp, regs.r8,
                regs.r9, regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
            ]
            .map(Some),
        }
    }

    /// Reads the registers that the kernel put on the stack for a signal handler; `context` is the
    /// `ucontext_t`, which the stack pointer points at when the handler has returned.
    pub(super) fn of_signal_frame(context: u64, read: impl Fn(u64) -> Option<u64>) -> Option<Self> {
        const GREGS: u64 = 40;
        /// DWARF's numbers in the order of `gregset_t`.
        const ORDER: [u16; 16] = [8, 9, 10, 11, 12, 13, 14, 15, 5, 4, 6, 3, 1, 0, 2, 7];
        let at = |index: u64| read(context.checked_add(GREGS + index * 8)?);
        let mut regs = Self {
            rip: at(16)?,
            general: [None; 16],
        };
        for (index, number) in (0..).zip(ORDER) {
            regs.set(number, at(index));
        }
        regs.rsp()?;
        Some(regs)
    }

    /// What a caller still knows when nothing told what the callee did: the registers it must preserve.
    pub(super) fn caller_default(&self) -> Self {
        let mut caller = Self {
            rip: 0,
            general: [None; 16],
        };
        for number in CALLEE_SAVED {
            caller.set(number, self.get(number));
        }
        caller
    }

    pub(super) fn get(&self, number: u16) -> Option<u64> {
        if number == 16 {
            Some(self.rip)
        } else {
            *self.general.get(usize::from(number))?
        }
    }

    pub(super) fn set(&mut self, number: u16, value: Option<u64>) {
        if let Some(slot) = self.general.get_mut(usize::from(number)) {
            *slot = value;
        }
    }

    pub(super) fn rsp(&self) -> Option<u64> {
        self.get(RSP)
    }

    pub(super) fn rbp(&self) -> Option<u64> {
        self.get(RBP)
    }
}
