// std::atomic::wait: a value is read behind the notification.
// flags: -std=c++20
#include <atomic>
#include <pthread.h>
#include <thread>
static pthread_barrier_t together;
static std::atomic<int> is_ready(0);
long value, seen;
static void give() {
    pthread_barrier_wait(&together);
    value = 6; // race: value
    asm volatile("" ::: "memory");
    is_ready.store(1, std::memory_order_release);
    is_ready.notify_one();
}
static void take() {
    pthread_barrier_wait(&together);
#ifndef RACY
    is_ready.wait(0, std::memory_order_acquire);
#endif
    seen = value; // race: value
    asm volatile("" ::: "memory");
}
int main() {
    pthread_barrier_init(&together, nullptr, 2);
    std::thread first(give), second(take);
    first.join();
    second.join();
    return seen == 1;
}
