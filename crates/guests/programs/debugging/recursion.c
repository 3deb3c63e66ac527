// Calls itself a hundred times, with a little more than 1 KiB of stack each time.
// flags: -g -O1 -fno-optimize-sibling-calls
#include <stdio.h>

int depth;

__attribute__((noinline)) int descend(int left) {
    volatile char block[1024];
    block[left] = (char)left;
    depth++;
    int sum = left == 0 ? 0 : left + descend(left - 1);
    depth--;
    return sum + block[left] - left;
}

int main(void) {
    printf("%d\n", descend(100));
    return 0;
}
