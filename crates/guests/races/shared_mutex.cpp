// std::shared_mutex: one writes, or several read.
// flags: -std=c++20
#include <mutex>
#include <pthread.h>
#include <shared_mutex>
#include <thread>
static pthread_barrier_t together;
static std::shared_mutex mutex;
long value, sums[2];
static void work(int number) {
    pthread_barrier_wait(&together);
    for (int round = 0; round < 20; round++) {
        if (number == 0) {
#ifndef RACY
            std::unique_lock<std::shared_mutex> guard(mutex);
#endif
            value++; // race: value
            asm volatile("" ::: "memory");
        } else {
#ifndef RACY
            std::shared_lock<std::shared_mutex> guard(mutex);
#endif
            sums[number - 1] += value; // race: value
            asm volatile("" ::: "memory");
        }
    }
}
int main() {
    pthread_barrier_init(&together, nullptr, 3);
    std::thread first(work, 0), second(work, 1), third(work, 2);
    first.join();
    second.join();
    third.join();
    return value == 0;
}
