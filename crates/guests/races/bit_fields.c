// Two fields of bits side by side are one word to threads; behind one of no width a new word begins.
#include "twin.h"
struct {
    unsigned first : 12;
    UNLESS_RACY(unsigned : 0;)
    unsigned second : 20;
} fields;
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        if (number) // race: fields
            fields.first = round; // race: fields
        else
            fields.second = round; // race: fields
        KEEP;
    }
}
int main(void) {
    run_threads();
    return fields.first == 1;
}
