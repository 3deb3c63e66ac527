// Two threads call one function for the first time from each of 2,000 places, at the same moment;
// its results are what they should be.
// flags: -O1 -pthread
#include <array>
#include <atomic>
#include <cstdio>
#include <pthread.h>
#include <sched.h>
#include <utility>

#include "../expect.h"

constexpr std::size_t PLACES = 2000;

extern "C" __attribute__((noinline)) long chosen(long n) {
    __asm__ volatile("");
    return 2 * n + 1;
}

template <std::size_t place> __attribute__((noinline)) long call() {
    return chosen((long)place) - (long)place;
}

template <std::size_t... places>
constexpr std::array<long (*)(), PLACES> each(std::index_sequence<places...>) {
    return {call<places>...};
}

static constexpr auto CALLS = each(std::make_index_sequence<PLACES>());
static std::atomic<std::size_t> arrived;

static void *work(void *) {
    for (std::size_t place = 0; place < PLACES; place++) {
        arrived.fetch_add(1);
        for (int turns = 0; arrived.load() < 2 * (place + 1); turns++)
            if (turns > 1000)
                sched_yield();
        EXPECT(CALLS[place]() == (long)place + 1);
    }
    return nullptr;
}

int main() {
    pthread_t other;
    EXPECT(pthread_create(&other, nullptr, work, nullptr) == 0);
    work(nullptr);
    EXPECT(pthread_join(other, nullptr) == 0);
    printf("as it should be\n");
}
