// Exceptions through hundreds of frames with destructors, through C code, rethrown in other
// threads, and thrown by a handler of a fault.
// flags: -O1 -std=c++20 -fnon-call-exceptions -fno-inline -pthread -D_GNU_SOURCE
// variants: static
#include <csignal>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "expect.h"

static long alive, died;

struct Counted {
    Counted() { alive++; }
    ~Counted() { alive--, died++; }
};

static int deep(int left) {
    Counted counted;
    if (left == 0)
        throw std::runtime_error("from below");
    return deep(left - 1) + 1;
}

static int compare(const void *left, const void *right) {
    Counted counted;
    if (*(const int *)left == 7)
        throw std::string("in a comparison");
    return *(const int *)left - *(const int *)right;
}

// A comparison that sorts, and lets out what its own comparisons throw.
static int sort_inside(const void *left, const void *right) {
    Counted counted;
    int numbers[] = {*(const int *)left, 7, *(const int *)right};
    void (*volatile sort)(void *, size_t, size_t, int (*)(const void *, const void *)) = qsort;
    sort(numbers, 3, sizeof numbers[0], compare);
    return 0;
}

struct Fault {
    void *address;
};

static void handler(int number, siginfo_t *information, void *) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, nullptr);
    throw Fault{information->si_addr};
}

__attribute__((noinline)) static int load(volatile int *place) {
    Counted counted;
    return *place;
}

int main() {
    for (int i = 0; i < 3; i++) {
        try {
            deep(200);
            return 1;
        } catch (const std::runtime_error &problem) {
            EXPECT(alive == 0 && problem.what() == std::string("from below"));
        }
    }
    printf("%ld destroyed\n", died);
    // The library's own code, and not what its headers put in its place.
    void (*volatile sort)(void *, size_t, size_t, int (*)(const void *, const void *)) = qsort;
    void *(*volatile search)(const void *, const void *, size_t, size_t,
                             int (*)(const void *, const void *)) = bsearch;
    // Small enough for the stack, and large enough for the heap.
    for (int count : {50, 5000}) {
        std::string numbers(count * sizeof(int), 0);
        int *first = reinterpret_cast<int *>(numbers.data());
        for (auto by : {compare, sort_inside}) {
            for (int i = 0; i < count; i++)
                first[i] = (i * 7) % count;
            try {
                sort(first, count, sizeof(int), by);
                return 1;
            } catch (const std::string &what) {
                EXPECT(alive == 0);
                puts(what.c_str());
            }
            for (int i = 0; i < count; i++)
                first[i] = i;
            int wanted = 7;
            try {
                search(&wanted, first, count, sizeof(int), by);
                return 1;
            } catch (const std::string &what) {
                EXPECT(alive == 0);
                puts(what.c_str());
            }
            wanted = count - 1;
            if (by == compare)
                EXPECT(search(&wanted, first, count, sizeof(int), by) == first + wanted);
        }
    }
    struct sigaction action = {};
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    sigaction(SIGSEGV, &action, nullptr);
    int faults = 0;
    for (int i = 0; i < 100; i++) {
        try {
            load(reinterpret_cast<int *>(16L * i + 8));
        } catch (const Fault &fault) {
            EXPECT(fault.address == reinterpret_cast<void *>(16L * i + 8) && alive == 0);
            faults++;
        }
    }
    printf("%d faults\n", faults);
    std::exception_ptr kept;
    std::thread([&] {
        try {
            deep(100);
        } catch (...) {
            kept = std::current_exception();
        }
    }).join();
    try {
        std::rethrow_exception(kept);
    } catch (const std::exception &problem) {
        puts(problem.what());
    }
    return 0;
}
