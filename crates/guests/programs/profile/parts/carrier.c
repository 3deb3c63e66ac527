// The library that frames opens.

double carry(double (*work)(double), double seconds);
double carry(double (*work)(double), double seconds) {
    // What follows the call keeps it from being a tail call.
    return work(seconds) + 1;
}
