// What a std::jthread has written is read where it has been joined, or before.
// flags: -std=c++20
#define OWN_THREADS
#include "twin.h"
#include <thread>
long value;
int main() {
    long seen = 0;
    {
        std::jthread thread([] {
            value = 1; // race: value
            KEEP;
        });
        IF_RACY(seen = value;) // race: value
        KEEP;
    }
    seen += value;
    return seen == 7;
}
