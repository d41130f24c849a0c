//! Random and pseudo-random functions of pgbench's expressions: distributions, hashes, permutations.
//!
//! Promises: distributions are those that PostgreSQL's manual defines; hashes have the values that it gives. What is
//! drawn from a seed is this program's own, and so is which permutation a seed stands for.

use gnomon_engine::env::Rng;

/// An integer from `low` to `high`, all equally likely.
///
/// # Errors
/// That there is none, or that there are more than 2^63.
pub fn uniform(rng: &mut Rng, low: i64, high: i64) -> Result<i64, String> {
    Ok(low + rng.below(count(low, high)?) as i64)
}

/// As [`uniform`], the less likely the farther from `low`: exponentially, cut off at `parameter`.
///
/// # Errors
/// Those, and a parameter that is not positive.
pub fn exponential(rng: &mut Rng, low: i64, high: i64, parameter: f64) -> Result<i64, String> {
    let count = count(low, high)?;
    if parameter.is_nan() || parameter <= 0.0 {
        return Err(format!(
            "the parameter of random_exponential must be greater than 0, and is {parameter}"
        ));
    }
    let cut = (-parameter).exp();
    let place = -(cut + (1.0 - cut) * (1.0 - rng.unit())).ln() / parameter;
    Ok(low + at(place, count))
}

/// As [`uniform`], the likelier the nearer to the middle: a normal distribution, cut off at `parameter` deviations.
///
/// # Errors
/// Those, and a parameter below 2.
pub fn gaussian(rng: &mut Rng, low: i64, high: i64, parameter: f64) -> Result<i64, String> {
    let count = count(low, high)?;
    if parameter.is_nan() || parameter < 2.0 {
        return Err(format!("the parameter of random_gaussian must be at least 2, and is {parameter}"));
    }
    // Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958.
    let deviations = loop {
        let radius = (-2.0 * (1.0 - rng.unit()).ln()).sqrt();
        let deviations = radius * (std::f64::consts::TAU * rng.unit()).sin();
        if (-parameter..parameter).contains(&deviations) {
            break deviations;
        }
    };
    Ok(low + at((deviations + parameter) / (2.0 * parameter), count))
}

/// As [`uniform`], the k-th as likely as 1 / k^parameter (Zipf's law).
///
/// # Errors
/// Those, and a parameter that is not from 1.001 to 1000.
pub fn zipfian(rng: &mut Rng, low: i64, high: i64, parameter: f64) -> Result<i64, String> {
    let count = count(low, high)?;
    if !(1.001..=1000.0).contains(&parameter) {
        return Err(format!(
            "the parameter of random_zipfian must be from 1.001 to 1000, and is {parameter}"
        ));
    }
    // By rejection: Devroye, "Non-Uniform Random Variate Generation", 1986, section X.6.1.
    let power = parameter - 1.0;
    let b = 2f64.powf(power);
    loop {
        let (u, v) = (1.0 - rng.unit(), rng.unit());
        let rank = u.powf(-1.0 / power).floor();
        let t = (1.0 + 1.0 / rank).powf(power);
        if rank <= count as f64 && v * rank * (t - 1.0) / (b - 1.0) <= t / b {
            return Ok(low + (rank as u64 - 1).min(count - 1) as i64);
        }
    }
}

/// How many integers a range has.
fn count(low: i64, high: i64) -> Result<u64, String> {
    if high < low {
        return Err(format!("there is no integer from {low} to {high}"));
    }
    match high.checked_sub(low).and_then(|more| more.checked_add(1)) {
        Some(count) => Ok(count as u64),
        None => Err(format!("there are too many integers from {low} to {high}")),
    }
}

/// The number below `count` at a place from 0 to 1.
fn at(place: f64, count: u64) -> i64 {
    // Rounding may bring it to the end.
    ((place * count as f64) as u64).min(count - 1) as i64
}

/// FNV-1a of the eight bytes of a value, the least first; the seed changes where it begins.
pub fn fnv1a(value: i64, seed: i64) -> i64 {
    let begin = 0xcbf2_9ce4_8422_2325_u64 ^ seed as u64;
    let hash = value
        .to_le_bytes()
        .into_iter()
        .fold(begin, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    hash as i64
}

/// MurmurHash2 (64A) of the eight bytes of a value.
pub fn murmur2(value: i64, seed: i64) -> i64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    const R: u32 = 47;
    let mut key = (value as u64).wrapping_mul(M);
    key ^= key >> R;
    key = key.wrapping_mul(M);
    let mut hash = ((seed as u64 ^ 8_u64.wrapping_mul(M)) ^ key).wrapping_mul(M);
    hash ^= hash >> R;
    hash = hash.wrapping_mul(M);
    (hash ^ (hash >> R)) as i64
}

