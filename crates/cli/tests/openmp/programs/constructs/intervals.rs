// Intervals that a program in Rust tells of itself; the region is C's.

unsafe extern "C" {
    fn region();
}

fn main() {
    for _ in 0..2 {
        unspool_annotate::begin_interval(c"step");
        unspool_annotate::begin_interval(c"inner");
        unsafe { region() };
        unspool_annotate::end_interval();
        unspool_annotate::end_interval();
    }
    unspool_annotate::begin_interval(c"alone");
    unspool_annotate::end_interval();
    println!("done");
}
