// Walks through two arrays, twice each, in nothing but its own instructions: how often it reads
// and writes, how many lines and pages it touches, and what a cache of 32 KiB misses, follows from
// the source. With an argument it walks through the first one once more.
// flags: -O1 -static -nostdlib -nostartfiles -fcf-protection=none -no-pie -fno-pie -Wl,--build-id=none
// compare: status
#define WORDS_READ 2048
#define WORDS_WRITTEN 8192

__attribute__((aligned(4096))) long read_twice[WORDS_READ];
__attribute__((aligned(4096))) long written_twice[WORDS_WRITTEN];

// One access by each round's first instruction, and one, to the number of arguments, before.
__asm__(".globl _start\n"
        "_start: mov (%rsp), %rbx\n"
        "  mov $2, %edx\n"
        "1: mov $2048, %ecx\n"
        "2: mov read_twice-8(,%rcx,8), %rax\n"
        "  dec %ecx\n"
        "  jnz 2b\n"
        "  dec %edx\n"
        "  jnz 1b\n"
        "  mov $2, %edx\n"
        "3: mov $8192, %ecx\n"
        "4: mov %rax, written_twice-8(,%rcx,8)\n"
        "  dec %ecx\n"
        "  jnz 4b\n"
        "  dec %edx\n"
        "  jnz 3b\n"
        "  cmp $1, %rbx\n"
        "  je 6f\n"
        "  mov $2048, %ecx\n"
        "5: mov read_twice-8(,%rcx,8), %rax\n"
        "  dec %ecx\n"
        "  jnz 5b\n"
        "6: mov $60, %eax\n"
        "  xor %edi, %edi\n"
        "  syscall\n");
