// Links with whatever its compiler adds, and needs nothing.

int main(void) {
    return 0;
}
