// Phases between which a barrier of C++20 stands, or does not.
// flags: -std=c++20
#include "twin.h"
#include <barrier>
static std::barrier phase(2);
long parts[2];
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        parts[number] = round; // race: parts
        KEEP;
        UNLESS_RACY(phase.arrive_and_wait();)
        if (parts[!number] == -1) // race: parts
            abort();
        UNLESS_RACY(phase.arrive_and_wait();)
    }
}
int main() {
    run_threads();
}
