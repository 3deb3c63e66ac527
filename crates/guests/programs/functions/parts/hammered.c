// The library of libraries_and_threads: its constructor calls its function, too.

void note_call(void);

__attribute__((noinline)) int hammered(int number) {
    note_call();
    return number + 1;
}

__attribute__((constructor)) static void begin(void) {
    hammered(1);
}
