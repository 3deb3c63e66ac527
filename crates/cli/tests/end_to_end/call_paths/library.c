// Calls what it is given, through its own table of addresses.
#include <stddef.h>

volatile int behind_in_library;

__attribute__((noinline)) void passes_on(void (*call)(size_t), size_t size)
{
    call(size);
    behind_in_library++;
}

void enters(void (*call)(size_t), size_t size)
{
    passes_on(call, size);
    behind_in_library++;
}
