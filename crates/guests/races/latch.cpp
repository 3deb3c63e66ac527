// std::latch: what came before it is known behind it.
// flags: -std=c++20
#include <latch>
#include <pthread.h>
#include <thread>
static pthread_barrier_t together;
static std::latch both_written(2);
long cells[2], seen[2];
static void work(int number) {
    pthread_barrier_wait(&together);
    cells[number] = number + 1; // race: cells
    asm volatile("" ::: "memory");
#ifndef RACY
    both_written.arrive_and_wait();
#endif
    seen[number] = cells[1 - number]; // race: cells
    asm volatile("" ::: "memory");
}
int main() {
    pthread_barrier_init(&together, nullptr, 2);
    std::thread first(work, 0), second(work, 1);
    first.join();
    second.join();
    return seen[0] == 9;
}
