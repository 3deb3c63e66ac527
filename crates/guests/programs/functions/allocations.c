// Allocates as many blocks of ten bytes as its argument says, and gives them back.
// flags: -O2
// arguments: 20
// variants: static

#include <stdlib.h>

int main(int count, char **arguments) {
    long blocks = count > 1 ? atol(arguments[1]) : 0;
    for (long i = 0; i < blocks; i++) {
        char *volatile block = malloc(10);
        if (block == NULL)
            return 1;
        block[9] = 1;
        free(block);
    }
    return 0;
}
