// A child has the FS base that its parent's thread has at that moment, whatever the C library had
// it set to, if the parent does not ask for another one (CLONE_SETTLS): made by fork, by clone and
// by vfork.
// flags: -O1 -fno-stack-protector -D_GNU_SOURCE
#include <asm/prctl.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "expect.h"

enum { MARK = 0x1234567, OTHER = 0x7654321, RIGHT = 3, WRONG = 4 };

static long own[16], other[16], stack[1024];

// Without the C library, which keeps its own things where FS points to.
static inline long call(long number, long first, long second, long third, long fourth, long fifth) {
    register long r10 asm("r10") = fourth;
    register long r8 asm("r8") = fifth;
    long result;
    asm volatile("syscall"
                 : "=a"(result)
                 : "0"(number), "D"(first), "S"(second), "d"(third), "r"(r10), "r"(r8)
                 : "rcx", "r11", "memory");
    return result;
}

static inline long word_in_segment(void) {
    long word;
    asm volatile("mov %%fs:8, %0" : "=r"(word) : : "memory");
    return word;
}

static inline int has(long *area, long mark) {
    long base = 0;
    call(SYS_arch_prctl, ARCH_GET_FS, (long)&base, 0, 0, 0);
    return base == (long)area && word_in_segment() == mark;
}

// How the child of a system call ends that is made while FS points to `own`.
static int ending(long number, long flags, long tls) {
    long before = 0, status = 0;
    call(SYS_arch_prctl, ARCH_GET_FS, (long)&before, 0, 0, 0);
    call(SYS_arch_prctl, ARCH_SET_FS, (long)own, 0, 0, 0);
    long child;
    if (number == SYS_clone) {
        long top = flags & CLONE_VM ? (long)(stack + 1024) : 0;
        child = call(SYS_clone, flags | SIGCHLD, top, 0, 0, tls);
    } else {
        child = call(number, 0, 0, 0, 0, 0);
    }
    if (child == 0) {
        int right = tls ? has(other, OTHER) : has(own, MARK);
        // Nor does what the child sets reach its parent.
        call(SYS_arch_prctl, ARCH_SET_FS, (long)other, 0, 0, 0);
        right &= has(other, OTHER);
        call(SYS_exit, right ? RIGHT : WRONG, 0, 0, 0, 0);
    }
    call(SYS_wait4, child, (long)&status, 0, 0, 0);
    int still = has(own, MARK);
    call(SYS_arch_prctl, ARCH_SET_FS, before, 0, 0, 0);
    return child > 0 && still && WIFEXITED((int)status) ? WEXITSTATUS((int)status) : -1;
}

int main(void) {
    own[1] = MARK;
    other[1] = OTHER;
    for (int round = 0; round < 20; round++) {
        EXPECT(ending(SYS_fork, 0, 0) == RIGHT);
        EXPECT(ending(SYS_clone, 0, 0) == RIGHT);
        EXPECT(ending(SYS_clone, CLONE_VFORK, 0) == RIGHT);
        EXPECT(ending(SYS_clone, CLONE_VM | CLONE_VFORK, 0) == RIGHT);
        EXPECT(ending(SYS_clone, CLONE_SETTLS, (long)other) == RIGHT);
        EXPECT(ending(SYS_clone, CLONE_VM | CLONE_VFORK | CLONE_SETTLS, (long)other) == RIGHT);
    }
    puts("each child had its thread pointer");
    return 0;
}
