// cpuid, time stamps, the clock through the vdso and through the kernel,
// and the processor state's own save area.
// flags: -O2 -D_GNU_SOURCE -mxsave
// variants: threaded
#include <cpuid.h>
#include <immintrin.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#include "expect.h"

static long long nanoseconds(const struct timespec *time) {
    return time->tv_sec * 1000000000ll + time->tv_nsec;
}

int main(void) {
    unsigned a, b, c, d, aux;
    EXPECT(__get_cpuid(0, &a, &b, &c, &d) && a >= 7);
    unsigned long long last = __builtin_ia32_rdtsc();
    for (int i = 0; i < 1000; i++) {
        unsigned long long now = __builtin_ia32_rdtscp(&aux);
        EXPECT(now >= last);
        last = now;
    }
    struct timespec by_vdso, by_kernel, again;
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &by_vdso) == 0);
    EXPECT(syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &by_kernel) == 0);
    EXPECT(clock_gettime(CLOCK_MONOTONIC, &again) == 0);
    EXPECT(nanoseconds(&by_vdso) <= nanoseconds(&by_kernel));
    EXPECT(nanoseconds(&by_kernel) <= nanoseconds(&again));
    EXPECT(sched_getcpu() >= 0 && time(NULL) > 1600000000);

    _Alignas(64) static char area[16384];
    __get_cpuid(1, &a, &b, &c, &d);
    if (c & bit_OSXSAVE) {
        double value = 1.5, back;
        __asm__ volatile("movsd %0, %%xmm9" ::"m"(value) : "xmm9");
        _xsave64(area, 7);
        __asm__ volatile("xorps %%xmm9, %%xmm9" ::: "xmm9");
        _xrstor64(area, 7);
        __asm__ volatile("movsd %%xmm9, %0" : "=m"(back));
        EXPECT(back == 1.5);
    }
    puts("plausible");
    return 0;
}
