// thread_local objects with constructors and destructors, function statics initialised by
// the first of many threads, and the order of static destructors.
// flags: -O2 -pthread
#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "expect.h"

static std::atomic<int> made{0}, unmade{0}, initialised{0};

struct PerThread {
    std::string text = "spool";
    PerThread() { made++; }
    ~PerThread() { unmade += text.size() == 6; }
};

static thread_local PerThread mine;

static int once() {
    static int value = [] { return ++initialised; }();
    return value;
}

struct Last {
    ~Last() { std::puts("last of all"); }
};
static Last last;
static struct First {
    ~First() { std::puts("first to go"); }
} first;

int main() {
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; i++)
        threads.emplace_back([] {
            mine.text += "s";
            EXPECT(once() == 1);
        });
    for (auto &thread : threads)
        thread.join();
    std::printf("%d %d %d\n", made.load(), unmade.load(), initialised.load());
}
