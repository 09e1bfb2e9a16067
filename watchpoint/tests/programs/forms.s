# Every way to touch `spot`, one after the other; each accessing instruction has a label of its name.
        .globl main
        .type main, @function
        .text
main:   push %rbx
        push %r12
        lea spot(%rip), %rbx
        mov $5, %eax
store:  mov %rax, (%rbx)                        # 5
load:   mov spot(%rip), %rcx
        mov %rbx, %rdx
ownbase: mov (%rdx), %rdx
incr:   incq (%rbx)                             # 6
        mov $10, %eax
add:    lock add %rax, (%rbx)                   # 16
        mov $4, %ecx
xadd:   lock xadd %rcx, (%rbx)                  # 20
        mov $7, %edx
xchg:   xchg %rdx, (%rbx)                       # 7
        mov $7, %eax
        mov $8, %ecx
cas:    lock cmpxchg %rcx, (%rbx)               # 8
        mov $99, %eax
casfail: lock cmpxchg %rcx, (%rbx)
        mov $8, %eax
        xor %edx, %edx
        push %rbx
        mov $9, %ebx
        xor %ecx, %ecx
        mov (%rsp), %rdi
cas16:  lock cmpxchg16b (%rdi)                  # 9
        pop %rbx
comp:   cmpq $9, (%rbx)
byte:   movb $1, 1(%rbx)                        # 0x109
pushm:  push (%rbx)
popm:   pop (%rbx)
        movq (%rbx), %xmm0
vecload: movq (%rbx), %xmm0
        mov %rbx, %rdi
vecstore: movdqu %xmm0, -8(%rdi)                # 0
        lea source(%rip), %rsi
        mov %rbx, %rdi
movs:   movsq                                   # 0x4847464544434241
        mov %rbx, %rdi
        mov $0x11, %eax
        mov $8, %ecx
reps:   rep stosb                               # 0x11…11, in one hit or several
        lea target(%rip), %rax
        mov %rax, (%rbx)
        nop
callm:  call *(%rbx)
        nop
        call jumper
        nop
        xor %eax, %eax
        cmp $1, %eax
setcc:  setb (%rbx)
        mov %rbx, %rdi
        sub $4, %rdi
wide:   movq $0, (%rdi)
        lea inside(%rip), %rax
        mov %rax, (%rbx)
        nop
jmpin:  jmp *(%rbx)                             # to a place that nothing else leads to
        ud2
inside: nop
        pop %r12
        pop %rbx
        xor %eax, %eax
        ret
        .size main, .-main

        .type target, @function
target: nop
        ret
        .size target, .-target

        .type jumper, @function
jumper: nop
jmpm:   jmp *(%rbx)
        .size jumper, .-jumper

        .bss
        .balign 64
        .skip 64
spot:   .skip 64
        .data
source: .ascii "ABCDEFGH"
        .section .note.GNU-stack, "", @progbits
