// Each thread fills its half of an array; the racy twin's halves share an element.
#include "twin.h"
short elements[101];
static void work(long number) {
    long first = number * 50, last = first + 50;
    IF_RACY(last++;)
    for (long element = first; element < last; element++)
        elements[element] = (short)number; // race: elements
    KEEP;
}
int main(void) {
    run_threads();
    return elements[0] == 77;
}