/// Where a number, modulo `size`, is in the permutation of the numbers below `size` that a seed stands for.
///
/// # Errors
/// A size that is not positive.
pub fn permute(number: i64, size: i64, seed: i64) -> Result<i64, String> {
    if size <= 0 {
        return Err(format!("the size of a permutation must be greater than 0, and is {size}"));
    }
    // A Feistel network permutes the numbers of two halves of so many bits; a result beyond is permuted again (Black
    // and Rogaway, "Ciphers with Arbitrary Finite Domains", 2002).
    let half = (64 - (size as u64 - 1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1_u64 << half) - 1;
    let mut place = number.rem_euclid(size) as u64;
    loop {
        let (mut left, mut right) = (place >> half, place & mask);
        for round in 0..6 {
            let mixed = murmur2(right as i64, seed.wrapping_add(round)) as u64 & mask;
            (left, right) = (right, left ^ mixed);
        }
        place = (left << half) | right;
        if place < size as u64 {
            return Ok(place as i64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each number from 1 to 10 is drawn of so many.
    fn drawn(draw: impl Fn(&mut Rng) -> Result<i64, String>) -> Vec<f64> {
        const DRAWS: u32 = 100_000;
        let mut rng = Rng::from_seed(7);
        let mut counts = [0_u32; 10];
        for _ in 0..DRAWS {
            counts[draw(&mut rng).unwrap() as usize - 1] += 1;
        }
        counts.iter().map(|&count| f64::from(count) / f64::from(DRAWS)).collect()
    }

    fn assert_near(drawn: &[f64], expected: impl Fn(f64) -> f64) {
        for (number, share) in drawn.iter().enumerate() {
            let expected = expected(number as f64 + 1.0);
            assert!((share - expected).abs() < 0.006, "{}: {share}, not {expected}", number + 1);
        }
    }

    #[test]
    fn distributions_are_those_of_the_manual() {
        assert_near(&drawn(|rng| uniform(rng, 1, 10)), |_| 0.1);
        let exponent = |x: f64| (-3.0 * (x - 1.0) / 10.0).exp() / (1.0 - (-3.0_f64).exp());
        assert_near(&drawn(|rng| exponential(rng, 1, 10, 3.0)), |i| exponent(i) - exponent(i + 1.0));
        let sum: f64 = (1..=10).map(|k| f64::from(k).powf(-1.5)).sum();
        assert_near(&drawn(|rng| zipfian(rng, 1, 10, 1.5)), |k| k.powf(-1.5) / sum);
        let gaussian = drawn(|rng| gaussian(rng, 1, 10, 2.5));
        // PHI(0.5) - PHI(0) and PHI(2.5) - PHI(2), of 2 PHI(2.5) - 1.
        for (number, expected) in [(5, 0.1915), (6, 0.1915), (1, 0.0165), (10, 0.0165)] {
            let share = gaussian[number - 1];
            assert!((share - expected / 0.9876).abs() < 0.006, "{number}: {share}");
        }
    }

    #[test]
    fn no_number_is_left_out() {
        let mut rng = Rng::from_seed(3);
        let drawn: std::collections::BTreeSet<i64> =
            (0..100_000).map(|_| zipfian(&mut rng, 1, 49, 1.1).unwrap()).collect();
        assert_eq!(drawn, (1..=49).collect());
    }

    #[test]
    fn ranges_and_parameters_that_make_no_sense_are_refused() {
        let mut rng = Rng::from_seed(1);
        assert!(uniform(&mut rng, 2, 1).is_err() && uniform(&mut rng, i64::MIN, i64::MAX).is_err());
        assert_eq!(uniform(&mut rng, 5, 5), Ok(5));
        for wrong in [0.0, -1.0, f64::NAN] {
            assert!(exponential(&mut rng, 1, 2, wrong).is_err());
            assert!(gaussian(&mut rng, 1, 2, wrong).is_err());
            assert!(zipfian(&mut rng, 1, 2, wrong).is_err());
        }
        assert!(permute(1, 0, 1).is_err());
    }

    #[test]
    fn hashes_are_those_of_the_manual() {
        assert_eq!(murmur2(10, 5432), -5_817_877_081_768_721_676);
        assert_eq!(fnv1a(10, 5432), -7_793_829_335_365_542_153);
    }

    #[test]
    fn permutations_have_every_number_once() {
        for size in [1, 2, 3, 7, 64, 1000] {
            let mut places: Vec<i64> = (0..size).map(|number| permute(number, size, 42).unwrap()).collect();
            assert_eq!(permute(size + 1, size, 42).unwrap(), places[1 % size as usize]);
            if size == 1000 {
                assert_ne!(places, (0..size).map(|n| permute(n, size, 43).unwrap()).collect::<Vec<_>>());
                assert_ne!(places, (0..size).collect::<Vec<_>>());
            }
            places.sort_unstable();
            assert_eq!(places, (0..size).collect::<Vec<_>>());
        }
        assert!((0..i64::MAX).contains(&permute(-1, i64::MAX, 1).unwrap()));
    }
}
