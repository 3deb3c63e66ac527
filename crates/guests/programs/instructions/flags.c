// Flags across everything a translator might put between two instructions: carries that
// run through loops, branches, calls, memory operands; pushf, popf, lahf, sahf, setcc, cmov.
// flags: -O1
// variants: threaded
#include <stdint.h>

#include "expect.h"

static uint64_t a[64], b[64], sum[65];

static void add_long(void) {
    uint64_t index = 0, count = 64;
    __asm__ volatile(
        "clc\n"
        "1: mov (%2,%0,8), %%rax\n adc (%3,%0,8), %%rax\n mov %%rax, (%4,%0,8)\n"
        "lea 1(%0), %0\n dec %1\n jnz 1b\n" // dec and lea leave the carry alone.
        "mov $0, %%eax\n adc $0, %%rax\n mov %%rax, (%4,%0,8)\n"
        : "+r"(index), "+r"(count)
        : "r"(a), "r"(b), "r"(sum)
        : "rax", "cc", "memory");
}

static uint64_t flags_after(uint64_t left, uint64_t right) {
    uint64_t flags;
    __asm__ volatile("sub $128, %%rsp\n cmp %2, %1\n pushfq\n pop %0\n lea 128(%%rsp), %%rsp"
                     : "=r"(flags) : "r"(left), "r"(right) : "cc", "memory");
    return flags & 0x8d5;
}

int main(void) {
    for (int i = 0; i < 64; i++) {
        a[i] = ~0ull - (uint64_t)i * (i % 3 == 0);
        b[i] = i % 5 == 0 ? 1 : (uint64_t)i;
    }
    for (int i = 0; i < 500; i++)
        add_long();
    uint64_t folded = 0;
    for (int i = 0; i < 65; i++)
        folded = folded * 31 + sum[i];
    uint64_t values[] = {0, 1, 2, 0x7fffffffffffffff, 0x8000000000000000, ~0ull, 0x1234, 0xff};
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            folded = folded * 31 + flags_after(values[i], values[j]);
    uint64_t counts = 0;
    for (int i = 0; i < 8; i++)
        for (int j = 0; j < 8; j++)
            __asm__ volatile(
                "cmp %2, %1\n lahf\n seto %%cl\n movzbl %%ah, %%eax\n add %%rax, %0\n"
                "mov %%eax, %%eax\n mov %%al, %%ah\n sahf\n mov $0, %%eax\n mov $3, %%edx\n"
                "cmovc %%rdx, %%rax\n cmovz %%rdx, %%rax\n adc %%rax, %0\n movzbl %%cl, %%ecx\n add %%rcx, %0\n"
                : "+r"(counts) : "r"(values[i]), "r"(values[j]) : "rax", "rcx", "rdx", "cc");
    // The direction flag and the carry survive a system call.
    uint64_t before = 0;
    __asm__ volatile("sub $128, %%rsp\n stc\n std\n mov $39, %%eax\n syscall\n pushfq\n pop %0\n cld\n add $128, %%rsp"
                     : "=r"(before)::"rax", "rcx", "r11", "cc", "memory");
    EXPECT(before & 1 && before & 0x400);
    printf("%016lx %lu\n", folded, counts);
    return 0;
}
