// std::thread, async, promises, shared mutexes, condition variables, call_once, latches.
// flags: -O2 -pthread -std=c++20
#include <barrier>
#include <condition_variable>
#include <future>
#include <latch>
#include <numeric>
#include <shared_mutex>
#include <thread>
#include <vector>

#include "expect.h"

int main() {
    std::vector<std::future<long>> parts;
    for (long part = 0; part < 8; part++)
        parts.push_back(std::async(std::launch::async, [part] {
            std::vector<long> numbers(1000);
            std::iota(numbers.begin(), numbers.end(), part * 1000);
            return std::accumulate(numbers.begin(), numbers.end(), 0L);
        }));
    long sum = 0;
    for (auto &part : parts)
        sum += part.get();

    std::shared_mutex mutex;
    std::latch start(4);
    std::barrier phases(4);
    long guarded = 0;
    {
        std::vector<std::jthread> threads;
        for (int i = 0; i < 4; i++)
            threads.emplace_back([&] {
                start.arrive_and_wait();
                for (int phase = 0; phase < 20; phase++) {
                    {
                        std::unique_lock lock(mutex);
                        guarded++;
                    }
                    phases.arrive_and_wait();
                    std::shared_lock lock(mutex);
                    EXPECT(guarded >= 4 * (phase + 1));
                }
            });
    }
    std::promise<int> promise;
    std::jthread giver([&] { promise.set_value(17); });
    std::printf("%ld %ld %d\n", sum, guarded, promise.get_future().get());
}
