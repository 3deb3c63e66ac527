// One thread stores all of the processor's state that is in use, as the loader does where it finds a
// function for the first call; behind it is what another thread reads. What is stored must not pass
// for longer than it is where the code does not say which state that is. The racy twin stores behind
// it, too.
#include "twin.h"
#include <cpuid.h>
static struct {
    _Alignas(64) char state[2496];
    long behind;
} area;
static volatile unsigned all = 0xe7;
long seen;
static int can_store(void) {
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid_count(0xd, 1, &eax, &ebx, &ecx, &edx) && eax & 2;
}
static void work(long number) {
    if (number == 0) {
        if (can_store())
            __asm__ volatile("xsavec64 %0" : "=m"(area.state) : "a"(all), "d"(0) : "memory");
        IF_RACY(area.behind = 1;) // race: area
    } else {
        seen = area.behind; // race: area
    }
}
int main(void) {
    run_threads();
    return seen == 7;
}
