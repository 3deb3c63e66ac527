// Memory operands that are easy to get wrong: pop to memory by the stack pointer, push of
// the stack pointer, bit tests far outside their operand, xlat, enter and leave, 16-bit
// pushes, thread-relative and 32-bit addresses, high byte registers, rip-relative writes.
// flags: -O1 -D_GNU_SOURCE
// variants: threaded
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "expect.h"

static uint64_t bits[64], rip_relative;
extern __thread uint32_t thread_word;
__thread uint32_t thread_word = 5;

int main(void) {
    uint64_t x = 0, y = 0, before, after;
    // pop (%rsp) and push (%rsp): the address after, and before, the stack pointer moves.
    __asm__ volatile("sub $256, %%rsp\n movq $7, 8(%%rsp)\n movq $9, (%%rsp)\n"
                     "popq (%%rsp)\n mov (%%rsp), %0\n pushq 0(%%rsp)\n mov (%%rsp), %1\n"
                     "add $256, %%rsp"
                     : "=&r"(x), "=&r"(y)::"cc", "memory");
    EXPECT(x == 9 && y == 9);
    __asm__ volatile("sub $128, %%rsp\n mov %%rsp, %0\n push %%rsp\n pop %1\n"
                     "push %%rsp\n pop %%rsp\n mov %%rsp, %%rax\n cmp %%rax, %0\n je 1f\n ud2\n 1: add $128, %%rsp"
                     : "=&r"(before), "=&r"(after)::"rax", "cc", "memory");
    EXPECT(before == after);

    // Bit 1000 lies 125 bytes behind the operand, bit -3 in front of it.
    __asm__ volatile("btsq %1, %0" : "+m"(bits[10]) : "r"(1000l) : "cc", "memory");
    __asm__ volatile("btsq %1, %0" : "+m"(bits[10]) : "r"(-3l) : "cc", "memory");
    EXPECT(bits[10 + 15] == 1ull << 40 && bits[9] == 1ull << 61);
    __asm__ volatile("lock btcl %1, %0" : "+m"(bits[10]) : "r"(70) : "cc", "memory");
    EXPECT(bits[11] == 1 << 6);

    uint8_t table[256];
    for (int i = 0; i < 256; i++)
        table[i] = (uint8_t)(255 - i);
    uint8_t looked_up = 17;
    __asm__ volatile("xlatb" : "+a"(looked_up) : "b"(table) : "memory");
    EXPECT(looked_up == 238);
    __asm__ volatile("sub $128, %%rsp\n enter $32, $0\n movq $3, -8(%%rbp)\n mov -8(%%rbp), %0\n leave\n add $128, %%rsp"
                     : "=r"(x)::"cc", "memory");
    EXPECT(x == 3);
    __asm__ volatile("sub $128, %%rsp\n pushw $0x1234\n pushw $0x5678\n popw %w0\n popw %w1\n add $128, %%rsp"
                     : "+r"(x), "+r"(y)::"cc", "memory");
    EXPECT((uint16_t)x == 0x5678 && (uint16_t)y == 0x1234);

    __asm__ volatile("incl %%fs:thread_word@tpoff" ::: "cc", "memory");
    EXPECT(thread_word == 6);
    uint32_t *low = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    uint64_t dirty_high = (uint64_t)low | 0xdead00000000;
    __asm__ volatile("addr32 movl $77, 8(%%eax)" ::"a"(dirty_high) : "memory");
    EXPECT(low[2] == 77);
    __asm__ volatile("movb %%ah, %0" : "=m"(table[0]) : "a"(0x4200));
    EXPECT(table[0] == 0x42);
    __asm__ volatile("movq $-5, %0\n addb $6, %0" : "=m"(rip_relative)::"cc");
    EXPECT(rip_relative == 0xffffffffffffff01);
    puts("each operand");
    return 0;
}
