//! The registers of a stopped thread.

use failure::image::Registers;

pub(super) fn from_user(regs: &libc::user_regs_struct) -> Registers {
    Registers {
        rax: regs.rax,
        rbx: regs.rbx,
        rcx: regs.rcx,
        rdx: regs.rdx,
        rsi: regs.rsi,
        rdi: regs.rdi,
        rbp: regs.rbp,
        rsp: regs.rsp,
        r8: regs.r8,
        r9: regs.r9,
        r10: regs.r10,
        r11: regs.r11,
        r12: regs.r12,
        r13: regs.r13,
        r14: regs.r14,
        r15: regs.r15,
        rip: regs.rip,
        eflags: regs.eflags,
        orig_rax: regs.orig_rax,
        fs_base: regs.fs_base,
        gs_base: regs.gs_base,
    }
}

/// Puts the registers over what the thread has; the segment selectors stay.
pub(super) fn over_user(from: &Registers, to: &mut libc::user_regs_struct) {
    to.rax = from.rax;
    to.rbx = from.rbx;
    to.rcx = from.rcx;
    to.rdx = from.rdx;
    to.rsi = from.rsi;
    to.rdi = from.rdi;
    to.rbp = from.rbp;
    to.rsp = from.rsp;
    to.r8 = from.r8;
    to.r9 = from.r9;
    to.r10 = from.r10;
    to.r11 = from.r11;
    to.r12 = from.r12;
    to.r13 = from.r13;
    to.r14 = from.r14;
    to.r15 = from.r15;
    to.rip = from.rip;
    to.eflags = from.eflags;
    to.orig_rax = from.orig_rax;
    to.fs_base = from.fs_base;
    to.gs_base = from.gs_base;
}
