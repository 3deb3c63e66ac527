// Two fields of bits in one word are one word to threads; two members are not.
#include "twin.h"
struct {
    unsigned first : UNLESS_RACY(32) IF_RACY(12);
    unsigned second : UNLESS_RACY(32) IF_RACY(20);
} fields;
static void work(long number) {
    for (int round = 0; round < ROUNDS; round++) {
        if (number)
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
