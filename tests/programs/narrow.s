# A 32-bit program that counts once, when standard input has a byte or ends. Needs no library.
        .globl  _start
        .text
_start: movl    $3, %eax
        xorl    %ebx, %ebx
        movl    $byte, %ecx
        movl    $1, %edx
        int     $0x80
        incl    counter
        movl    $1, %eax
        movl    $3, %ebx
        int     $0x80
        .bss
byte:   .skip   4
        .globl  counter
        .type   counter, @object
        .size   counter, 4
counter: .skip  4
