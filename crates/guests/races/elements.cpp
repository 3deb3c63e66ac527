// Each thread changes its elements of a vector; the racy twin's threads change all.
#include "twin.h"
#include <vector>
static std::vector<long> *elements;
static void work(long number) {
    for (size_t element = UNLESS_RACY(number) IF_RACY(0); element < elements->size(); element += UNLESS_RACY(2) IF_RACY(1))
        elements->data()[element] = number; // race: -
    KEEP;
}
int main() {
    std::vector<long> all(32);
    elements = &all;
    run_threads();
    return all[0] == 7;
}
