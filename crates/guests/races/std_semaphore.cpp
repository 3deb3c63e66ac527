// A binary semaphore of C++20 as a lock.
// flags: -std=c++20
#include "twin.h"
#include <semaphore>
static std::binary_semaphore one(1);
long counter;
static void work(long number) {
    (void)number;
    for (int round = 0; round < ROUNDS; round++) {
        UNLESS_RACY(one.acquire();)
        counter++; // race: counter
        KEEP;
        UNLESS_RACY(one.release();)
    }
}
int main() {
    run_threads();
    return counter == 0;
}
