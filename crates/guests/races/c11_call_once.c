// A table that C11's call_once makes; the racy twin's threads each make it.
#include "twin.h"
#include <threads.h>
static once_flag made = ONCE_FLAG_INIT;
long table[8];
static void make(void) {
    for (int number = 0; number < 8; number++)
        table[number] = number; // race: table
    KEEP;
}
static void work(long number) {
    (void)number;
    UNLESS_RACY(call_once(&made, make);)
    IF_RACY(make();)
    KEEP;
    if (table[3] != 3) // race: table
        abort();
}
int main(void) {
    (void)made;
    run_threads();
    return 0;
}
