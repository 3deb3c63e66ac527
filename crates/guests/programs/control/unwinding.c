// libunwind walks the stack, through a signal frame too, and names the functions.
// flags: -O1 -fno-inline -fno-optimize-sibling-calls -g
// libraries: -lunwind
// needs: file /usr/include/x86_64-linux-gnu/libunwind.h
#define UNW_LOCAL_ONLY
#include <libunwind.h>
#include <signal.h>

#include "expect.h"

extern char start_of_program __asm__("__executable_start"), end_of_program __asm__("etext");

static void walk(void) {
    unw_context_t context;
    unw_cursor_t cursor;
    EXPECT(unw_getcontext(&context) == 0 && unw_init_local(&cursor, &context) == 0);
    do {
        char name[100];
        unw_word_t offset, pc, stack;
        EXPECT(unw_get_reg(&cursor, UNW_REG_IP, &pc) == 0 && pc != 0);
        EXPECT(unw_get_reg(&cursor, UNW_REG_SP, &stack) == 0 && stack != 0);
        int own = (char *)pc >= &start_of_program && (char *)pc < &end_of_program;
        if (own && unw_get_proc_name(&cursor, name, sizeof name, &offset) == 0)
            printf("%s\n", name);
        if (unw_is_signal_frame(&cursor) > 0)
            puts("(signal)");
    } while (unw_step(&cursor) > 0);
}

__attribute__((noinline)) int third(int value) {
    walk();
    return value + 1;
}

__attribute__((noinline)) int second(int value) { return third(value) + 1; }

__attribute__((noinline)) int first(int value) { return second(value) + 1; }

static void handler(int signal) { EXPECT(first(signal) == signal + 3); }

int main(void) {
    EXPECT(first(0) == 3);
    signal(SIGUSR1, handler);
    raise(SIGUSR1);
    return 0;
}
