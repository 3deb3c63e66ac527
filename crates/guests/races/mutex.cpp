// std::mutex and std::thread.
#include <mutex>
#include <pthread.h>
#include <thread>
static pthread_barrier_t together;
static std::mutex mutex;
long counter;
static void add() {
    pthread_barrier_wait(&together);
    for (int round = 0; round < 20; round++) {
#ifndef RACY
        std::lock_guard<std::mutex> guard(mutex);
#endif
        counter++; // race: counter
        asm volatile("" ::: "memory");
    }
}
int main() {
    pthread_barrier_init(&together, nullptr, 2);
    std::thread first(add), second(add);
    first.join();
    second.join();
    return counter == 0;
}
