// Computes with the alignment-check flag set, which stays set.
// flags: -O1 -mno-red-zone
#include <stdint.h>
#include <stdio.h>

__attribute__((noinline)) static uint64_t work(uint64_t rounds)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        sum += i * i;
        __asm__ volatile("" : "+r"(sum));
        if (sum & 1)
            sum ^= 3;
    }
    return sum;
}

int main(void)
{
    uint64_t flags = 0, sum;
    __asm__ volatile("pushf\n\torq $0x40000, (%%rsp)\n\tpopf" : : : "memory", "cc");
    sum = work(1000);
    __asm__ volatile("pushf\n\tpopq %0\n\tpushf\n\tandq $~0x40000, (%%rsp)\n\tpopf" : "=r"(flags) : : "memory", "cc");
    printf("%lx %d\n", sum, (int)(flags >> 18 & 1));
    return 0;
}
