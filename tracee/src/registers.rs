//! A thread's registers in the two orders in which perf and BPF hand them over.

use failure::image::Registers;

/// How many 64-bit words `struct pt_regs` has on x86-64.
pub(crate) const PT_REGS_WORDS: usize = 21;

/// Reads the words of `struct pt_regs`, which is how BPF programs see registers. The bases of `fs` and `gs`
/// are not among them and stay 0.
pub(crate) fn from_pt_regs(words: &[u64; PT_REGS_WORDS]) -> Registers {
    let [
        r15,
        r14,
        r13,
        r12,
        rbp,
        rbx,
        r11,
        r10,
        r9,
        r8,
        rax,
        rcx,
        rdx,
        rsi,
        rdi,
        orig_rax,
        rip,
        _cs,
        eflags,
        rsp,
        _ss,
    ] = *words;
    Registers {
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
        fs_base: 0,
        gs_base: 0,
    }
}

/// The registers that perf samples are asked for: the general ones, the instruction pointer and the flags, in
/// the numbering of `enum perf_event_x86_regs`.
pub(crate) const PERF_MASK: u64 = 0x00ff_03ff;
/// How many they are.
pub(crate) const PERF_WORDS: usize = PERF_MASK.count_ones() as usize;

/// Reads the words of a perf sample that was taken with [`PERF_MASK`]. What the mask leaves out stays 0;
/// `orig_rax` says that the thread is in no system call.
pub(crate) fn from_perf(words: &[u64; PERF_WORDS]) -> Registers {
    let [
        rax,
        rbx,
        rcx,
        rdx,
        rsi,
        rdi,
        rbp,
        rsp,
        rip,
        eflags,
        r8,
        r9,
        r10,
        r11,
        r12,
        r13,
        r14,
        r15,
    ] = *words;
    Registers {
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
        orig_rax: u64::MAX,
        fs_base: 0,
        gs_base: 0,
    }
}
