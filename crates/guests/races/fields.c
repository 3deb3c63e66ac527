// Threads write fields of one structure that lie in the same word; the racy twin's the same field.
#include "twin.h"
struct { char first; short second; int third; } fields;
static void work(long number) {
    if (number == 0) {
        fields.third = 1; // race: fields
        KEEP;
    } else {
        UNLESS_RACY(fields.second = 2;) IF_RACY(fields.third = 2;) // race: fields
        KEEP;
    }
}
int main(void) {
    run_threads();
    return 0;
}
