// Calls functions that end in every way: by a return, with a function to which they jump, by an
// exception, and by longjmp; from several places, recursively, and on two threads.
// flags: -O2 -g -fno-inline -pthread
// variants: static

#include <csetjmp>
#include <cstdio>
#include <pthread.h>
#include <stdexcept>

#define APART __attribute__((noinline, noipa))

extern "C" {
APART long returns(long a, long b) { return a * 10 + b; }

// Jumps to `returns`.
APART long jumps(long a, long b) { return returns(a + 1, b); }

APART long recursive(long depth, long) {
    if (depth == 0)
        return 1;
    long below = recursive(depth - 1, 0);
    __asm__ volatile("" : "+r"(below));
    return below * 2 + 1;
}

// Two functions that jump to each other.
APART long odd(long number, long);
APART long even(long number, long) { return number == 0 ? 1 : odd(number - 1, 0); }
APART long odd(long number, long) { return number == 0 ? 0 : even(number - 1, 0); }

APART long throws(long number, long) {
    if (number > 0)
        throw std::runtime_error("thrown");
    return number;
}

APART long passes(long number, long) { return throws(number, 0) + 1; }

static thread_local jmp_buf place;

APART long leaps(long number, long) {
    longjmp(place, int(number));
}

APART long passes_leap(long number, long) { return leaps(number, 0) + 1; }

APART double floats(double a, long b, double c, float d) { return a * b + c / d; }

APART unsigned long loops(unsigned long count, long) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < count; i++) {
        sum += i * sum + 1;
        __asm__ volatile("" : "+r"(sum));
    }
    return sum;
}
}

static void *all(void *) {
    long sum = returns(1, 2) + returns(3, 4) + jumps(5, 6);
    sum += recursive(5, 0);
    sum += even(10, 0);
    for (int round = 0; round < 3; round++) {
        try {
            sum += passes(round, 0);
        } catch (const std::runtime_error &) {
            sum += 1000;
        }
        int leapt = setjmp(place);
        if (leapt == 0)
            passes_leap(7, 0);
        sum += leapt;
    }
    // What was left is followed by work that is not its.
    sum += long(loops(100000, 0) & 1);
    sum += long(floats(1.5, 2, 3.0, 2.0f) * 2);
    return reinterpret_cast<void *>(sum);
}

int main() {
    pthread_t other;
    void *theirs = nullptr;
    void *ours = all(nullptr);
    if (pthread_create(&other, nullptr, all, nullptr) != 0)
        return 1;
    pthread_join(other, &theirs);
    std::printf("%ld %ld\n", reinterpret_cast<long>(ours), reinterpret_cast<long>(theirs));
    return ours == theirs ? 0 : 1;
}
