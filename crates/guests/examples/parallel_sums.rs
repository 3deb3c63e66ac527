//! Work stealing with rayon: sums, sorts and joins on a pool of three threads. Prints only
//! what does not depend on who did the work.
use rayon::prelude::*;

fn quick_sum(numbers: &[u64]) -> u64 {
    if numbers.len() < 100 {
        return numbers.iter().sum();
    }
    let (left, right) = numbers.split_at(numbers.len() / 2);
    let (left, right) = rayon::join(|| quick_sum(left), || quick_sum(right));
    left + right
}

fn main() {
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(3)
        .build()
        .expect("threads start");
    pool.install(|| {
        let mut numbers: Vec<u64> = (0..20_000u64)
            .into_par_iter()
            .map(|i| i.wrapping_mul(2_654_435_761) % 10_007)
            .collect();
        let sum: u64 = numbers.par_iter().sum();
        assert_eq!(sum, quick_sum(&numbers));
        numbers.par_sort_unstable();
        let ascending = numbers.par_windows(2).all(|pair| pair[0] <= pair[1]);
        println!(
            "{sum} {ascending} {:?}",
            numbers.par_iter().position_first(|&n| n > 5_000)
        );
    });
}
