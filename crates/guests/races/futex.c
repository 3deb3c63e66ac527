// A lock made of the kernel's futex, by hand.
#include "twin.h"
#include <linux/futex.h>
#include <sys/syscall.h>
static int word;
long counter;
static void take(void) {
    while (__atomic_exchange_n(&word, 2, __ATOMIC_ACQUIRE))
        syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
}
static void leave(void) {
    __atomic_store_n(&word, 0, __ATOMIC_RELEASE);
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        take();
        IF_RACY(leave();)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(leave();)
    }
}
int main(void) {
    run_threads();
    return counter == 0;
}
