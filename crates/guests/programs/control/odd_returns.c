// Returns that match no call and calls that never return: push and ret as a jump, call and
// pop to read the instruction pointer, a return address changed on the stack, ret with a
// count, and a nested function's trampoline on the stack.
// flags: -O1 -Wno-trampolines -z execstack
// variants: threaded
#include <stdint.h>

#include "expect.h"

static long by_push_and_return(long value) {
    __asm__ volatile(
        "sub $128, %%rsp\n lea 1f(%%rip), %%rax\n push %%rax\n ret\n ud2\n"
        "1: add $128, %%rsp\n add $1, %0\n"
        : "+r"(value)::"rax", "cc", "memory");
    return value;
}

static uint64_t own_address(void) {
    uint64_t address;
    __asm__ volatile("sub $128, %%rsp\n call 1f\n 1: pop %0\n add $128, %%rsp" : "=r"(address)::"cc");
    return address;
}

void skip_caller(void);
__asm__(".text\n.globl skip_caller\nskip_caller:\n addq $2, (%rsp)\n ret\n");

long pop_arguments(void);
__asm__(".text\n.globl pop_arguments\npop_arguments:\n mov 8(%rsp), %rax\n add 16(%rsp), %rax\n ret $16\n");

static int apply(int (*function)(int), int value) {
    return function(value);
}

int main(void) {
    long sum = 0;
    for (int i = 0; i < 1000; i++) {
        sum = by_push_and_return(sum);
        uint64_t here = own_address();
        EXPECT(here > (uint64_t)own_address && here < (uint64_t)own_address + 64);
        long skipped;
        // The call returns two bytes later, behind the ud2.
        __asm__ volatile("sub $128, %%rsp\n call skip_caller\n ud2\n add $128, %%rsp\n mov $1, %0"
                         : "=r"(skipped)::"cc", "memory");
        sum += skipped;
        long popped;
        __asm__ volatile("sub $128, %%rsp\n push $30\n push $12\n call pop_arguments\n add $128, %%rsp"
                         : "=a"(popped)::"cc", "memory");
        EXPECT(popped == 42);
        int add_some(int value) { return value + i; }
        sum += apply(add_some, 1) - i;
    }
    printf("%ld\n", sum);
    return 0;
}
