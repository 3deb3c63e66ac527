// std::binary_semaphore hands over a value.
// flags: -std=c++20
#include <pthread.h>
#include <semaphore>
#include <thread>
static pthread_barrier_t together;
static std::binary_semaphore full(0);
long slot, seen;
static void give() {
    pthread_barrier_wait(&together);
    slot = 4; // race: slot
    asm volatile("" ::: "memory");
    full.release();
}
static void take() {
    pthread_barrier_wait(&together);
#ifndef RACY
    full.acquire();
#endif
    seen = slot; // race: slot
    asm volatile("" ::: "memory");
}
int main() {
    pthread_barrier_init(&together, nullptr, 2);
    std::thread first(give), second(take);
    first.join();
    second.join();
    return seen == 1;
}
